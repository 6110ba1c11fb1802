/* Connection requests: made, connected, deleted, on both sides. */
#include "case.h"

static const int errors[] = { EPERM, ENOMEM, EINVAL, EOPNOTSUPP, ETIMEDOUT, ENODEV };

/* Everything that a request or a connection may call, in no order. */
static const enum nic_call calls[] = {
	NIC_getaddrinfo, NIC_create_id, NIC_resolve_addr, NIC_resolve_route, NIC_create_comp_channel,
	NIC_create_cq, NIC_req_notify_cq, NIC_create_qp, NIC_create_event_channel, NIC_migrate_id,
	NIC_reg_mr, NIC_connect, NIC_accept, NIC_reject, NIC_destroy_id, NIC_destroy_cq,
	NIC_destroy_comp_channel, NIC_dereg_mr, NIC_get_cm_event, NIC_ack_cm_event, NIC_disconnect,
};

/* ---- configurations ---------------------------------------------------------- */

struct shape {
	uint32_t cq, rcq, sq, rq;
	bool shared;
	int srq;                               /* 0 none, 1 without, 2 with a receive CQ */
	int timeout;
};

static const struct shape shapes[] = {
	{ 10, 0, 10, 10, false, 0, 1000 },     /* as by default */
	{ 1, 0, 1, 1, false, 0, 0 },
	{ 10, 20, 30, 40, false, 0, 1 },
	{ 10, 20, 30, 40, true, 0, 1000 },
	{ 10, 0, 10, 10, true, 0, INT_MAX },
	{ 10, 0, 10, 10, false, 1, 1000 },
	{ 10, 0, 10, 10, false, 2, 1000 },
	{ 10, 20, 10, 10, false, 1, 1000 },
	{ 10, 20, 10, 10, false, 2, 1000 },
	{ 10, 20, 10, 10, true, 1, 1000 },
	{ 10, 20, 10, 10, true, 2, 1000 },
	{ 0, 0, 10, 10, false, 0, 1000 },      /* the device refuses */
	{ 10, 0, 0, 0, false, 0, 1000 },
	{ 10, 4096, 10, 10, false, 0, 1000 },
	{ 4095, 4095, 4095, 4095, true, 0, 1000 },
	{ 10, 0, 4096, 10, false, 0, 1000 },
	{ 10, 0, 10, 4096, false, 0, 1000 },
	{ UINT32_MAX, 0, 10, 10, false, 0, 1000 },
	{ 10, UINT32_MAX, 10, 10, false, 0, 1000 },
	{ 10, 1U + INT_MAX, 10, 10, true, 0, 1000 },
	{ 10, 0, UINT32_MAX, UINT32_MAX, false, 0, 1000 },
};

static struct rpma_srq *srqs[3];

static struct rpma_conn_cfg *config(const struct shape *shape)
{
	struct rpma_conn_cfg *cfg = NULL;

	NEED(rpma_conn_cfg_new(&cfg));
	NEED(rpma_conn_cfg_set_cq_size(cfg, shape->cq));
	NEED(rpma_conn_cfg_set_rcq_size(cfg, shape->rcq));
	NEED(rpma_conn_cfg_set_sq_size(cfg, shape->sq));
	NEED(rpma_conn_cfg_set_rq_size(cfg, shape->rq));
	NEED(rpma_conn_cfg_set_compl_channel(cfg, shape->shared));
	NEED(rpma_conn_cfg_set_timeout(cfg, shape->timeout));
	if (shape->srq)
		NEED(rpma_conn_cfg_set_srq(cfg, srqs[shape->srq]));
	return cfg;
}

static const char *shown(const struct shape *shape)
{
	static char text[128];

	snprintf(text, sizeof(text), "cq %u, rcq %u, sq %u, rq %u, shared %d, srq %d, %d ms", shape->cq,
		 shape->rcq, shape->sq, shape->rq, shape->shared, shape->srq, shape->timeout);
	return text;
}

/* ---- one side or the other ---------------------------------------------------- */

/* A passive request needs an active one that waits for its answer. */
struct call {
	struct rpma_conn_req *req;
	struct rpma_conn *caller;
};

static void active(struct world *world, const struct rpma_conn_cfg *cfg, struct call *call)
{
	call->caller = NULL;
	NEED(rpma_conn_req_new(world->peer, "10.9.0.1", "7001", cfg, &call->req));
}

