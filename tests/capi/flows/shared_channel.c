/* Both queues of completions behind one channel: rpma_conn_wait says which. */
#include "flow.h"

const char flow_name[] = "shared_channel";
const int flow_usage = RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;

#define ROUNDS 16
#define LEN 256
#define IN 0
#define OUT 4096

static struct rpma_conn_cfg *config(void)
{
	struct rpma_conn_cfg *cfg = NULL;

	WELL(rpma_conn_cfg_new(&cfg));
	WELL(rpma_conn_cfg_set_rcq_size(cfg, 10));
	WELL(rpma_conn_cfg_set_compl_channel(cfg, true));
	return cfg;
}

/* Waits until that many have been sent and received on the connection. */
static void until(struct rpma_conn *conn, int *sent, int *received, int sends, int receives)
{
	while (*sent < sends || *received < receives) {
		struct rpma_cq *cq = NULL, *rcq = NULL;
		struct ibv_wc wc;
		bool is_rcq = false;

		WELL(rpma_conn_wait(conn, 0, &cq, &is_rcq));
		WELL(rpma_conn_get_rcq(conn, &rcq));
		MUST(is_rcq == (cq == rcq));
		while (rpma_cq_get_wc(cq, 1, &wc, NULL) == 0) {
			MUST(wc.status == IBV_WC_SUCCESS);
			MUST(is_rcq == !!(wc.opcode & IBV_WC_RECV));
			++*(is_rcq ? received : sent);
		}
	}
}

static void play(struct side *side, struct rpma_conn *conn, bool first)
{
	int sent = 0, received = 0, fd = -1;
	struct rpma_cq *cq = NULL;

	WELL(rpma_conn_get_compl_fd(conn, &fd));
	MUST(fd >= 0);
	WELL(rpma_conn_get_cq(conn, &cq));
	MUST(rpma_cq_wait(cq) == RPMA_E_SHARED_CHANNEL);
	for (int round = 0; round < ROUNDS; round++) {
		if (first) {
			fill(side->memory + OUT, LEN, (unsigned)round);
			WELL(rpma_send(conn, side->mr, OUT, LEN, RPMA_F_COMPLETION_ALWAYS, NULL));
		}
		until(conn, &sent, &received, first ? round + 1 : round, round + 1);
		MUST(filled(side->memory + IN, LEN, (unsigned)round));
		/* The server hears one more, at the end. */
		if (round + 1 < ROUNDS || !first)
			WELL(rpma_recv(conn, side->mr, IN, LEN, NULL));
		if (!first) {
			fill(side->memory + OUT, LEN, (unsigned)round);
			WELL(rpma_send(conn, side->mr, OUT, LEN, RPMA_F_COMPLETION_ALWAYS, NULL));
		}
	}
	until(conn, &sent, &received, ROUNDS, ROUNDS);
	/* The last word is that of who hangs up: see messages.c. */
	if (first)
		WELL(rpma_send(conn, side->mr, OUT, LEN, RPMA_F_COMPLETION_ALWAYS, NULL));
	until(conn, &sent, &received, first ? ROUNDS + 1 : ROUNDS, first ? ROUNDS : ROUNDS + 1);
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
	play(side, conn, false);
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
	play(side, conn, true);
	hang_up(&conn);
	WELL(rpma_conn_cfg_delete(&cfg));
}
