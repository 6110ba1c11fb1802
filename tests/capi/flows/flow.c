/* What every flow needs, and their main function. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

#include "flow.h"

#define TIMEOUT_S 50

void must(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s:%d: this does not hold: %s\n", flow_name, file, line, what);
	_exit(1);
}

void well(int ret, const char *what, const char *file, int line)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s:%d: %s: %s (%d)\n", flow_name, file, line, what, rpma_err_2str(ret), ret);
	_exit(1);
}

void fill(char *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (char)(i * 31 + i / 256 + seed * 17 + 1);
}

bool filled(const char *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != (char)(i * 31 + i / 256 + seed * 17 + 1))
			return false;
	return true;
}

/* ---- a side ----------------------------------------------------------------- */

static void begin(struct side *side, bool serves)
{
	struct ibv_context *context = NULL;

	WELL(rpma_utils_get_ibv_context(side->addr,
					serves ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE,
					&context));
	WELL(rpma_peer_new(context, &side->peer));
	MUST(posix_memalign((void **)&side->memory, 4096, REGION_LEN) == 0);
	memset(side->memory, 0, REGION_LEN);
	WELL(rpma_mr_reg(side->peer, side->memory, REGION_LEN, flow_usage, &side->mr));
	if (serves)
		WELL(rpma_ep_listen(side->peer, side->addr, side->port, &side->ep));
}

static void finish(struct side *side)
{
	WELL(rpma_ep_shutdown(&side->ep));
	WELL(rpma_mr_dereg(&side->mr));
	WELL(rpma_peer_delete(&side->peer));
	free(side->memory);
}

/* ---- connections -------------------------------------------------------------- */

struct rpma_conn_private_data descriptor_of(const struct side *side)
{
	/* One for each thread: both sides may be in one process. */
	static _Thread_local char bytes[64];
	struct rpma_conn_private_data data = { .ptr = bytes };
	size_t len = 0;

	WELL(rpma_mr_get_descriptor_size(side->mr, &len));
	MUST(len <= sizeof(bytes));
	WELL(rpma_mr_get_descriptor(side->mr, bytes));
	data.len = (uint8_t)len;
	return data;
}

struct rpma_mr_remote *remote_from(const struct rpma_conn *conn)
{
	struct rpma_conn_private_data data = { 0 };
	struct rpma_mr_remote *remote = NULL;
	size_t size = 0;

	WELL(rpma_conn_get_private_data(conn, &data));
	MUST(data.ptr);
	WELL(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	WELL(rpma_mr_remote_get_size(remote, &size));
	MUST(size == REGION_LEN);
	return remote;
}

void await_event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	WELL(rpma_conn_next_event(conn, &event));
	if (event != wanted)
		fprintf(stderr, "%s: %s\n", flow_name, rpma_utils_conn_event_2str(event));
	MUST(event == wanted);
}

struct rpma_conn *accept_one(struct side *side, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_private_data data = descriptor_of(side);
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	WELL(rpma_ep_next_conn_req(side->ep, cfg, &req));
	WELL(rpma_conn_req_connect(&req, &data, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

struct rpma_conn *call_one(struct side *side, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	WELL(rpma_conn_req_new(side->peer, side->addr, side->port, cfg, &req));
	WELL(rpma_conn_req_connect(&req, NULL, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

void hang_up(struct rpma_conn **conn)
{
	WELL(rpma_conn_disconnect(*conn));
	await_event(*conn, RPMA_CONN_CLOSED);
	WELL(rpma_conn_delete(conn));
	MUST(!*conn);
}

void await_end(struct rpma_conn **conn)
{
	await_event(*conn, RPMA_CONN_CLOSED);
	WELL(rpma_conn_disconnect(*conn));
	WELL(rpma_conn_delete(conn));
	MUST(!*conn);
}

/* ---- completions ---------------------------------------------------------------- */

struct ibv_wc await_on(struct rpma_cq *cq)
{
	struct ibv_wc wc = { 0 };
	int ret;

	/* An event may have been for a completion that is taken already. */
	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		WELL(rpma_cq_wait(cq));
	WELL(ret);
	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "%s: completion %lu has status %d\n", flow_name, wc.wr_id, wc.status);
	MUST(wc.status == IBV_WC_SUCCESS);
	return wc;
}

struct ibv_wc await_wc(struct rpma_conn *conn)
{
	struct rpma_cq *cq = NULL;

	WELL(rpma_conn_get_cq(conn, &cq));
	return await_on(cq);
}

struct ibv_wc await_received(struct rpma_conn *conn)
{
	struct rpma_cq *cq = NULL;

	WELL(rpma_conn_get_rcq(conn, &cq));
	MUST(cq);
	return await_on(cq);
}

/* ---- the program ------------------------------------------------------------------ */

static void *serve(void *of)
{
	struct side *side = of;

	flow_serve(side);
	printf("%s: served\n", flow_name);
	return NULL;
}

static void call(struct side *side)
{
	begin(side, false);
	flow_call(side);
	finish(side);
	printf("%s: called\n", flow_name);
}

int main(int argc, char **argv)
{
	struct side here = { .addr = argc > 3 ? argv[2] : "10.9.0.1", .port = argc > 3 ? argv[3] : "7440" };
	struct side there = here;
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(TIMEOUT_S);
	if (argc == 4 && !strcmp(argv[1], "serve")) {
		begin(&here, true);
		printf("listening\n");
		serve(&here);
		finish(&here);
	} else if (argc == 4 && !strcmp(argv[1], "call")) {
		call(&here);
	} else if (argc == 2 && !strcmp(argv[1], "both")) {
		begin(&here, true);
		MUST(pthread_create(&thread, NULL, serve, &here) == 0);
		call(&there);
		MUST(pthread_join(thread, NULL) == 0);
		finish(&here);
	} else {
		fprintf(stderr, "usage: %s serve|call ADDR PORT\n       %s both\n", argv[0], argv[0]);
		return 2;
	}
	return 0;
}
