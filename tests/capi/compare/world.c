/* What the cases work on: memory at a known place, and a connected pair. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "case.h"

char *const arena = (char *)0x100000000000;
const char *case_now = "before the first";

void need(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fflush(stdout);
	fprintf(stderr, "%s:%d: case \"%s\": this must go well: %s\n", file, line, case_now, what);
	_exit(3);
}

void arena_new(void)
{
	void *got = mmap(arena, ARENA_LEN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	need(got == arena, "mmap of the arena", __FILE__, __LINE__);
	nic_name("local", arena, ARENA_LEN / 4);
	nic_name("target", TARGET, ARENA_LEN / 4);
}

void unblock(int fd)
{
	need(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl", __FILE__, __LINE__);
}

struct rpma_mr_remote *remote_of(const struct rpma_mr_local *mr)
{
	struct rpma_mr_remote *remote = NULL;
	char descriptor[64];
	size_t len = 0;

	NEED(rpma_mr_get_descriptor_size(mr, &len));
	NEED(rpma_mr_get_descriptor(mr, descriptor));
	NEED(rpma_mr_remote_from_descriptor(descriptor, len, &remote));
	return remote;
}

struct ibv_qp *qp_of(const struct rpma_conn *conn)
{
	uint32_t number = 0;

	NEED(rpma_conn_get_qp_num(conn, &number));
	return nic_qp(number);
}

static void established(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int fd = -1;

	NEED(rpma_conn_get_event_fd(conn, &fd));
	unblock(fd);
	NEED(rpma_conn_next_event(conn, &event));
	need(event == RPMA_CONN_ESTABLISHED, "established", __FILE__, __LINE__);
}

void world_begin(struct world *world)
{
	memset(world, 0, sizeof(*world));
	NEED(rpma_peer_new(nic_context(), &world->peer));
	NEED(rpma_ep_listen(world->peer, "10.9.0.1", "7001", &world->ep));
	NEED(rpma_mr_reg(world->peer, arena, REGION_LEN, ALL_USES, &world->local));
	NEED(rpma_mr_reg(world->peer, TARGET, REGION_LEN, ALL_USES, &world->target));
	world->remote = remote_of(world->target);
}

void world_connect(struct world *world, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req = NULL;

	NEED(rpma_conn_req_new(world->peer, "10.9.0.1", "7001", cfg, &req));
	NEED(rpma_conn_req_connect(&req, NULL, &world->client));
	NEED(rpma_ep_next_conn_req(world->ep, cfg, &req));
	NEED(rpma_conn_req_connect(&req, NULL, &world->server));
	established(world->client);
	established(world->server);
}

void world_new(struct world *world, const struct rpma_conn_cfg *cfg)
{
	world_begin(world);
	world_connect(world, cfg);
}

void drop_late(struct world *world)
{
	struct rpma_conn_req *late = NULL;
	int ret;

	/* It says PROVIDER where there is nothing. */
	while ((ret = rpma_ep_next_conn_req(world->ep, NULL, &late)) != RPMA_E_PROVIDER)
		if (ret == 0)
			NEED(rpma_conn_req_delete(&late));
}

void world_disconnect(struct world *world)
{
	NEED(rpma_conn_delete(&world->client));
	NEED(rpma_conn_delete(&world->server));
}

void world_delete(struct world *world)
{
	if (world->client)
		world_disconnect(world);
	NEED(rpma_mr_remote_delete(&world->remote));
	NEED(rpma_mr_dereg(&world->target));
	NEED(rpma_mr_dereg(&world->local));
	NEED(rpma_ep_shutdown(&world->ep));
	NEED(rpma_peer_delete(&world->peer));
}
