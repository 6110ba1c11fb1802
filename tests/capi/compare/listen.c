/* Listeners, and the requests that come to them. */
#include "case.h"

static const int errors[] = { EPERM, ENOMEM, EINVAL, EADDRINUSE, EADDRNOTAVAIL, ENODATA, EAGAIN };

static void listening(struct rpma_peer *peer)
{
	static const char *const addrs[] = { "10.9.0.1", "localhost", "::1", "0.0.0.0", "", "nobody",
					     NULL };
	static const char *const ports[] = { "7010", "0", "65535", "65536", "-1", "", "a", NULL };
	static const enum nic_call calls[] = { NIC_create_event_channel, NIC_create_id, NIC_getaddrinfo,
					       NIC_bind_addr, NIC_listen, NIC_destroy_id };

	about("rpma_ep_listen");
	for (size_t a = 0; a < COUNT(addrs); a++)
		for (size_t p = 0; p < COUNT(ports); p++)
			for (int null = 0; null < 4; null++) {
				struct rpma_ep *ep = UNTOUCHED_PTR;

				begin("peer %s, \"%s\", \"%s\", out %s", null & 1 ? "NULL" : "ok",
				      addrs[a] ? addrs[a] : "(NULL)", ports[p] ? ports[p] : "(NULL)",
				      null & 2 ? "NULL" : "ok");
				int ret = rpma_ep_listen(null & 1 ? NULL : peer, addrs[a], ports[p],
							 null & 2 ? NULL : &ep);

				end("%d, %s", ret, pointer(ep));
				if (ret == 0)
					NEED(rpma_ep_shutdown(&ep));
			}
	for (size_t c = 0; c < COUNT(calls); c++)
		for (size_t e = 0; e < COUNT(errors); e++) {
			struct rpma_ep *ep = UNTOUCHED_PTR;

			about("rpma_ep_listen");
			begin("%s fails with %d", nic_call_names[calls[c]], errors[e]);
			nic_fail(calls[c], 0, errors[e]);
			int ret = rpma_ep_listen(peer, "10.9.0.1", "7010", &ep);
			bool unmet = nic_fail_end();

			end("%d, %s%s", ret, pointer(ep), unmet ? ", not called" : "");
			if (ret)
				continue;
			about("rpma_ep_shutdown");
			begin("%s fails with %d", nic_call_names[calls[c]], errors[e]);
			nic_fail(calls[c], 0, errors[e]);
			ret = rpma_ep_shutdown(&ep);
			unmet = nic_fail_end();
			end("%d, %s%s", ret, pointer(ep), unmet ? ", not called" : "");
		}
}