static void passive(struct world *world, const struct rpma_conn_cfg *cfg, struct call *call)
{
	struct rpma_conn_private_data data = { .ptr = "hello", .len = 6 };
	struct rpma_conn_req *req = NULL;

	drop_late(world);
	NEED(rpma_conn_req_new(world->peer, "10.9.0.1", "7001", NULL, &req));
	NEED(rpma_conn_req_connect(&req, &data, &call->caller));
	NEED(rpma_ep_next_conn_req(world->ep, cfg, &call->req));
}

static void end_call(struct call *call)
{
	if (call->req)
		NEED(rpma_conn_req_delete(&call->req));
	if (call->caller)
		NEED(rpma_conn_delete(&call->caller));
}

static const struct {
	const char *name;
	void (*begin)(struct world *, const struct rpma_conn_cfg *, struct call *);
} sides[] = { { "active", active }, { "passive", passive } };

/* ---- rpma_conn_req_new -------------------------------------------------------- */

static void new_arguments(struct world *world)
{
	static const char *const addrs[] = { "10.9.0.1", "localhost", "::1", "", "nobody", NULL };
	static const char *const ports[] = { "7001", "0", "65535", "65536", "-1", "", "a", NULL };

	about("rpma_conn_req_new");
	for (size_t a = 0; a < COUNT(addrs); a++)
		for (size_t p = 0; p < COUNT(ports); p++)
			for (int null = 0; null < 4; null++) {
				struct rpma_conn_req *req = UNTOUCHED_PTR;

				begin("peer %s, \"%s\", \"%s\", out %s", null & 1 ? "NULL" : "ok",
				      addrs[a] ? addrs[a] : "(NULL)", ports[p] ? ports[p] : "(NULL)",
				      null & 2 ? "NULL" : "ok");
				int ret = rpma_conn_req_new(null & 1 ? NULL : world->peer, addrs[a],
							    ports[p], NULL, null & 2 ? NULL : &req);

				end("%d, %s", ret, pointer(req));
				if (ret == 0)
					NEED(rpma_conn_req_delete(&req));
			}
}

static void new_shapes(struct world *world)
{
	for (size_t s = 0; s < COUNT(shapes); s++) {
		struct rpma_conn_cfg *cfg = config(&shapes[s]);
		struct rpma_conn_req *req = UNTOUCHED_PTR;

		about("rpma_conn_req_new");
		begin("%s", shown(&shapes[s]));
		int ret = rpma_conn_req_new(world->peer, "10.9.0.1", "7001", cfg, &req);

		end("%d, %s", ret, pointer(req));
		if (ret == 0) {
			about("rpma_conn_req_delete");
			begin("%s", shown(&shapes[s]));
			ret = rpma_conn_req_delete(&req);
			end("%d, %s", ret, pointer(req));
		}
		NEED(rpma_conn_cfg_delete(&cfg));
	}
}

static void new_failures(struct world *world)
{
	static const int resolver[] = { -1, -2, -3, -4, -6, -7, -8, -10, -11 };

	about("rpma_conn_req_new");
	for (size_t s = 0; s < 11; s++) {
		struct rpma_conn_cfg *cfg = config(&shapes[s]);

		for (size_t c = 0; c < COUNT(calls); c++)
			for (int after = 0; after < 3; after++)
				for (size_t e = 0; e < (s ? 2 : COUNT(errors)); e++) {
					struct rpma_conn_req *req = UNTOUCHED_PTR;

					begin("%s; %s fails with %d after %d", shown(&shapes[s]),
					      nic_call_names[calls[c]], errors[e], after);
					nic_fail(calls[c], after, errors[e]);
					int ret = rpma_conn_req_new(world->peer, "10.9.0.1", "7001", cfg,
								    &req);
					bool unmet = nic_fail_end();

					end("%d, %s%s", ret, pointer(req), unmet ? ", not called" : "");
					if (ret == 0)
						NEED(rpma_conn_req_delete(&req));
				}
		NEED(rpma_conn_cfg_delete(&cfg));
	}
	for (size_t r = 0; r < COUNT(resolver); r++) {
		struct rpma_conn_req *req = UNTOUCHED_PTR;

		begin("the resolver answers %d", resolver[r]);
		nic_fail(NIC_getaddrinfo, 0, resolver[r]);
		int ret = rpma_conn_req_new(world->peer, "10.9.0.1", "7001", NULL, &req);

		nic_fail_end();
		end("%d, %s", ret, pointer(req));
		if (ret == 0)
			NEED(rpma_conn_req_delete(&req));
	}
}

