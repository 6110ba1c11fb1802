/* Connections that receive from one shared queue, and are told apart by number. */
#include "flow.h"

const char flow_name[] = "srq";
const int flow_usage = RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;

#define CONNECTIONS 3
#define MESSAGES 12
#define LEN 128

void flow_serve(struct side *side)
{
	struct rpma_srq_cfg *srq_cfg = NULL;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	struct rpma_cq *rcq = NULL;
	struct rpma_conn *conns[CONNECTIONS];
	int came[CONNECTIONS] = { 0 };

	WELL(rpma_srq_cfg_new(&srq_cfg));
	WELL(rpma_srq_cfg_set_rq_size(srq_cfg, 16));
	WELL(rpma_srq_new(side->peer, srq_cfg, &srq));
	WELL(rpma_srq_get_rcq(srq, &rcq));
	MUST(rcq);
	WELL(rpma_conn_cfg_new(&cfg));
	WELL(rpma_conn_cfg_set_srq(cfg, srq));
	for (size_t i = 0; i < MESSAGES; i++)
		WELL(rpma_srq_recv(srq, side->mr, i * LEN, LEN, (void *)i));
	for (int i = 0; i < CONNECTIONS; i++)
		conns[i] = accept_one(side, cfg);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = await_on(rcq);
		unsigned which = (unsigned char)side->memory[wc.wr_id * LEN];
		uint32_t number = 0;

		MUST(wc.opcode == IBV_WC_RECV && wc.byte_len == LEN && which < CONNECTIONS);
		/* The message says who sent it; the queue pair must be that one's. */
		WELL(rpma_conn_get_qp_num(conns[which], &number));
		MUST(wc.qp_num == number);
		MUST(filled(side->memory + wc.wr_id * LEN + 1, LEN - 1, which));
		came[which]++;
	}
	for (int i = 0; i < CONNECTIONS; i++)
		MUST(came[i] == MESSAGES / CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++)
		await_end(&conns[i]);
	WELL(rpma_srq_delete(&srq));
	WELL(rpma_srq_cfg_delete(&srq_cfg));
	WELL(rpma_conn_cfg_delete(&cfg));
}

void flow_call(struct side *side)
{
	struct rpma_conn *conns[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++)
		conns[i] = call_one(side, NULL);
	for (unsigned i = 0; i < MESSAGES; i++) {
		unsigned which = i % CONNECTIONS;

		side->memory[0] = (char)which;
		fill(side->memory + 1, LEN - 1, which);
		WELL(rpma_send(conns[which], side->mr, 0, LEN, RPMA_F_COMPLETION_ALWAYS,
			       (void *)(uintptr_t)i));
		MUST(await_wc(conns[which]).wr_id == i);
	}
	for (int i = 0; i < CONNECTIONS; i++)
		hang_up(&conns[i]);
}
