/*
 * The remote log: records in group commits, durable once they are waited for, and
 * read as librpma's example lays them out.
 */
#include "flow.h"

#include <farword_rpma.h>

const char flow_name[] = "log";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		       RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

#define USED 8
#define FIRST 16
#define RECORDS 40

void flow_serve(struct side *side)
{
	uint64_t *used = (uint64_t *)(side->memory + USED);

	memset(side->memory, 0, REGION_LEN);
	*used = FIRST;

	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
	const char *at = side->memory + FIRST;

	for (int i = 0; i < RECORDS; i++) {
		char text[32];

		snprintf(text, sizeof(text), "record %d", i);
		MUST(strcmp(at, text) == 0);
		at += strlen(at) + 1;
	}
	MUST((uint64_t)(at - side->memory) == *used);
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);
	struct farword_log *log = NULL;
	uint64_t tail = 0, durable = 0;
	char *large = calloc(1, 2 * REGION_LEN);

	MUST(farword_log_open(NULL, remote, USED, side->mr, 1000, &log) == RPMA_E_INVAL);
	MUST(farword_log_open(conn, NULL, USED, side->mr, 1000, &log) == RPMA_E_INVAL);
	MUST(farword_log_open(conn, remote, USED, NULL, 1000, &log) == RPMA_E_INVAL);
	MUST(farword_log_open(conn, remote, 12, side->mr, 1000, &log) == RPMA_E_INVAL);
	MUST(farword_log_open(conn, remote, REGION_LEN, side->mr, 1000, &log) == RPMA_E_INVAL);
	MUST(farword_log_open(conn, remote, USED, side->mr, -1, &log) == RPMA_E_INVAL);
	MUST(farword_log_open(conn, remote, USED, side->mr, 1000, NULL) == RPMA_E_INVAL && !log);
	WELL(farword_log_open(conn, remote, USED, side->mr, 10000, &log));
	for (int i = 0; i < RECORDS; i++) {
		char text[32];
		int len = snprintf(text, sizeof(text), "record %d", i);

		WELL(farword_log_append(log, text, (size_t)len, &tail));
		if (i % 8 == 7)
			WELL(farword_log_commit(log, &tail));
	}
	MUST(farword_log_append(log, large, 2 * REGION_LEN, &tail) == RPMA_E_INVAL);
	MUST(farword_log_append(log, large, REGION_LEN - 64, &tail) == RPMA_E_NOMEM);
	MUST(farword_log_append(log, NULL, 1, &tail) == RPMA_E_INVAL);
	WELL(farword_log_wait(log, tail));
	WELL(farword_log_poll(log, &durable));
	MUST(durable == tail);
	WELL(farword_log_close(&log));
	MUST(!log && farword_log_append(log, "x", 1, &tail) == RPMA_E_INVAL);
	free(large);
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