/* ---- rpma_conn_req_connect ----------------------------------------------------- */

static void connect_arguments(struct world *world)
{
	static const uint8_t lens[] = { 0, 1, 8, 28, 55, 56, 57, 255 };
	static char bytes[256];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i + 1);
	about("rpma_conn_req_connect");
	for (size_t side = 0; side < 2; side++)
		for (size_t l = 0; l < COUNT(lens); l++)
			for (int null = 0; null < 8; null++) {
				struct rpma_conn_private_data data = { null & 2 ? NULL : bytes, lens[l] };
				struct rpma_conn *conn = UNTOUCHED_PTR;
				struct call call = { 0 };

				sides[side].begin(world, NULL, &call);
				begin("%s, data %s of %u bytes at %s, out %s", sides[side].name,
				      null & 1 ? "NULL" : "ok", lens[l], null & 2 ? "NULL" : "ok",
				      null & 4 ? "NULL" : "ok");
				int ret = rpma_conn_req_connect(&call.req, null & 1 ? NULL : &data,
								null & 4 ? NULL : &conn);

				end("%d, request %s, connection %s", ret, pointer(call.req), pointer(conn));
				if (ret == 0)
					NEED(rpma_conn_delete(&conn));
				end_call(&call);
				drop_late(world);
			}
	struct rpma_conn_req *none = NULL;
	struct rpma_conn *conn = UNTOUCHED_PTR;

	begin("request NULL");
	int ret = rpma_conn_req_connect(NULL, NULL, &conn);

	end("%d, %s", ret, pointer(conn));
	begin("pointer to NULL");
	ret = rpma_conn_req_connect(&none, NULL, &conn);
	end("%d, %s", ret, pointer(conn));
	begin("pointer to NULL, out NULL");
	ret = rpma_conn_req_connect(&none, NULL, NULL);
	end("%d", ret);
}

static void connect_failures(struct world *world)
{
	about("rpma_conn_req_connect");
	for (size_t side = 0; side < 2; side++)
		for (size_t s = 0; s < 10; s++)
			for (size_t c = 0; c < COUNT(calls); c++)
				for (int after = 0; after < 2; after++)
					for (size_t e = 0; e < 2; e++) {
						struct rpma_conn_cfg *cfg = config(&shapes[s]);
						struct rpma_conn *conn = UNTOUCHED_PTR;
						struct call call = { 0 };

						sides[side].begin(world, cfg, &call);
						begin("%s, %s; %s fails with %d after %d", sides[side].name,
						      shown(&shapes[s]), nic_call_names[calls[c]], errors[e],
						      after);
						nic_fail(calls[c], after, errors[e]);
						int ret = rpma_conn_req_connect(&call.req, NULL, &conn);
						bool unmet = nic_fail_end();

						end("%d, request %s, connection %s%s", ret, pointer(call.req),
						    pointer(conn), unmet ? ", not called" : "");
						if (ret == 0)
							NEED(rpma_conn_delete(&conn));
						end_call(&call);
						drop_late(world);
						NEED(rpma_conn_cfg_delete(&cfg));
					}
}

/* ---- rpma_conn_req_delete, rpma_conn_req_get_private_data ------------------------ */

static void deletion(struct world *world)
{
	struct call call = { 0 };
	int ret;

	about("rpma_conn_req_delete");
	begin("NULL");
	ret = rpma_conn_req_delete(NULL);
	end("%d", ret);
	begin("pointer to NULL");
	ret = rpma_conn_req_delete(&call.req);
	end("%d, %s", ret, pointer(call.req));
	for (size_t side = 0; side < 2; side++)
		for (size_t s = 0; s < 10; s++)
			for (size_t c = 0; c < COUNT(calls); c++)
				for (size_t e = 0; e < 2; e++) {
					struct rpma_conn_cfg *cfg = config(&shapes[s]);

					sides[side].begin(world, cfg, &call);
					begin("%s, %s; %s fails with %d", sides[side].name, shown(&shapes[s]),
					      nic_call_names[calls[c]], errors[e]);
					nic_fail(calls[c], 0, errors[e]);
					ret = rpma_conn_req_delete(&call.req);
					bool unmet = nic_fail_end();

					end("%d, %s%s", ret, pointer(call.req), unmet ? ", not called" : "");
					call.req = NULL;
					end_call(&call);
					drop_late(world);
					NEED(rpma_conn_cfg_delete(&cfg));
				}
}

