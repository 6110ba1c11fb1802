/* Writes that tell the server of themselves, by a number and a completion. */
#include <arpa/inet.h>

#include "flow.h"

const char flow_name[] = "write_with_imm";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV;

#define WRITES 8
#define LEN 500

void flow_serve(struct side *side)
{
	struct rpma_conn_private_data data = descriptor_of(side);
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	WELL(rpma_ep_next_conn_req(side->ep, NULL, &req));
	/* Before anything can come. */
	for (size_t i = 0; i <= WRITES; i++)
		WELL(rpma_conn_req_recv(req, side->mr, REGION_LEN - 8, 8, (void *)(i + 1)));
	WELL(rpma_conn_req_connect(&req, &data, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	for (unsigned i = 0; i < WRITES; i++) {
		struct ibv_wc wc = await_wc(conn);

		MUST(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags & IBV_WC_WITH_IMM);
		MUST(wc.wr_id == i + 1 && ntohl(wc.imm_data) == 0x01020300 + i);
		MUST(filled(side->memory + i * LEN, LEN, i));
	}
	struct ibv_wc wc = await_wc(conn);

	MUST(ntohl(wc.imm_data) == UINT32_MAX);
	await_end(&conn);
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);

	for (unsigned i = 0; i < WRITES; i++) {
		fill(side->memory, LEN, i);
		WELL(rpma_write_with_imm(conn, remote, i * LEN, side->mr, 0, LEN, RPMA_F_COMPLETION_ALWAYS,
					 0x01020300 + i, (void *)(uintptr_t)i));
		MUST(await_wc(conn).wr_id == i);
	}
	WELL(rpma_write_with_imm(conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, UINT32_MAX, NULL));
	(void)await_wc(conn);
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
