/* Connections: their events, what they say of themselves, and their end. */
#include "case.h"

static const int errors[] = { EPERM, ENOMEM, EINVAL, ENODATA, EAGAIN, ENOTCONN };

/* ---- getters ------------------------------------------------------------------- */

static const char *file(int fd)
{
	return fd == -77 ? "untouched" : fcntl(fd, F_GETFD) >= 0 ? "open" : "not open";
}

static void getters(const struct rpma_conn *conn, const char *what)
{
	for (int null = 3; null >= 0; null--) {
		const struct rpma_conn *of = null & 1 ? NULL : conn;
		const char *conn_is = null & 1 ? "NULL" : "ok", *out_is = null & 2 ? "NULL" : "ok";
		struct rpma_conn_private_data data = { UNTOUCHED_PTR, 77 };
		struct rpma_cq *cq = UNTOUCHED_PTR;
		uint32_t number = UNTOUCHED;
		int fd = -77, ret;

		about("rpma_conn_get_event_fd");
		begin("%s, conn %s, out %s", what, conn_is, out_is);
		ret = rpma_conn_get_event_fd(of, null & 2 ? NULL : &fd);
		end("%d, %s", ret, file(fd));
		fd = -77;
		about("rpma_conn_get_compl_fd");
		begin("%s, conn %s, out %s", what, conn_is, out_is);
		ret = rpma_conn_get_compl_fd(of, null & 2 ? NULL : &fd);
		end("%d, %s", ret, file(fd));
		about("rpma_conn_get_qp_num");
		begin("%s, conn %s, out %s", what, conn_is, out_is);
		ret = rpma_conn_get_qp_num(of, null & 2 ? NULL : &number);
		end("%d, %s", ret,
		    number == UNTOUCHED ? "untouched" : nic_qp(number) ? "the queue pair's" : "another's");
		about("rpma_conn_get_cq");
		begin("%s, conn %s, out %s", what, conn_is, out_is);
		ret = rpma_conn_get_cq(of, null & 2 ? NULL : &cq);
		end("%d, %s", ret, pointer(cq));
		cq = UNTOUCHED_PTR;
		about("rpma_conn_get_rcq");
		begin("%s, conn %s, out %s", what, conn_is, out_is);
		ret = rpma_conn_get_rcq(of, null & 2 ? NULL : &cq);
		end("%d, %s", ret, pointer(cq));
		about("rpma_conn_get_private_data");
		begin("%s, conn %s, out %s", what, conn_is, out_is);
		ret = rpma_conn_get_private_data(of, null & 2 ? NULL : &data);
		end("%d, %s, %u bytes", ret, pointer(data.ptr), data.len);
	}
}

static void every_kind(struct world *world)
{
	struct rpma_conn_cfg *cfg = NULL;

	NEED(rpma_conn_cfg_new(&cfg));
	for (int shape = 0; shape < 4; shape++) {
		char what[64];

		NEED(rpma_conn_cfg_set_rcq_size(cfg, shape & 1 ? 12 : 0));
		NEED(rpma_conn_cfg_set_compl_channel(cfg, shape & 2));
		world_connect(world, cfg);
		snprintf(what, sizeof(what), "active, receive cq %d, shared %d", shape & 1, !!(shape & 2));
		getters(world->client, what);
		snprintf(what, sizeof(what), "passive, receive cq %d, shared %d", shape & 1, !!(shape & 2));
		getters(world->server, what);
		world_disconnect(world);
	}
	NEED(rpma_conn_cfg_delete(&cfg));
}

/* ---- events --------------------------------------------------------------------- */

/* A connection request comes to a listener, with an id of its own: never here. */
static bool comes_here(int type)
{
	return type != RDMA_CM_EVENT_CONNECT_REQUEST;
}

