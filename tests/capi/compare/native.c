/*
 * A device with the native operations: ATOMIC WRITE and FLUSH. Debian's librpma
 * was built without them; ours uses them. What arrives must be the same.
 */
#include "case.h"

static void operations(const char *what)
{
	static const int flags[] = { 0, 1, 2, 3, 4, -1 };
	struct rpma_cq *cq = NULL;
	struct world world;

	world_new(&world, NULL);
	NEED(rpma_conn_get_cq(world.client, &cq));
	nic_renew_all();
	for (size_t f = 0; f < COUNT(flags); f++) {
		struct ibv_wc wc = { 0 };

		about("rpma_atomic_write");
		memset(TARGET, 0, 64);
		begin("%s, flags %#x", what, (unsigned)flags[f]);
		int ret = rpma_atomic_write(world.client, world.remote, 8, "abcdefgh", flags[f], (void *)9);
		int done = rpma_cq_get_wc(cq, 1, &wc, NULL);

		end("%d, %d; id %lu, status %d; %.8s", ret, done, wc.wr_id, wc.status, TARGET + 8);
		nic_renew_all();
		memset(&wc, 0, sizeof(wc));
		about("rpma_flush");
		begin("%s, flags %#x", what, (unsigned)flags[f]);
		ret = rpma_flush(world.client, world.remote, 8, 100, RPMA_FLUSH_TYPE_VISIBILITY, flags[f],
				 (void *)10);
		done = rpma_cq_get_wc(cq, 1, &wc, NULL);
		end("%d, %d; id %lu, status %d", ret, done, wc.wr_id, wc.status);
		nic_renew_all();
		memset(&wc, 0, sizeof(wc));
		about("rpma_write");
		begin("%s, flags %#x", what, (unsigned)flags[f]);
		ret = rpma_write(world.client, world.remote, 0, world.local, 0, 100, flags[f], (void *)11);
		done = rpma_cq_get_wc(cq, 1, &wc, NULL);
		end("%d, %d; id %lu, status %d", ret, done, wc.wr_id, wc.status);
		nic_renew_all();
		memset(&wc, 0, sizeof(wc));
		about("rpma_read");
		begin("%s, flags %#x", what, (unsigned)flags[f]);
		ret = rpma_read(world.client, world.local, 0, world.remote, 0, 100, flags[f], (void *)12);
		done = rpma_cq_get_wc(cq, 1, &wc, NULL);
		end("%d, %d; id %lu, status %d", ret, done, wc.wr_id, wc.status);
		nic_renew_all();
	}
	world_delete(&world);
}

/* How memory is registered, and how the queue pair is made, on such a device. */
static void making(const char *what)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_peer *peer = NULL;

	NEED(rpma_peer_new(nic_context(), &peer));
	about("rpma_mr_reg");
	for (int usage = 1; usage <= 0xff; usage++) {
		struct rpma_mr_local *mr = NULL;

		begin("%s, usage %#x", what, usage);
		int ret = rpma_mr_reg(peer, arena, REGION_LEN, usage, &mr);

		end("%d, %s", ret, pointer(mr));
		NEED(rpma_mr_dereg(&mr));
	}
	about("rpma_conn_req_new");
	begin("%s", what);
	int ret = rpma_conn_req_new(peer, "10.9.0.1", "7001", NULL, &req);

	end("%d, %s", ret, pointer(req));
	NEED(rpma_conn_req_delete(&req));
	NEED(rpma_peer_delete(&peer));
}

void cases_native(void)
{
	static const struct nic_device plain, write = { .native_atomic_write = true },
				       both = { .native_atomic_write = true, .native_flush = true };

	nic_set_device(&write);
	operations("native atomic write");
	making("native atomic write");
	nic_set_device(&both);
	operations("native atomic write and flush");
	making("native atomic write and flush");
	nic_set_device(&plain);
}
