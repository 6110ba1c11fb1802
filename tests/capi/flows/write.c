/* The caller writes into the server's memory, and a read behind it confirms. */
#include "flow.h"

const char flow_name[] = "write";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		       RPMA_MR_USAGE_READ_DST;

#define PIECES 64
#define PIECE (REGION_LEN / 2 / PIECES)

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
	MUST(filled(side->memory, REGION_LEN / 2, 2));
	MUST(side->memory[REGION_LEN / 2] == 0);
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);

	fill(side->memory, REGION_LEN / 2, 2);
	/* One in four is completed: the others are known to have gone well by it. */
	for (size_t i = 0; i < PIECES; i++) {
		bool last = i % 4 == 3;

		WELL(rpma_write(conn, remote, i * PIECE, side->mr, i * PIECE, PIECE,
				last ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR, (void *)i));
		if (last) {
			struct ibv_wc wc = await_wc(conn);

			MUST(wc.wr_id == i && wc.opcode == IBV_WC_RDMA_WRITE);
		}
	}
	WELL(rpma_write(conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, (void *)7));
	MUST(await_wc(conn).wr_id == 7);
	WELL(rpma_read(conn, side->mr, REGION_LEN / 2, remote, 0, REGION_LEN / 2,
		       RPMA_F_COMPLETION_ALWAYS, NULL));
	(void)await_wc(conn);
	MUST(filled(side->memory + REGION_LEN / 2, REGION_LEN / 2, 2));
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
