/*
 * Records and their tail: data, flush, atomic write of the tail, flush. The
 * server watches the tail all the while: it never goes back, and what lies
 * before it is there.
 */
#include "flow.h"

const char flow_name[] = "atomic_write";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
		       RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

#define RECORDS 60
#define RECORD 100
#define TAIL 8
#define DATA 64

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);
	volatile uint64_t *tail = (volatile uint64_t *)(side->memory + TAIL);
	uint64_t seen = 0;

	while (seen < RECORDS * RECORD) {
		uint64_t now = *tail;

		MUST(now >= seen && now % RECORD == 0 && now <= RECORDS * RECORD);
		for (; seen < now; seen += RECORD)
			MUST(filled(side->memory + DATA + seen, RECORD, (unsigned)(seen / RECORD)));
	}
	await_end(&conn);
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);

	for (size_t i = 0; i < RECORDS; i++) {
		uint64_t tail = (i + 1) * RECORD;
		char word[8];

		fill(side->memory, RECORD, (unsigned)i);
		WELL(rpma_write(conn, remote, DATA + i * RECORD, side->mr, 0, RECORD,
				RPMA_F_COMPLETION_ON_ERROR, (void *)1));
		WELL(rpma_flush(conn, remote, DATA + i * RECORD, RECORD, RPMA_FLUSH_TYPE_VISIBILITY,
				RPMA_F_COMPLETION_ON_ERROR, (void *)2));
		memcpy(word, &tail, sizeof(word));
		WELL(rpma_atomic_write(conn, remote, TAIL, word, RPMA_F_COMPLETION_ON_ERROR, (void *)3));
		/* It was copied: the caller may use its memory again. */
		memset(word, 0xff, sizeof(word));
		WELL(rpma_flush(conn, remote, TAIL, 8, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
				(void *)(i + 10)));
		MUST(await_wc(conn).wr_id == i + 10);
	}
	MUST(rpma_atomic_write(conn, remote, 4, "12345678", RPMA_F_COMPLETION_ALWAYS, NULL) == RPMA_E_INVAL);
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