static void events(struct world *world)
{
	static const uint8_t lens[] = { 0, 1, 56, 196, 255 };
	static char bytes[256];

	memset(bytes, 0x77, sizeof(bytes));
	for (int type = 0; type < 20; type++)
		for (size_t l = 0; l < COUNT(lens); l++) {
			enum rpma_conn_event event = (enum rpma_conn_event)77;
			struct rpma_conn_private_data data = { UNTOUCHED_PTR, 77 };

			if (!comes_here(type))
				continue;
			world_connect(world, NULL);
			about("rpma_conn_next_event");
			begin("event %d, %u bytes", type, lens[l]);
			nic_cm_event(qp_of(world->client), type, bytes, lens[l]);
			int ret = rpma_conn_next_event(world->client, &event);

			end("%d, %d", ret, event);
			about("rpma_conn_get_private_data");
			begin("after event %d, %u bytes", type, lens[l]);
			ret = rpma_conn_get_private_data(world->client, &data);
			end("%d, %s, %u bytes", ret, pointer(data.ptr), data.len);
			/* The first to come stays. */
			NEED(rpma_conn_next_event(world->client, &event) == RPMA_E_PROVIDER ? 0 : 1);
			nic_cm_event(qp_of(world->client), RDMA_CM_EVENT_ESTABLISHED, "abc", 3);
			NEED(rpma_conn_next_event(world->client, &event));
			begin("after event %d, %u bytes, and a second", type, lens[l]);
			ret = rpma_conn_get_private_data(world->client, &data);
			end("%d, %s, %u bytes", ret, pointer(data.ptr), data.len);
			world_disconnect(world);
		}
}

