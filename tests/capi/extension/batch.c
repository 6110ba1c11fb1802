/*
 * Batches: nothing is posted before the end, then all of it, in order; what does
 * not fit stays staged and goes later; what is dropped never goes.
 */
#include "flow.h"

#include <farword_rpma.h>
#include <nic.h>

const char flow_name[] = "batch";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		       RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

#define COMMITS 20
#define TAIL 8
#define DATA 64

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);
	volatile uint64_t *tail = (volatile uint64_t *)(side->memory + TAIL);

	while (*tail < COMMITS)
		;
	MUST(filled(side->memory + DATA, 32, COMMITS));
	await_end(&conn);
}

static void commit(struct side *side, struct rpma_conn *conn, struct rpma_mr_remote *remote,
		   uint64_t number)
{
	uint32_t posted = 77, staged = 77;
	const void *contexts[4] = { 0 };
	int before = nic_called(NIC_post_send);

	fill(side->memory, 32, (unsigned)number);
	WELL(farword_batch_begin(conn));
	MUST(farword_batch_begin(conn) == RPMA_E_INVAL);
	WELL(rpma_write(conn, remote, DATA, side->mr, 0, 32, RPMA_F_COMPLETION_ON_ERROR, (void *)1));
	WELL(rpma_flush(conn, remote, DATA, 32, RPMA_FLUSH_TYPE_VISIBILITY,
			RPMA_F_COMPLETION_ON_ERROR, (void *)2));
	WELL(rpma_atomic_write(conn, remote, TAIL, (char *)&number, RPMA_F_COMPLETION_ON_ERROR,
			(void *)3));
	WELL(rpma_flush(conn, remote, TAIL, 8, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
			(void *)(number + 100)));
	/* Arguments are checked as ever. */
	MUST(rpma_atomic_write(conn, remote, 4, "12345678", 1, NULL) == RPMA_E_INVAL);
	MUST(nic_called(NIC_post_send) == before);
	WELL(farword_batch_get_staged(conn, 3, contexts, &staged));
	MUST(staged == 4 && contexts[0] == (void *)1 && contexts[2] == (void *)3 && !contexts[3]);
	WELL(farword_batch_end(conn, &posted));
	/* The NIC counts requests. */
	MUST(posted == 4 && nic_called(NIC_post_send) == before + 4);
	MUST(farword_batch_end(conn, &posted) == RPMA_E_INVAL);
	MUST(await_wc(conn).wr_id == number + 100);
}

/* A part finds no room: the rest is staged still, and goes with the next end. */
static void partly(struct rpma_conn *conn, struct rpma_mr_remote *remote)
{
	uint32_t posted = 77, staged = 77;
	const void *context = NULL;
	char word[8] = { 0 };

	WELL(farword_batch_begin(conn));
	for (int i = 0; i < 10; i++)
		WELL(rpma_atomic_write(conn, remote, 128, word, i == 9 ? 3 : 1,
				(void *)(uintptr_t)(i + 1)));
	/* A batch is as long as the send queue. */
	MUST(rpma_atomic_write(conn, remote, 128, word, 1, NULL) == RPMA_E_AGAIN);
	nic_fail(NIC_post_send, 4, 12);
	int code = farword_batch_end(conn, &posted);
	nic_fail_end();
	MUST(code == RPMA_E_AGAIN && posted == 4);
	WELL(farword_batch_get_staged(conn, 1, &context, &staged));
	MUST(staged == 10 - posted && context == (void *)(uintptr_t)(posted + 1));
	WELL(farword_batch_end(conn, &posted));
	MUST(posted == staged && await_wc(conn).wr_id == 10);
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);
	uint32_t count = 77;
	int before;

	nic_log_begin();
	MUST(farword_batch_begin(NULL) == RPMA_E_INVAL);
	MUST(farword_batch_end(NULL, &count) == RPMA_E_INVAL);
	MUST(farword_batch_end(conn, NULL) == RPMA_E_INVAL);
	MUST(farword_batch_drop(conn) == RPMA_E_INVAL);
	MUST(farword_batch_get_staged(conn, 0, NULL, &count) == RPMA_E_INVAL && count == 77);
	partly(conn, remote);

	/* What is dropped is never posted. */
	before = nic_called(NIC_post_send);
	WELL(farword_batch_begin(conn));
	WELL(rpma_atomic_write(conn, remote, TAIL, "\377\377\377\377\377\377\377\377", 3, NULL));
	WELL(farword_batch_drop(conn));
	/* An empty batch posts nothing. */
	WELL(farword_batch_begin(conn));
	WELL(farword_batch_end(conn, &count));
	MUST(count == 0 && nic_called(NIC_post_send) == before);

	for (uint64_t number = 1; number <= COMMITS; number++)
		commit(side, conn, remote, number);
	/* Outside of a batch each call is a doorbell again. */
	before = nic_called(NIC_post_send);
	WELL(rpma_atomic_write(conn, remote, 128, "12345678", 3, (void *)5));
	MUST(nic_called(NIC_post_send) == before + 1 && await_wc(conn).wr_id == 5);
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
