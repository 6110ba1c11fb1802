/* Shared receive queues. */
#include "case.h"

static const int errors[] = { EPERM, ENOMEM, EINVAL, 1000 };
static const uint32_t sizes[] = { 0, 1, 20, 4095, 4096, INT_MAX, UINT32_MAX };

static void making(struct rpma_peer *peer)
{
	static const enum nic_call calls[] = { NIC_create_srq, NIC_create_comp_channel, NIC_create_cq,
					       NIC_req_notify_cq };
	struct rpma_srq_cfg *cfg = NULL;
	int ret;

	NEED(rpma_srq_cfg_new(&cfg));
	about("rpma_srq_new");
	for (int null = 0; null < 8; null++) {
		struct rpma_srq *srq = UNTOUCHED_PTR;

		begin("peer %s, cfg %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
		      null & 4 ? "NULL" : "ok");
		ret = rpma_srq_new(null & 1 ? NULL : peer, null & 2 ? NULL : cfg, null & 4 ? NULL : &srq);
		end("%d, %s", ret, pointer(srq));
		if (ret == 0)
			NEED(rpma_srq_delete(&srq));
	}
	for (size_t q = 0; q < COUNT(sizes); q++)
		for (size_t c = 0; c < COUNT(sizes); c++) {
			struct rpma_srq *srq = UNTOUCHED_PTR;
			struct rpma_cq *rcq = UNTOUCHED_PTR;

			NEED(rpma_srq_cfg_set_rq_size(cfg, sizes[q]));
			NEED(rpma_srq_cfg_set_rcq_size(cfg, sizes[c]));
			about("rpma_srq_new");
			begin("rq %u, rcq %u", sizes[q], sizes[c]);
			ret = rpma_srq_new(peer, cfg, &srq);
			end("%d, %s", ret, pointer(srq));
			if (ret)
				continue;
			about("rpma_srq_get_rcq");
			begin("rq %u, rcq %u", sizes[q], sizes[c]);
			ret = rpma_srq_get_rcq(srq, &rcq);
			end("%d, %s", ret, pointer(rcq));
			NEED(rpma_srq_delete(&srq));
		}
	about("rpma_srq_new");
	for (int rcq = 0; rcq < 2; rcq++) {
		NEED(rpma_srq_cfg_set_rq_size(cfg, 20));
		NEED(rpma_srq_cfg_set_rcq_size(cfg, rcq ? 20 : 0));
		for (size_t c = 0; c < COUNT(calls); c++)
			for (size_t e = 0; e < COUNT(errors); e++) {
				struct rpma_srq *srq = UNTOUCHED_PTR;

				begin("receive cq %d, %s fails with %d", rcq, nic_call_names[calls[c]], errors[e]);
				nic_fail(calls[c], 0, errors[e]);
				ret = rpma_srq_new(peer, cfg, &srq);
				bool unmet = nic_fail_end();

				end("%d, %s%s", ret, pointer(srq), unmet ? ", not called" : "");
				if (ret == 0)
					NEED(rpma_srq_delete(&srq));
			}
	}
	NEED(rpma_srq_cfg_delete(&cfg));
}

static void ending(struct rpma_peer *peer)
{
	static const enum nic_call calls[] = { NIC_destroy_srq, NIC_destroy_cq,
					       NIC_destroy_comp_channel };
	struct rpma_srq_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	int ret;

	NEED(rpma_srq_cfg_new(&cfg));
	about("rpma_srq_delete");
	begin("NULL");
	ret = rpma_srq_delete(NULL);
	end("%d", ret);
	begin("pointer to NULL");
	ret = rpma_srq_delete(&srq);
	end("%d, %s", ret, pointer(srq));
	for (int rcq = 0; rcq < 2; rcq++) {
		NEED(rpma_srq_cfg_set_rcq_size(cfg, rcq ? 20 : 0));
		for (size_t c = 0; c < COUNT(calls); c++)
			for (size_t e = 0; e <= COUNT(errors); e++) {
				NEED(rpma_srq_new(peer, cfg, &srq));
				begin("receive cq %d, %s fails with %d", rcq, nic_call_names[calls[c]],
				      e ? errors[e - 1] : 0);
				if (e)
					nic_fail(calls[c], 0, errors[e - 1]);
				ret = rpma_srq_delete(&srq);
				bool unmet = nic_fail_end();

				end("%d, %s%s", ret, pointer(srq), unmet ? ", not called" : "");
			}
	}
	NEED(rpma_srq_cfg_delete(&cfg));
}