static void private_data(struct world *world)
{
	about("rpma_conn_req_get_private_data");
	for (size_t side = 0; side < 2; side++) {
		struct call call = { 0 };

		sides[side].begin(world, NULL, &call);
		for (int null = 3; null >= 0; null--) {
			struct rpma_conn_private_data data = { UNTOUCHED_PTR, 77 };

			begin("%s, request %s, out %s", sides[side].name, null & 1 ? "NULL" : "ok",
			      null & 2 ? "NULL" : "ok");
			int ret = rpma_conn_req_get_private_data(null & 1 ? NULL : call.req,
								 null & 2 ? NULL : &data);

			end("%d, %s, %u bytes%s", ret, pointer(data.ptr), data.len,
			    data.ptr && data.len == 6 && !memcmp(data.ptr, "hello", 6) ? ", hello" : "");
		}
		end_call(&call);
	}
}

/* ---- rpma_conn_req_recv ----------------------------------------------------------- */

static void receive(struct world *world)
{
	static const size_t offsets[] = { 0, 1, 8, 4095, 4096, SIZE_MAX };
	static const size_t lens[] = { 0, 1, 8, 4096, 4097, UINT32_MAX, 1UL << 32, SIZE_MAX };
	static const uintptr_t contexts[] = { 0, 1, 0x7fffffff, UINTPTR_MAX };

	about("rpma_conn_req_recv");
	for (size_t side = 0; side < 2; side++) {
		struct call call = { 0 };

		sides[side].begin(world, NULL, &call);
		for (int null = 0; null < 4; null++)
			for (size_t o = 0; o < COUNT(offsets); o++)
				for (size_t l = 0; l < COUNT(lens); l++)
					for (size_t c = 0; c < COUNT(contexts); c++) {
						begin("%s, request %s, region %s, offset %#zx, %#zx bytes, context %#lx",
						      sides[side].name, null & 1 ? "NULL" : "ok",
						      null & 2 ? "NULL" : "ok", offsets[o], lens[l], contexts[c]);
						int ret = rpma_conn_req_recv(null & 1 ? NULL : call.req,
									     null & 2 ? NULL : world->local,
									     offsets[o], lens[l],
									     (void *)contexts[c]);

						end("%d", ret);
						nic_renew_all();
					}
		for (size_t e = 0; e < COUNT(errors); e++) {
			begin("%s, post_recv fails with %d", sides[side].name, errors[e]);
			nic_fail(NIC_post_recv, 0, errors[e]);
			int ret = rpma_conn_req_recv(call.req, world->local, 0, 8, NULL);
			bool unmet = nic_fail_end();

			end("%d%s", ret, unmet ? ", not called" : "");
		}
		/* Ten are asked for by default. */
		for (int i = 0; i < 12; i++) {
			begin("%s, number %d", sides[side].name, i);
			int ret = rpma_conn_req_recv(call.req, world->local, 8 * (size_t)i, 8,
						     (void *)(uintptr_t)i);

			end("%d", ret);
		}
		end_call(&call);
	}
}

void cases_request(void)
{
	struct rpma_srq_cfg *cfg = NULL;
	struct world world;
	int fd = -1;

	world_begin(&world);
	NEED(rpma_ep_get_fd(world.ep, &fd));
	unblock(fd);
	NEED(rpma_srq_cfg_new(&cfg));
	NEED(rpma_srq_new(world.peer, cfg, &srqs[2]));
	NEED(rpma_srq_cfg_set_rcq_size(cfg, 0));
	NEED(rpma_srq_new(world.peer, cfg, &srqs[1]));
	new_arguments(&world);
	new_shapes(&world);
	new_failures(&world);
	connect_arguments(&world);
	connect_failures(&world);
	deletion(&world);
	private_data(&world);
	receive(&world);
	NEED(rpma_srq_delete(&srqs[1]));
	NEED(rpma_srq_delete(&srqs[2]));
	NEED(rpma_srq_cfg_delete(&cfg));
	world_delete(&world);
}
