/* Several connections of one peer at a time, each with its own part. */
#include "flow.h"

const char flow_name[] = "connections";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		       RPMA_MR_USAGE_READ_DST;

#define CONNECTIONS 4
#define PART (REGION_LEN / CONNECTIONS)

void flow_serve(struct side *side)
{
	struct rpma_conn *conns[CONNECTIONS];
	uint32_t numbers[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++) {
		conns[i] = accept_one(side, NULL);
		WELL(rpma_conn_get_qp_num(conns[i], &numbers[i]));
		for (int other = 0; other < i; other++)
			MUST(numbers[i] != numbers[other]);
	}
	for (int i = 0; i < CONNECTIONS; i++)
		await_end(&conns[i]);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		MUST(filled(side->memory + i * PART, PART, i));
}

void flow_call(struct side *side)
{
	struct rpma_conn *conns[CONNECTIONS];
	struct rpma_mr_remote *remotes[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++) {
		conns[i] = call_one(side, NULL);
		remotes[i] = remote_from(conns[i]);
	}
	for (unsigned i = 0; i < CONNECTIONS; i++)
		fill(side->memory + i * PART, PART, i);
	/* All are under way before any is waited for. */
	for (size_t i = 0; i < CONNECTIONS; i++)
		WELL(rpma_write(conns[i], remotes[i], i * PART, side->mr, i * PART, PART,
				RPMA_F_COMPLETION_ALWAYS, (void *)i));
	for (size_t i = 0; i < CONNECTIONS; i++)
		MUST(await_wc(conns[CONNECTIONS - 1 - i]).wr_id == CONNECTIONS - 1 - i);
	memset(side->memory, 0, REGION_LEN);
	/* What one wrote, the next reads. */
	for (size_t i = 0; i < CONNECTIONS; i++) {
		size_t next = (i + 1) % CONNECTIONS;

		WELL(rpma_read(conns[next], side->mr, i * PART, remotes[next], i * PART, PART,
			       RPMA_F_COMPLETION_ALWAYS, NULL));
		(void)await_wc(conns[next]);
		MUST(filled(side->memory + i * PART, PART, (unsigned)i));
	}
	/* Ended in another order than they were begun. */
	for (int i = CONNECTIONS - 1; i >= 0; i--) {
		WELL(rpma_mr_remote_delete(&remotes[i]));
		WELL(rpma_conn_disconnect(conns[i]));
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		await_event(conns[i], RPMA_CONN_CLOSED);
		WELL(rpma_conn_delete(&conns[i]));
	}
}
