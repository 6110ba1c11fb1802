/* The caller reads the server's memory, in pieces of every kind. */
#include "flow.h"

const char flow_name[] = "read";
const int flow_usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST;

void flow_serve(struct side *side)
{
	fill(side->memory, REGION_LEN, 1);
	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
	MUST(filled(side->memory, REGION_LEN, 1));
}

void flow_call(struct side *side)
{
	static const size_t lens[] = { 1, 7, 8, 64, 1000, 4096, 5000, REGION_LEN };
	static char want[REGION_LEN];
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);

	fill(want, REGION_LEN, 1);
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		size_t from = lens[i] == REGION_LEN ? 0 : 3 * i, to = lens[i] == REGION_LEN ? 0 : 5 * i;

		memset(side->memory, 0, REGION_LEN);
		WELL(rpma_read(conn, side->mr, to, remote, from, lens[i], RPMA_F_COMPLETION_ALWAYS,
			       (void *)(i + 100)));
		struct ibv_wc wc = await_wc(conn);

		MUST(wc.wr_id == i + 100 && wc.opcode == IBV_WC_RDMA_READ);
		MUST(!memcmp(side->memory + to, want + from, lens[i]));
		MUST(to + lens[i] == REGION_LEN || side->memory[to + lens[i]] == 0);
	}
	/* Of nothing: no region on either side. */
	WELL(rpma_read(conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, (void *)7));
	MUST(await_wc(conn).wr_id == 7);
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