static void event_arguments(struct world *world)
{
	static const enum nic_call calls[] = { NIC_get_cm_event, NIC_ack_cm_event };
	enum rpma_conn_event event = (enum rpma_conn_event)77;

	world_connect(world, NULL);
	about("rpma_conn_next_event");
	for (int null = 3; null >= 0; null--) {
		begin("none has come, conn %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		int ret = rpma_conn_next_event(null & 1 ? NULL : world->client, null & 2 ? NULL : &event);

		end("%d, %d", ret, event);
	}
	for (size_t c = 0; c < COUNT(calls); c++)
		for (size_t e = 0; e < COUNT(errors); e++)
			for (int type = 0; type < 16; type++) {
				if (!comes_here(type))
					continue;
				nic_cm_event(qp_of(world->client), type, "abc", 3);
				event = (enum rpma_conn_event)77;
				begin("event %d, %s fails with %d", type, nic_call_names[calls[c]], errors[e]);
				nic_fail(calls[c], 0, errors[e]);
				int ret = rpma_conn_next_event(world->client, &event);
				struct rpma_conn_private_data data = { UNTOUCHED_PTR, 77 };

				nic_fail_end();
				NEED(rpma_conn_get_private_data(world->client, &data));
				end("%d, %d, data %u bytes", ret, event, data.len);
				/* It may have been left there. */
				(void)rpma_conn_next_event(world->client, &event);
			}
	world_disconnect(world);
}

/* ---- private data of a true connection ---------------------------------------------- */

static void private_data(struct world *world)
{
	char there[56], back[56];

	memset(there, 'a', sizeof(there));
	memset(back, 'b', sizeof(back));
	about("rpma_conn_get_private_data");
	for (uint8_t to = 0; to <= 56; to += 7)
		for (uint8_t from = 0; from <= 56; from += 7) {
			struct rpma_conn_private_data out = { there, to }, in = { back, from };
			struct rpma_conn_private_data at_client = { 0 }, at_server = { 0 };
			struct rpma_conn_req *req = NULL;
			enum rpma_conn_event event;
			int early, late;

			NEED(rpma_conn_req_new(world->peer, "10.9.0.1", "7001", NULL, &req));
			NEED(rpma_conn_req_connect(&req, to ? &out : NULL, &world->client));
			NEED(rpma_ep_next_conn_req(world->ep, NULL, &req));
			NEED(rpma_conn_req_connect(&req, from ? &in : NULL, &world->server));
			begin("%u bytes there, %u back", to, from);
			early = rpma_conn_get_private_data(world->client, &at_client);
			end("%d, before the event %s, %u bytes", early, pointer(at_client.ptr), at_client.len);
			NEED(rpma_conn_next_event(world->client, &event));
			NEED(rpma_conn_next_event(world->server, &event));
			begin("%u bytes there, %u back, established", to, from);
			early = rpma_conn_get_private_data(world->client, &at_client);
			late = rpma_conn_get_private_data(world->server, &at_server);
			end("%d %d, client %s, %u, %.1s; server %s, %u, %.1s", early, late,
			    pointer(at_client.ptr), at_client.len, at_client.ptr ? (char *)at_client.ptr : "-",
			    pointer(at_server.ptr), at_server.len, at_server.ptr ? (char *)at_server.ptr : "-");
			world_disconnect(world);
		}
}

/* ---- the peer's configuration --------------------------------------------------------- */

static void peer_configuration(struct world *world)
{
	struct rpma_peer_cfg *cfg = NULL;

	NEED(rpma_peer_cfg_new(&cfg));
	world_connect(world, NULL);
	for (int set = 0; set < 4; set++) {
		NEED(rpma_peer_cfg_set_direct_write_to_pmem(cfg, set & 1));
		for (int null = 3; null >= 0; null--) {
			about("rpma_conn_apply_remote_peer_cfg");
			begin("%d, conn %s, cfg %s", set, null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
			int ret = rpma_conn_apply_remote_peer_cfg(null & 1 ? NULL : world->client,
								  null & 2 ? NULL : cfg);

			/* What it changes. */
			int flushed = rpma_flush(world->client, world->remote, 0, 8,
						 RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL);

			end("%d, a flush to persistence says %d", ret, flushed);
			nic_renew_all();
		}
	}
	world_disconnect(world);
	NEED(rpma_peer_cfg_delete(&cfg));
}

/* ---- the end ---------------------------------------------------------------------------- */

static void disconnection(struct world *world)
{
	int ret;

	about("rpma_conn_disconnect");
	begin("conn NULL");
	ret = rpma_conn_disconnect(NULL);
	end("%d", ret);
	for (size_t e = 0; e <= COUNT(errors); e++) {
		enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

		world_connect(world, NULL);
		about("rpma_conn_disconnect");
		begin("it fails with %d", e ? errors[e - 1] : 0);
		if (e)
			nic_fail(NIC_disconnect, 0, errors[e - 1]);
		ret = rpma_conn_disconnect(world->client);
		nic_fail_end();
		end("%d", ret);
		for (int side = 0; side < 2; side++) {
			about("rpma_conn_next_event");
			begin("after disconnect failed with %d, %s", e ? errors[e - 1] : 0, side ? "here" : "there");
			ret = rpma_conn_next_event(side ? world->client : world->server, &event);
			end("%d, %d", ret, event);
		}
		about("rpma_conn_disconnect");
		begin("after it failed with %d, from the other side", e ? errors[e - 1] : 0);
		ret = rpma_conn_disconnect(world->server);
		end("%d", ret);
		begin("after it failed with %d, again", e ? errors[e - 1] : 0);
		ret = rpma_conn_disconnect(world->client);
		end("%d", ret);
		world_disconnect(world);
	}
}

static void deletion(struct world *world)
{
	static const enum nic_call calls[] = { NIC_dereg_mr, NIC_destroy_cq, NIC_destroy_id,
					       NIC_destroy_comp_channel, NIC_disconnect };
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_conn *none = NULL;
	int ret;

	about("rpma_conn_delete");
	begin("NULL");
	ret = rpma_conn_delete(NULL);
	end("%d", ret);
	begin("pointer to NULL");
	ret = rpma_conn_delete(&none);
	end("%d, %s", ret, pointer(none));
	NEED(rpma_conn_cfg_new(&cfg));
	for (int shape = 0; shape < 4; shape++) {
		NEED(rpma_conn_cfg_set_rcq_size(cfg, shape & 1 ? 12 : 0));
		NEED(rpma_conn_cfg_set_compl_channel(cfg, shape & 2));
		for (size_t c = 0; c < COUNT(calls); c++)
			for (int after = 0; after < 3; after++)
				for (size_t e = 0; e < 3; e++)
					for (int side = 0; side < 2; side++) {
						struct rpma_conn **of = side ? &world->server : &world->client;

						world_connect(world, cfg);
						begin("%s, receive cq %d, shared %d; %s fails with %d after %d",
						      side ? "passive" : "active", shape & 1, !!(shape & 2),
						      nic_call_names[calls[c]], errors[e], after);
						nic_fail(calls[c], after, errors[e]);
						ret = rpma_conn_delete(of);
						bool unmet = nic_fail_end();

						end("%d, %s%s", ret, pointer(*of), unmet ? ", not called" : "");
						world_disconnect(world);
					}
	}
	NEED(rpma_conn_cfg_delete(&cfg));
}

void cases_conn(void)
{
	struct world world;

	world_begin(&world);
	every_kind(&world);
	events(&world);
	event_arguments(&world);
	private_data(&world);
	peer_configuration(&world);
	disconnection(&world);
	deletion(&world);
	world_delete(&world);
}
