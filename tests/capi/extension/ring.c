/*
 * The ring: any number of unsignaled writes goes through, what is out of bounds is
 * refused before it is posted, and after a failure every context is told once.
 */
#include "flow.h"

#include <farword_rpma.h>

const char flow_name[] = "ring";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		       RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

#define WRITES 500
#define TAIL 8

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
	MUST(*(uint64_t *)(side->memory + TAIL) == WRITES);
}

static struct farword_done await_done(struct farword_ring *ring)
{
	struct farword_done done = { 0 };
	uint32_t got = 0;
	int code;

	while ((code = farword_ring_poll(ring, 1, &done, &got)) == RPMA_E_NO_COMPLETION)
		;
	WELL(code);
	MUST(got == 1);
	return done;
}

static void refusals(struct side *side, struct rpma_conn *conn, struct farword_ring *ring,
		     struct rpma_mr_remote *remote)
{
	struct farword_done done[2];
	uint32_t got = 77;

	MUST(farword_ring_open(NULL, 0, &ring) == RPMA_E_INVAL);
	MUST(farword_ring_open(conn, 0, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_atomic_write(NULL, remote, 8, "12345678", 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_atomic_write(ring, NULL, 8, "12345678", 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_atomic_write(ring, remote, 8, NULL, 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_atomic_write(ring, remote, 8, "12345678", 0, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_atomic_write(ring, remote, 12, "12345678", 1, NULL) == RPMA_E_INVAL);
	/* librpma would post these, and lose the connection. */
	MUST(farword_ring_atomic_write(ring, remote, REGION_LEN, "12345678", 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_write(ring, remote, REGION_LEN - 4, side->mr, 0, 8, 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_write(ring, remote, 0, side->mr, REGION_LEN, 8, 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_read(ring, side->mr, 0, remote, SIZE_MAX, 8, 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_flush(ring, remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_flush(ring, remote, 0, 8, (enum rpma_flush_type)7, 1, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_poll(ring, 0, done, &got) == RPMA_E_INVAL);
	MUST(farword_ring_poll(ring, 2, NULL, &got) == RPMA_E_INVAL);
	MUST(farword_ring_poll(ring, 2, done, NULL) == RPMA_E_INVAL);
	MUST(farword_ring_poll(ring, 2, done, &got) == RPMA_E_NO_COMPLETION && got == 77);
	WELL(farword_ring_doorbell(ring, &got));
	MUST(got == 0);
}

static void write_all(struct farword_ring *ring, struct rpma_mr_remote *remote)
{
	for (uint64_t number = 1; number <= WRITES; number++) {
		int flags = number == WRITES ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR;
		struct farword_done done;
		uint32_t got;
		int code;

		while ((code = farword_ring_atomic_write(ring, remote, TAIL, (char *)&number, flags,
				(void *)number)) == RPMA_E_AGAIN) {
			int rung = farword_ring_doorbell(ring, NULL);

			MUST(rung == 0 || rung == RPMA_E_AGAIN);
			MUST(farword_ring_poll(ring, 1, &done, &got) == RPMA_E_NO_COMPLETION);
		}
		WELL(code);
	}
	WELL(farword_ring_doorbell(ring, NULL));
	struct farword_done last = await_done(ring);

	MUST(last.op_context == (void *)WRITES && last.outcome == FARWORD_CONFIRMED);
}

/* The region is gone: the first fails, the second is unknown, each is told once. */
static void fail(struct side *side, struct farword_ring *ring, struct rpma_mr_remote *remote)
{
	struct farword_done done[4];
	uint32_t got = 0, all = 0;
	int code;

	(void)side;
	WELL(farword_ring_atomic_write(ring, remote, 16, "12345678", 1, (void *)1001));
	WELL(farword_ring_atomic_write(ring, remote, 16, "12345678", 1, (void *)1002));
	WELL(farword_ring_doorbell(ring, &got));
	MUST(got == 2);
	WELL(farword_ring_atomic_write(ring, remote, 16, "12345678", 1, (void *)1003));
	while ((code = farword_ring_poll(ring, 4 - all, done + all, &got)) == 0 ||
	       code == RPMA_E_NO_COMPLETION) {
		all += code ? 0 : got;
		MUST(all < 4);
	}
	MUST(code == RPMA_E_PROVIDER && all == 3);
	MUST(done[0].op_context == (void *)1001 && done[0].outcome == FARWORD_FAILED);
	MUST(done[0].status == IBV_WC_REM_ACCESS_ERR);
	MUST(done[1].op_context == (void *)1002 && done[1].outcome == FARWORD_UNKNOWN);
	MUST(done[2].op_context == (void *)1003 && done[2].outcome == FARWORD_UNPOSTED);
	MUST(farword_ring_atomic_write(ring, remote, 16, "12345678", 1, NULL) == RPMA_E_PROVIDER);
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn), *false_one = NULL;
	struct rpma_conn_private_data told;
	struct farword_ring *ring = NULL;
	char descriptor[21];

	WELL(farword_ring_open(conn, 0, &ring));
	refusals(side, conn, ring, remote);
	write_all(ring, remote);

	fill(side->memory, 64, 3);
	WELL(farword_ring_write(ring, remote, 1024, side->mr, 0, 64, 1, NULL));
	WELL(farword_ring_flush(ring, remote, 1024, 64, RPMA_FLUSH_TYPE_VISIBILITY, 1, NULL));
	WELL(farword_ring_read(ring, side->mr, 256, remote, 1024, 64, 3, (void *)7));
	WELL(farword_ring_doorbell(ring, NULL));
	MUST(await_done(ring).op_context == (void *)7 && filled(side->memory + 256, 64, 3));

	/* The same region under a key that it does not have. */
	WELL(rpma_conn_get_private_data(conn, &told));
	MUST(told.len >= sizeof(descriptor));
	memcpy(descriptor, told.ptr, sizeof(descriptor));
	descriptor[17] ^= 0x55;
	WELL(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), &false_one));
	fail(side, ring, false_one);
	WELL(farword_ring_close(&ring));
	MUST(!ring);
	WELL(farword_ring_close(&ring));
	MUST(farword_ring_close(NULL) == RPMA_E_INVAL);
	WELL(rpma_mr_remote_delete(&false_one));
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
