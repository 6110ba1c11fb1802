/* rpma_atomic_write: the manual's checks and their order, and what is posted. */
#include "case.h"

static const int flags[] = { 0,  1,  2,	 3,  4,	 5,	     6,	      7,  8,  9,
			     10, 15, 16, 64, 256, 0x40000000, INT_MIN, -1, -2, -3 };
static const size_t offsets[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 4080, 4084, 4088, 4095, 4096, 4097,
				  4104, 1UL << 32, SIZE_MAX - 7, SIZE_MAX - 8, SIZE_MAX };
static const uintptr_t contexts[] = { 0, 1, 0x1234567890, UINTPTR_MAX };
static const int errors[] = { ENOMEM, EINVAL, -1, 1000, EAGAIN };

static void arguments(struct world *world)
{
	static const char word[9] = "\1\2\3\4\5\6\7\10";

	for (int null = 0; null < 8; null++)
		for (size_t o = 0; o < COUNT(offsets); o++)
			for (size_t f = 0; f < COUNT(flags); f++) {
				begin("conn %s, dst %s, src %s, offset %#zx, flags %#x",
				      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
				      null & 4 ? "NULL" : "ok", offsets[o], (unsigned)flags[f]);
				int ret = rpma_atomic_write(null & 1 ? NULL : world->client,
							    null & 2 ? NULL : world->remote, offsets[o],
							    null & 4 ? NULL : word, flags[f], (void *)7);

				end("%d", ret);
				nic_renew_all();
			}
}

/* Bounds, uses and the alignment of the sum are the peer's device to find out. */
static void regions(struct world *world)
{
	for (int base = 0; base < 9; base++)
		for (int usage = 1; usage <= 0x80; usage <<= 1)
			for (size_t o = 0; o < 32; o += 4)
				for (size_t c = 0; c < COUNT(contexts); c++) {
					struct rpma_mr_local *mr = NULL;
					char word[8];

					memset(word, 0x40 + base, sizeof(word));
					NEED(rpma_mr_reg(world->peer, TARGET + 8192 + base, 16, usage, &mr));
					struct rpma_mr_remote *remote = remote_of(mr);

					begin("base %+d, usage %#x, offset %zu, context %#lx", base, usage, o,
					      (unsigned long)contexts[c]);
					int ret = rpma_atomic_write(world->client, remote, o, word,
								    RPMA_F_COMPLETION_ALWAYS,
								    (void *)contexts[c]);
					struct rpma_cq *cq = NULL;
					struct ibv_wc wc = { 0 };

					NEED(rpma_conn_get_cq(world->client, &cq));
					int done = rpma_cq_get_wc(cq, 1, &wc, NULL);

					end("%d, %d; id %#lx, status %d, opcode %d; now %02x", ret, done,
					    wc.wr_id, wc.status, (int)wc.opcode, (unsigned char)TARGET[8192 + base + (o < 16 ? o : 0)]);
					memset(TARGET + 8192, 0, 64);
					nic_renew_all();
					NEED(rpma_mr_remote_delete(&remote));
					NEED(rpma_mr_dereg(&mr));
				}
}

/* The source is copied: it may change at once, and may lie anywhere. */
static void source(struct world *world)
{
	for (int shift = 0; shift < 9; shift++) {
		char buffer[24] = "abcdefghijklmnopqrstuvw";

		memset(TARGET, 0, 16);
		begin("the source at %+d, overwritten at once", shift);
		int ret = rpma_atomic_write(world->client, world->remote, 0, buffer + shift, 1, NULL);

		memset(buffer, '!', sizeof(buffer));
		end("%d, %.8s", ret, TARGET);
		nic_renew_all();
	}
	begin("the source may be read-only");
	int ret = rpma_atomic_write(world->client, world->remote, 8, "constant", 1, NULL);

	end("%d, %.8s", ret, TARGET + 8);
	nic_renew_all();
}

static void failures(struct world *world)
{
	for (size_t e = 0; e < COUNT(errors); e++)
		for (size_t f = 1; f < COUNT(flags); f++) {
			begin("post_send fails with %d, flags %#x", errors[e], (unsigned)flags[f]);
			nic_fail(NIC_post_send, 0, errors[e]);
			int ret = rpma_atomic_write(world->client, world->remote, 0, "12345678", flags[f], NULL);
			bool unmet = nic_fail_end();

			end("%d%s", ret, unmet ? ", not called" : "");
			nic_renew_all();
		}
	for (int signaled = 0; signaled < 2; signaled++) {
		for (int i = 0; i < 14; i++) {
			begin("number %d in a row, signaled %d", i, signaled);
			int ret = rpma_atomic_write(world->client, world->remote, 0, "12345678",
						    signaled ? 3 : 1, (void *)(uintptr_t)i);

			end("%d", ret);
		}
		nic_renew_all();
	}
}

/* Behind others, in one queue: order, fence and completions. */
static void sequence(struct world *world)
{
	struct ibv_wc wc[10] = { 0 };
	struct rpma_cq *cq = NULL;
	int got = 0;

	NEED(rpma_conn_get_cq(world->client, &cq));
	begin("write, flush, atomic write, flush");
	int first = rpma_write(world->client, world->remote, 0, world->local, 0, 64, 1, (void *)1);
	int second = rpma_flush(world->client, world->remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, 1,
				(void *)2);
	int third = rpma_atomic_write(world->client, world->remote, 64, "12345678", 1, (void *)3);
	int fourth = rpma_flush(world->client, world->remote, 64, 8, RPMA_FLUSH_TYPE_VISIBILITY, 3,
				(void *)4);
	int ret = rpma_cq_get_wc(cq, 10, wc, &got);

	end("%d %d %d %d, %d: %d, id %lu, status %d", first, second, third, fourth, ret, got, wc[0].wr_id,
	    wc[0].status);
	nic_renew_all();
	begin("one beyond the end, and two behind it");
	first = rpma_atomic_write(world->client, world->remote, 8, "12345678", 1, (void *)1);
	second = rpma_atomic_write(world->client, world->remote, 4096, "12345678", 1, (void *)2);
	third = rpma_atomic_write(world->client, world->remote, 16, "12345678", 1, (void *)3);
	fourth = rpma_atomic_write(world->client, world->remote, 24, "12345678", 3, (void *)4);
	ret = rpma_cq_get_wc(cq, 10, wc, &got);
	end("%d %d %d %d, %d: %d, %lu %d, %lu %d, %lu %d", first, second, third, fourth, ret, got,
	    wc[0].wr_id, wc[0].status, wc[1].wr_id, wc[1].status, wc[2].wr_id, wc[2].status);
	nic_renew_all();
}

static void before_connection(void)
{
	struct rpma_conn_req *req = NULL;
	struct world world;

	world_begin(&world);
	NEED(rpma_conn_req_new(world.peer, "10.9.0.1", "7001", NULL, &req));
	NEED(rpma_conn_req_connect(&req, NULL, &world.client));
	for (size_t f = 0; f < COUNT(flags); f++) {
		begin("before it is established, flags %#x", (unsigned)flags[f]);
		int ret = rpma_atomic_write(world.client, world.remote, 0, "12345678", flags[f], NULL);

		end("%d", ret);
	}
	world_delete(&world);
}

void cases_atomic_write(void)
{
	struct world world;

	about("rpma_atomic_write");
	world_new(&world, NULL);
	nic_renew_all();
	arguments(&world);
	regions(&world);
	source(&world);
	failures(&world);
	sequence(&world);
	world_delete(&world);
	before_connection();
}
