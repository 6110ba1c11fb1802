/* Waiting for completions: on a queue, and on a channel that queues share. */
#include "case.h"

static const int errors[] = { EPERM, ENOMEM, EINVAL, EAGAIN, -1, 1000 };
static const int flags[] = { 0, RPMA_W_WAIT_FOR_COMPLETION, 2, 3, -1, INT_MIN, INT_MAX };

static void wc(struct ibv_cq *below)
{
	struct ibv_wc one = { .wr_id = 5 };

	nic_complete(below, &one);
}

/* ---- rpma_cq_get_fd, rpma_cq_wait ----------------------------------------------- */

static void queue(struct rpma_cq *cq, struct ibv_cq *below, const char *what, bool shared)
{
	int fd = -77, ret;

	about("rpma_cq_get_fd");
	for (int null = 3; null >= 0; null--) {
		begin("%s, cq %s, out %s", what, null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_cq_get_fd(null & 1 ? NULL : cq, null & 2 ? NULL : &fd);
		end("%d, %s", ret,
		    fd == -77 ? "untouched" : fd == below->channel->fd ? "its channel's" : "another");
	}
	unblock(fd);
	about("rpma_cq_wait");
	begin("%s, NULL", what);
	ret = rpma_cq_wait(NULL);
	end("%d", ret);
	begin("%s, nothing came", what);
	ret = rpma_cq_wait(cq);
	end("%d", ret);
	for (int there = 1; there < 4; there++) {
		for (int i = 0; i < there; i++)
			wc(below);
		begin("%s, %d completions", what, there);
		int first = rpma_cq_wait(cq), second = rpma_cq_wait(cq);

		end("%d %d, acknowledged %u", first, second, below->comp_events_completed);
		nic_renew_all();
	}
	for (int call = 0; call < 2; call++)
		for (size_t e = 0; e < COUNT(errors); e++) {
			enum nic_call of = call ? NIC_req_notify_cq : NIC_get_cq_event;

			wc(below);
			begin("%s, %s fails with %d", what, nic_call_names[of], errors[e]);
			nic_fail(of, 0, errors[e]);
			ret = rpma_cq_wait(cq);
			bool unmet = nic_fail_end();

			end("%d%s", ret, unmet && !shared ? ", not called" : "");
			nic_renew_all();
		}
}

/* ---- rpma_conn_wait --------------------------------------------------------------- */

static const char *named(const struct rpma_cq *got, const struct rpma_cq *cq, const struct rpma_cq *rcq)
{
	return got == cq ? "the main one" : got && got == rcq ? "the receive one" : pointer(got);
}

static void channel(struct world *world, struct rpma_cq *cq, struct rpma_cq *rcq, const char *what)
{
	struct ibv_qp *qp = qp_of(world->client);

	about("rpma_conn_wait");
	for (size_t f = 0; f < COUNT(flags); f++)
		for (int from = 0; from < 4; from++)
			for (int null = 0; null < 8; null++) {
				struct rpma_cq *got = UNTOUCHED_PTR;
				bool is_rcq = false;
				char *as_byte = (char *)&is_rcq;

				*as_byte = 0x55;
				if (from & 1)
					wc(qp->send_cq);
				if (from & 2)
					wc(qp->recv_cq);
				begin("%s, from %d, flags %d, conn %s, cq %s, is_rcq %s", what, from, flags[f],
				      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
				      null & 4 ? "NULL" : "ok");
				int ret = rpma_conn_wait(null & 1 ? NULL : world->client, flags[f],
							 null & 2 ? NULL : &got, null & 4 ? NULL : &is_rcq);

				end("%d, %s, is_rcq %d", ret, named(got, cq, rcq), *as_byte);
				nic_renew_all();
			}
	for (int call = 0; call < 2; call++)
		for (size_t e = 0; e < COUNT(errors); e++) {
			enum nic_call of = call ? NIC_req_notify_cq : NIC_get_cq_event;
			struct rpma_cq *got = UNTOUCHED_PTR;
			char is_rcq = 0x55;

			wc(qp->send_cq);
			begin("%s, %s fails with %d", what, nic_call_names[of], errors[e]);
			nic_fail(of, 0, errors[e]);
			int ret = rpma_conn_wait(world->client, 0, &got, (bool *)&is_rcq);

			nic_fail_end();
			end("%d, %s, is_rcq %d", ret, named(got, cq, rcq), is_rcq);
			nic_renew_all();
		}
}

void cases_wait(void)
{
	struct rpma_conn_cfg *cfg = NULL;
	struct world world;

	NEED(rpma_conn_cfg_new(&cfg));
	for (int shape = 0; shape < 4; shape++) {
		struct rpma_cq *cq = NULL, *rcq = NULL;
		char what[64];
		int fd;

		NEED(rpma_conn_cfg_set_rcq_size(cfg, shape & 1 ? 12 : 0));
		NEED(rpma_conn_cfg_set_compl_channel(cfg, shape & 2));
		world_new(&world, cfg);
		NEED(rpma_conn_get_cq(world.client, &cq));
		NEED(rpma_conn_get_rcq(world.client, &rcq));
		NEED(rpma_cq_get_fd(cq, &fd));
		unblock(fd);
		nic_renew_all();
		snprintf(what, sizeof(what), "receive cq %d, shared %d", shape & 1, !!(shape & 2));
		channel(&world, cq, rcq, what);
		queue(cq, qp_of(world.client)->send_cq, what, shape & 2);
		if (rcq) {
			strcat(what, ", on it");
			queue(rcq, qp_of(world.client)->recv_cq, what, shape & 2);
		}
		world_delete(&world);
	}
	NEED(rpma_conn_cfg_delete(&cfg));
}
