/* Ping-pong by messages, with a receive queue's completions of their own. */
#include <arpa/inet.h>

#include "flow.h"

const char flow_name[] = "messages";
const int flow_usage = RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;

#define ROUNDS 24
#define LEN 512
#define IN 0
#define OUT 4096

static struct rpma_conn_cfg *config(void)
{
	struct rpma_conn_cfg *cfg = NULL;

	WELL(rpma_conn_cfg_new(&cfg));
	WELL(rpma_conn_cfg_set_rcq_size(cfg, 10));
	return cfg;
}

static void say(struct side *side, struct rpma_conn *conn, unsigned round)
{
	fill(side->memory + OUT, LEN, round);
	/* Every other one carries a number as well. */
	if (round % 2)
		WELL(rpma_send_with_imm(conn, side->mr, OUT, LEN, RPMA_F_COMPLETION_ALWAYS, round,
					(void *)(uintptr_t)round));
	else
		WELL(rpma_send(conn, side->mr, OUT, LEN, RPMA_F_COMPLETION_ALWAYS, (void *)(uintptr_t)round));
	MUST(await_wc(conn).wr_id == round);
}

static void hear(struct side *side, struct rpma_conn *conn, unsigned round)
{
	struct ibv_wc wc = await_received(conn);

	MUST(wc.opcode == IBV_WC_RECV && wc.byte_len == LEN);
	MUST(!!(wc.wc_flags & IBV_WC_WITH_IMM) == (round % 2 == 1));
	MUST(round % 2 == 0 || ntohl(wc.imm_data) == round);
	MUST(filled(side->memory + IN, LEN, round));
	WELL(rpma_recv(conn, side->mr, IN, LEN, NULL));
}

void flow_serve(struct side *side)
{
	struct rpma_conn_cfg *cfg = config();
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	WELL(rpma_ep_next_conn_req(side->ep, cfg, &req));
	WELL(rpma_conn_req_recv(req, side->mr, IN, LEN, NULL));
	WELL(rpma_conn_req_connect(&req, NULL, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	for (unsigned round = 0; round < ROUNDS; round += 2) {
		hear(side, conn, round);
		say(side, conn, round + 1);
	}
	hear(side, conn, ROUNDS);
	await_end(&conn);
	WELL(rpma_conn_cfg_delete(&cfg));
}

void flow_call(struct side *side)
{
	struct rpma_conn_cfg *cfg = config();
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	WELL(rpma_conn_req_new(side->peer, side->addr, side->port, cfg, &req));
	WELL(rpma_conn_req_recv(req, side->mr, IN, LEN, NULL));
	WELL(rpma_conn_req_connect(&req, NULL, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	for (unsigned round = 0; round < ROUNDS; round += 2) {
		say(side, conn, round);
		hear(side, conn, round + 1);
	}
	/*
	 * The last word is that of who hangs up: a message may arrive before its
	 * sender is told so, and must not be cut off in between.
	 */
	say(side, conn, ROUNDS);
	hang_up(&conn);
	WELL(rpma_conn_cfg_delete(&cfg));
}