static void twice(struct rpma_peer *peer)
{
	struct rpma_ep *one = NULL, *two = UNTOUCHED_PTR;
	int ret;

	NEED(rpma_ep_listen(peer, "10.9.0.1", "7011", &one));
	about("rpma_ep_listen");
	begin("at an address that is in use");
	ret = rpma_ep_listen(peer, "10.9.0.1", "7011", &two);
	end("%d, %s", ret, pointer(two));
	about("rpma_ep_get_fd");
	for (int null = 3; null >= 0; null--) {
		int fd = -77;

		begin("listener %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_ep_get_fd(null & 1 ? NULL : one, null & 2 ? NULL : &fd);
		end("%d, %s", ret, fd == -77 ? "untouched" : fcntl(fd, F_GETFD) >= 0 ? "open" : "not open");
	}
	about("rpma_ep_shutdown");
	begin("NULL");
	ret = rpma_ep_shutdown(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_ep_shutdown(&one);
	end("%d, %s", ret, pointer(one));
	begin("pointer to NULL");
	ret = rpma_ep_shutdown(&one);
	end("%d, %s", ret, pointer(one));
}

/* ---- requests ----------------------------------------------------------------- */

static struct rpma_conn *call_it(struct world *world, const void *bytes, uint8_t len)
{
	struct rpma_conn_private_data data = { .ptr = (void *)bytes, .len = len };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	NEED(rpma_conn_req_new(world->peer, "10.9.0.1", "7001", NULL, &req));
	NEED(rpma_conn_req_connect(&req, len ? &data : NULL, &conn));
	return conn;
}

static void next_arguments(struct world *world)
{
	for (int null = 3; null >= 0; null--) {
		struct rpma_conn_req *req = UNTOUCHED_PTR;

		about("rpma_ep_next_conn_req");
		begin("none has come, listener %s, out %s", null & 1 ? "NULL" : "ok",
		      null & 2 ? "NULL" : "ok");
		int ret = rpma_ep_next_conn_req(null & 1 ? NULL : world->ep, NULL, null & 2 ? NULL : &req);

		end("%d, %s", ret, pointer(req));
	}
	for (int len = 0; len <= 56; len++) {
		unsigned char bytes[64];

		for (int i = 0; i < 64; i++)
			bytes[i] = (unsigned char)(len + i);
		struct rpma_conn *conn = call_it(world, bytes, (uint8_t)len);
		struct rpma_conn_req *req = UNTOUCHED_PTR;
		struct rpma_conn_private_data data = { UNTOUCHED_PTR, 77 };

		about("rpma_ep_next_conn_req");
		begin("%d bytes of private data", len);
		int ret = rpma_ep_next_conn_req(world->ep, NULL, &req);

		end("%d, %s", ret, pointer(req));
		about("rpma_conn_req_get_private_data");
		begin("%d bytes of private data", len);
		ret = rpma_conn_req_get_private_data(req, &data);
		end("%d, %s, %u bytes, %s", ret, pointer(data.ptr), data.len,
		    data.ptr && !memcmp(data.ptr, bytes, data.len) ? "equal" : "none");
		NEED(rpma_conn_req_delete(&req));
		NEED(rpma_conn_delete(&conn));
	}
}

static void next_events(struct world *world)
{
	about("rpma_ep_next_conn_req");
	for (int type = 0; type < 20; type++) {
		struct rpma_conn_req *req = UNTOUCHED_PTR;

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		begin("event %d", type);
		nic_listener_event(NULL, type);
		int ret = rpma_ep_next_conn_req(world->ep, NULL, &req);

		end("%d, %s", ret, pointer(req));
	}
}

static void next_failures(struct world *world)
{
	static const enum nic_call calls[] = {
		NIC_get_cm_event, NIC_ack_cm_event, NIC_create_comp_channel, NIC_create_cq,
		NIC_req_notify_cq, NIC_create_qp, NIC_create_event_channel, NIC_migrate_id, NIC_reg_mr,
	};
	struct rpma_conn_cfg *cfg = NULL;

	NEED(rpma_conn_cfg_new(&cfg));
	about("rpma_ep_next_conn_req");
	for (int shape = 0; shape < 4; shape++) {
		NEED(rpma_conn_cfg_set_rcq_size(cfg, shape & 1 ? 12 : 0));
		NEED(rpma_conn_cfg_set_compl_channel(cfg, shape & 2));
		for (size_t c = 0; c < COUNT(calls); c++)
			for (int after = 0; after < 3; after++)
				for (size_t e = 0; e < COUNT(errors); e++) {
					struct rpma_conn *conn = call_it(world, "x", 2);
					struct rpma_conn_req *req = UNTOUCHED_PTR;

					begin("receive cq %d, shared %d; %s fails with %d after %d", shape & 1,
					      !!(shape & 2), nic_call_names[calls[c]], errors[e], after);
					nic_fail(calls[c], after, errors[e]);
					int ret = rpma_ep_next_conn_req(world->ep, cfg, &req);
					bool unmet = nic_fail_end();

					/* The request is still there where no event was taken. */
					end("%d, %s%s", ret, ret ? req ? "not set" : "NULL" : pointer(req),
					    unmet ? ", not called" : "");
					if (ret && rpma_ep_next_conn_req(world->ep, NULL, &req) == 0)
						ret = 0;
					if (ret == 0)
						NEED(rpma_conn_req_delete(&req));
					NEED(rpma_conn_delete(&conn));
					drop_late(world);
				}
	}
	NEED(rpma_conn_cfg_delete(&cfg));
}

void cases_listen(void)
{
	struct world world;
	int fd = -1;

	world_begin(&world);
	NEED(rpma_ep_get_fd(world.ep, &fd));
	unblock(fd);
	listening(world.peer);
	twice(world.peer);
	next_arguments(&world);
	next_events(&world);
	next_failures(&world);
	world_delete(&world);
}
