/* Reads and writes: what is posted for every kind of argument. */
#include "case.h"

static const size_t offsets[] = { 0, 1, 4088, 4096, SIZE_MAX };
static const size_t lens[] = { 0, 1, 8, 4096, 4097, UINT32_MAX, 1UL << 32, SIZE_MAX };
static const int flags[] = { 0, 1, 2, 3, 4, 5, 7, 8, 0x40000000, INT_MIN, -1, -2 };
static const uintptr_t contexts[] = { 0, 1, 0x100000000, UINTPTR_MAX };
static const uint32_t imms[] = { 0, 1, 0x01020304, UINT32_MAX };
static const int errors[] = { ENOMEM, EINVAL, EFAULT, -1, 1000, EAGAIN };

enum kind { READ, WRITE, WRITE_IMM, KINDS };

static const char *const names[] = { "rpma_read", "rpma_write", "rpma_write_with_imm" };

struct request {
	bool conn, local, remote;
	size_t local_offset, remote_offset, len;
	int flags;
	uint32_t imm;
	uintptr_t context;
};

static int call(struct world *world, enum kind kind, const struct request *of)
{
	struct rpma_conn *conn = of->conn ? world->client : NULL;
	struct rpma_mr_local *local = of->local ? world->local : NULL;
	struct rpma_mr_remote *remote = of->remote ? world->remote : NULL;
	void *context = (void *)of->context;

	switch (kind) {
	case READ:
		return rpma_read(conn, local, of->local_offset, remote, of->remote_offset, of->len,
				 of->flags, context);
	case WRITE:
		return rpma_write(conn, remote, of->remote_offset, local, of->local_offset, of->len,
				  of->flags, context);
	default:
		return rpma_write_with_imm(conn, remote, of->remote_offset, local, of->local_offset,
					   of->len, of->flags, of->imm, context);
	}
}

static void one(struct world *world, enum kind kind, const struct request *of)
{
	begin("conn %s, local %s%+ld, remote %s%+ld, %#zx bytes, flags %#x, imm %#x, context %#lx",
	      of->conn ? "ok" : "NULL", of->local ? "ok" : "NULL", (long)of->local_offset,
	      of->remote ? "ok" : "NULL", (long)of->remote_offset, of->len, (unsigned)of->flags, of->imm,
	      (unsigned long)of->context);
	int ret = call(world, kind, of);

	end("%d", ret);
	nic_renew_all();
}

/* Nobody is left out: every NULL with every number that is looked at. */
static void nulls(struct world *world, enum kind kind)
{
	for (int null = 0; null < 8; null++)
		for (size_t l = 0; l < 2; l++)
			for (size_t r = 0; r < 2; r++)
				for (size_t n = 0; n < 3; n++)
					for (size_t f = 0; f < COUNT(flags); f++) {
						struct request of = { !(null & 1), !(null & 2), !(null & 4),
								      offsets[l], offsets[r], lens[n], flags[f],
								      0x01020304, 7 };

						one(world, kind, &of);
					}
}

static void numbers(struct world *world, enum kind kind)
{
	for (size_t l = 0; l < COUNT(offsets); l++)
		for (size_t r = 0; r < COUNT(offsets); r++)
			for (size_t n = 0; n < COUNT(lens); n++)
				for (size_t c = 0; c < COUNT(contexts); c++) {
					struct request of = { true, true, true, offsets[l], offsets[r], lens[n],
							      c & 1 ? RPMA_F_COMPLETION_ALWAYS
								    : RPMA_F_COMPLETION_ON_ERROR,
							      imms[c], contexts[c] };

					one(world, kind, &of);
				}
}

static void failures(struct world *world, enum kind kind)
{
	for (size_t e = 0; e < COUNT(errors); e++)
		for (size_t f = 1; f < COUNT(flags); f++) {
			struct request of = { true, true, true, 0, 0, 8, flags[f], 1, 2 };

			begin("post_send fails with %d, flags %#x", errors[e], (unsigned)flags[f]);
			nic_fail(NIC_post_send, 0, errors[e]);
			int ret = call(world, kind, &of);
			bool unmet = nic_fail_end();

			end("%d%s", ret, unmet ? ", not called" : "");
			nic_renew_all();
		}
}

/* More than the ten that are asked for by default. */
static void queue_full(struct world *world, enum kind kind)
{
	for (int signaled = 0; signaled < 2; signaled++) {
		for (int i = 0; i < 14; i++) {
			struct request of = { true, true, true, 0, 0, 8, signaled ? 3 : 1, 1,
					      (uintptr_t)i };

			begin("number %d in a row, signaled %d", i, signaled);
			int ret = call(world, kind, &of);

			end("%d", ret);
		}
		nic_renew_all();
	}
}

/* What arrives, and what completes. */
static void bytes(struct world *world, enum kind kind)
{
	static const size_t counts[] = { 0, 1, 8, 100, 4096 };
	struct rpma_cq *cq = NULL;

	NEED(rpma_conn_get_cq(world->client, &cq));
	for (size_t n = 0; n < COUNT(counts); n++) {
		struct request of = { true, true, true, 0, 0, counts[n], 3, 0x01020304, 99 };
		struct ibv_wc wc = { 0 };
		size_t equal = 0;

		for (size_t i = 0; i < REGION_LEN; i++) {
			arena[i] = (char)(i * 7);
			TARGET[i] = (char)(i * 7 + 1);
		}
		begin("%zu bytes, and what arrives", counts[n]);
		NEED(rpma_recv(world->server, NULL, 0, 0, (void *)5));
		int ret = call(world, kind, &of), done = rpma_cq_get_wc(cq, 1, &wc, NULL);

		for (size_t i = 0; i < REGION_LEN; i++)
			equal += arena[i] == TARGET[i];
		end("%d, %d; id %lu, status %d, opcode %d, %u bytes; %zu equal", ret, done, wc.wr_id,
		    wc.status, (int)wc.opcode, wc.byte_len, equal);
		nic_renew_all();
	}
}

static void before_connection(enum kind kind)
{
	struct rpma_conn_req *req = NULL;
	struct world world;

	world_begin(&world);
	NEED(rpma_conn_req_new(world.peer, "10.9.0.1", "7001", NULL, &req));
	NEED(rpma_conn_req_connect(&req, NULL, &world.client));
	for (size_t f = 1; f < COUNT(flags); f++) {
		struct request of = { true, true, true, 0, 0, 8, flags[f], 1, 2 };

		begin("before it is established, flags %#x", (unsigned)flags[f]);
		int ret = call(&world, kind, &of);

		end("%d", ret);
	}
	world_delete(&world);
}

void cases_write(void)
{
	struct world world;

	for (enum kind kind = 0; kind < KINDS; kind++) {
		about(names[kind]);
		world_new(&world, NULL);
		nic_renew_all();
		nulls(&world, kind);
		numbers(&world, kind);
		failures(&world, kind);
		queue_full(&world, kind);
		bytes(&world, kind);
		world_delete(&world);
		before_connection(kind);
	}
}
