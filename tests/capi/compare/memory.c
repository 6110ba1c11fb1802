/*
 * Out of memory: every allocation that a call makes fails in turn. Run with
 * oom.so in front, which has the allocator that fails by order.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "case.h"

/* The allocation after `after` fails, and with `all` those behind it too. */
static void (*fail_allocation)(int after, bool all);

static struct world world;
static struct rpma_conn_req *req;
static struct rpma_conn *caller;

static int peer_cfg_new(void **out) { return rpma_peer_cfg_new((struct rpma_peer_cfg **)out); }
static int peer_cfg_end(void **out) { return rpma_peer_cfg_delete((struct rpma_peer_cfg **)out); }
static int peer_cfg_from(void **out)
{
	return rpma_peer_cfg_from_descriptor("\1", 1, (struct rpma_peer_cfg **)out);
}
static int conn_cfg_new(void **out) { return rpma_conn_cfg_new((struct rpma_conn_cfg **)out); }
static int conn_cfg_end(void **out) { return rpma_conn_cfg_delete((struct rpma_conn_cfg **)out); }
static int srq_cfg_new(void **out) { return rpma_srq_cfg_new((struct rpma_srq_cfg **)out); }
static int srq_cfg_end(void **out) { return rpma_srq_cfg_delete((struct rpma_srq_cfg **)out); }
static int peer_new(void **out) { return rpma_peer_new(nic_context(), (struct rpma_peer **)out); }
static int peer_end(void **out) { return rpma_peer_delete((struct rpma_peer **)out); }
static int mr_new(void **out)
{
	return rpma_mr_reg(world.peer, arena, 64, ALL_USES, (struct rpma_mr_local **)out);
}
static int mr_end(void **out) { return rpma_mr_dereg((struct rpma_mr_local **)out); }
static int remote_new(void **out)
{
	static const char bytes[21] = { [20] = 1 };

	return rpma_mr_remote_from_descriptor(bytes, 21, (struct rpma_mr_remote **)out);
}
static int remote_end(void **out) { return rpma_mr_remote_delete((struct rpma_mr_remote **)out); }
static int srq_new(void **out) { return rpma_srq_new(world.peer, NULL, (struct rpma_srq **)out); }
static int srq_end(void **out) { return rpma_srq_delete((struct rpma_srq **)out); }
static int ep_new(void **out)
{
	return rpma_ep_listen(world.peer, "10.9.0.1", "7022", (struct rpma_ep **)out);
}
static int ep_end(void **out) { return rpma_ep_shutdown((struct rpma_ep **)out); }
static int req_new(void **out)
{
	return rpma_conn_req_new(world.peer, "10.9.0.1", "7001", NULL, (struct rpma_conn_req **)out);
}
static int req_end(void **out) { return rpma_conn_req_delete((struct rpma_conn_req **)out); }
static int next_req(void **out)
{
	return rpma_ep_next_conn_req(world.ep, NULL, (struct rpma_conn_req **)out);
}
static int join(void **out)
{
	return rpma_conn_req_connect(&req, NULL, (struct rpma_conn **)out);
}
static int conn_end(void **out) { return rpma_conn_delete((struct rpma_conn **)out); }
static int context(void **out)
{
	return rpma_utils_get_ibv_context("10.9.0.1", RPMA_UTIL_IBV_CONTEXT_REMOTE,
					  (struct ibv_context **)out);
}
static int nothing(void **out) { (void)out; return 0; }

static void call_in(void)
{
	struct rpma_conn_private_data data = { "hello", 6 };
	struct rpma_conn_req *calling = NULL;

	NEED(rpma_conn_req_new(world.peer, "10.9.0.1", "7001", NULL, &calling));
	NEED(rpma_conn_req_connect(&calling, &data, &caller));
}

static void make_req(void) { NEED(rpma_conn_req_new(world.peer, "10.9.0.1", "7001", NULL, &req)); }
static void make_passive(void)
{
	call_in();
	NEED(rpma_ep_next_conn_req(world.ep, NULL, &req));
}
static void no_need(void) {}

static const struct {
	const char *name;
	void (*prepare)(void);
	int (*make)(void **);
	int (*end)(void **);
} makers[] = {
	{ "rpma_peer_cfg_new", no_need, peer_cfg_new, peer_cfg_end },
	{ "rpma_peer_cfg_from_descriptor", no_need, peer_cfg_from, peer_cfg_end },
	{ "rpma_conn_cfg_new", no_need, conn_cfg_new, conn_cfg_end },
	{ "rpma_srq_cfg_new", no_need, srq_cfg_new, srq_cfg_end },
	{ "rpma_peer_new", no_need, peer_new, peer_end },
	{ "rpma_mr_reg", no_need, mr_new, mr_end },
	{ "rpma_mr_remote_from_descriptor", no_need, remote_new, remote_end },
	{ "rpma_srq_new", no_need, srq_new, srq_end },
	{ "rpma_ep_listen", no_need, ep_new, ep_end },
	{ "rpma_conn_req_new", no_need, req_new, req_end },
	{ "rpma_ep_next_conn_req", call_in, next_req, req_end },
	{ "rpma_conn_req_connect", make_req, join, conn_end },
	{ "rpma_conn_req_connect", make_passive, join, conn_end },
	{ "rpma_utils_get_ibv_context", no_need, context, nothing },
};

/* Is this what a call may say where memory ran out? */
static bool permitted(int ret, const void *out)
{
	return ret == 0 || (ret == RPMA_E_NOMEM && out == UNTOUCHED_PTR);
}

void cases_memory(void)
{
	fail_allocation = (void (*)(int, bool))dlsym(RTLD_DEFAULT, "fail_allocation");
	need(fail_allocation, "oom.so is in front", __FILE__, __LINE__);
	for (size_t m = 0; m < COUNT(makers); m++) {
		about(makers[m].name);
		if (begin_risky("out of memory, %s", makers[m].prepare == make_passive ? "passive" : "any")) {
			const char *verdict = "RPMA_E_NOMEM or well, every time";
			struct nic_live before_it, after_it;
			char text[128];
			bool failed = true;
			int after;

			for (after = 0; after < 200 && failed; after++) {
				void *out = UNTOUCHED_PTR;

				world_begin(&world);
				makers[m].prepare();
				before_it = nic_live();
				fail_allocation(after, false);
				int ret = makers[m].make(&out);

				fail_allocation(-1, false);
				after_it = nic_live();
				failed = ret != 0;
				if (!permitted(ret, out)) {
					snprintf(text, sizeof(text), "%d at allocation %d, %s", ret, after,
						 pointer(out));
					verdict = text;
				} else if (ret && (after_it.mrs > before_it.mrs || after_it.pds > before_it.pds ||
						   after_it.cqs > before_it.cqs || after_it.qps > before_it.qps ||
						   after_it.channels > before_it.channels)) {
					verdict = "something is left behind";
				}
				if (ret == 0)
					NEED(makers[m].end(&out));
				if (req)
					(void)rpma_conn_req_delete(&req);
				if (caller)
					(void)rpma_conn_delete(&caller);
				world_delete(&world);
			}
			/* What the attempts logged and left depends on how many there were. */
			begin("out of memory, %s", makers[m].prepare == make_passive ? "passive" : "any");
			end_risky("%s", verdict);
		}
	}
}