static void receiving(struct world *world)
{
	static const size_t offsets[] = { 0, 1, 4095, 4096, SIZE_MAX };
	static const size_t lens[] = { 0, 1, 8, 4096, 4097, UINT32_MAX, 1UL << 32, SIZE_MAX };
	static const uintptr_t contexts[] = { 0, 1, UINTPTR_MAX };
	struct rpma_srq *srq = NULL;
	int ret;

	NEED(rpma_srq_new(world->peer, NULL, &srq));
	about("rpma_srq_get_rcq");
	for (int null = 3; null >= 0; null--) {
		struct rpma_cq *rcq = UNTOUCHED_PTR;

		begin("srq %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_srq_get_rcq(null & 1 ? NULL : srq, null & 2 ? NULL : &rcq);
		end("%d, %s", ret, pointer(rcq));
	}
	about("rpma_srq_recv");
	for (int null = 0; null < 4; null++)
		for (size_t o = 0; o < COUNT(offsets); o++)
			for (size_t l = 0; l < COUNT(lens); l++)
				for (size_t c = 0; c < COUNT(contexts); c++) {
					begin("srq %s, dst %s%+ld, %#zx bytes, context %#lx",
					      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
					      (long)offsets[o], lens[l], (unsigned long)contexts[c]);
					ret = rpma_srq_recv(null & 1 ? NULL : srq,
							    null & 2 ? NULL : world->local, offsets[o], lens[l],
							    (void *)contexts[c]);
					end("%d", ret);
					nic_renew_all();
				}
	for (size_t e = 0; e < COUNT(errors); e++) {
		begin("post_srq_recv fails with %d", errors[e]);
		nic_fail(NIC_post_srq_recv, 0, errors[e]);
		ret = rpma_srq_recv(srq, world->local, 0, 8, NULL);
		bool unmet = nic_fail_end();

		end("%d%s", ret, unmet ? ", not called" : "");
	}
	for (int i = 0; i < 22; i++) {
		begin("number %d in a row", i);
		ret = rpma_srq_recv(srq, world->local, 0, 8, (void *)(uintptr_t)i);
		end("%d", ret);
	}
	NEED(rpma_srq_delete(&srq));
}

/* Two connections receive from one queue. */
static void shared(struct world *world)
{
	struct rpma_conn_cfg *cfg = NULL;

	about("rpma_srq_recv");
	for (int rcq = 0; rcq < 2; rcq++) {
		struct rpma_srq_cfg *srq_cfg = NULL;
		struct rpma_srq *srq = NULL;
		struct rpma_cq *cq = NULL;
		struct world second = *world;

		NEED(rpma_srq_cfg_new(&srq_cfg));
		NEED(rpma_srq_cfg_set_rcq_size(srq_cfg, rcq ? 20 : 0));
		NEED(rpma_srq_new(world->peer, srq_cfg, &srq));
		NEED(rpma_conn_cfg_new(&cfg));
		NEED(rpma_conn_cfg_set_srq(cfg, srq));
		NEED(rpma_srq_get_rcq(srq, &cq));
		world_connect(world, cfg);
		world_connect(&second, cfg);
		nic_renew_all();
		for (int i = 0; i < 6; i++) {
			struct world *of = i & 1 ? world : &second;
			struct ibv_wc wc = { 0 };

			begin("receive cq %d, message %d", rcq, i);
			int posted = rpma_srq_recv(srq, world->target, 8 * (size_t)i, 8,
						   (void *)(uintptr_t)(70 + i));
			int sent = rpma_send(of->client, world->local, 0, 8, 1, NULL);

			if (!rcq)
				NEED(rpma_conn_get_cq(of->server, &cq));
			int came = rpma_cq_get_wc(cq, 1, &wc, NULL);

			end("%d %d %d, id %lu, status %d, to %s", posted, sent, came, wc.wr_id, wc.status,
			    nic_qp(wc.qp_num) == qp_of(of->server) ? "the one" : "another");
		}
		world_disconnect(&second);
		world_disconnect(world);
		NEED(rpma_conn_cfg_delete(&cfg));
		NEED(rpma_srq_delete(&srq));
		NEED(rpma_srq_cfg_delete(&srq_cfg));
	}
}

void cases_srq(void)
{
	struct world world;

	world_begin(&world);
	making(world.peer);
	ending(world.peer);
	receiving(&world);
	shared(&world);
	world_delete(&world);
}
