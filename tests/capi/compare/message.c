/* Messages: sends with and without immediate data, and receives. */
#include "case.h"

static const size_t offsets[] = { 0, 1, 4095, 4096, SIZE_MAX };
static const size_t lens[] = { 0, 1, 8, 4096, 4097, UINT32_MAX, 1UL << 32, SIZE_MAX };
static const int flags[] = { 0, 1, 2, 3, 4, 8, INT_MIN, -1 };
static const uintptr_t contexts[] = { 0, 1, UINTPTR_MAX };
static const uint32_t imms[] = { 0, 1, 0x01020304, 0x80000000, UINT32_MAX };
static const int errors[] = { ENOMEM, EINVAL, -1, 1000 };

static int send_one(struct world *world, bool imm, int null, size_t offset, size_t len, int flag,
		uint32_t value, uintptr_t context)
{
	struct rpma_conn *conn = null & 1 ? NULL : world->client;
	struct rpma_mr_local *mr = null & 2 ? NULL : world->local;

	return imm ? rpma_send_with_imm(conn, mr, offset, len, flag, value, (void *)context)
		   : rpma_send(conn, mr, offset, len, flag, (void *)context);
}

static void send_arguments(struct world *world, bool imm)
{
	for (int null = 0; null < 4; null++)
		for (size_t o = 0; o < COUNT(offsets); o++)
			for (size_t l = 0; l < COUNT(lens); l++)
				for (size_t f = 0; f < COUNT(flags); f++)
					for (size_t c = 0; c < COUNT(contexts); c++) {
						uint32_t value = imms[(o + l + f + c) % COUNT(imms)];

						begin("conn %s, src %s%+ld, %#zx bytes, flags %#x, imm %#x, context %#lx",
						      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
						      (long)offsets[o], lens[l], (unsigned)flags[f], value,
						      (unsigned long)contexts[c]);
						int ret = send_one(world, imm, null, offsets[o], lens[l], flags[f],
							       value, contexts[c]);

						end("%d", ret);
						nic_renew_all();
					}
	for (size_t e = 0; e < COUNT(errors); e++)
		for (size_t f = 1; f < COUNT(flags); f++) {
			begin("post_send fails with %d, flags %#x", errors[e], (unsigned)flags[f]);
			nic_fail(NIC_post_send, 0, errors[e]);
			int ret = send_one(world, imm, 0, 0, 8, flags[f], 1, 0);
			bool unmet = nic_fail_end();

			end("%d%s", ret, unmet ? ", not called" : "");
			nic_renew_all();
		}
}

static void recv_arguments(struct world *world)
{
	about("rpma_recv");
	for (int null = 0; null < 4; null++)
		for (size_t o = 0; o < COUNT(offsets); o++)
			for (size_t l = 0; l < COUNT(lens); l++)
				for (size_t c = 0; c < COUNT(contexts); c++) {
					begin("conn %s, dst %s%+ld, %#zx bytes, context %#lx",
					      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
					      (long)offsets[o], lens[l], (unsigned long)contexts[c]);
					int ret = rpma_recv(null & 1 ? NULL : world->client,
							    null & 2 ? NULL : world->local, offsets[o], lens[l],
							    (void *)contexts[c]);

					end("%d", ret);
					nic_renew_all();
				}
	for (size_t e = 0; e < COUNT(errors); e++) {
		begin("post_recv fails with %d", errors[e]);
		nic_fail(NIC_post_recv, 0, errors[e]);
		int ret = rpma_recv(world->client, world->local, 0, 8, NULL);
		bool unmet = nic_fail_end();

		end("%d%s", ret, unmet ? ", not called" : "");
	}
	for (int i = 0; i < 12; i++) {
		begin("number %d in a row", i);
		int ret = rpma_recv(world->client, world->local, 0, 8, (void *)(uintptr_t)i);

		end("%d", ret);
	}
	nic_renew_all();
}

/* What arrives: the bytes, their number, the immediate data, both completions. */
static void exchange(struct world *world, bool imm)
{
	static const size_t counts[] = { 0, 1, 8, 100, 4096 };
	static const size_t rooms[] = { 0, 1, 8, 4096 };
	struct rpma_cq *sent = NULL, *received = NULL;

	NEED(rpma_conn_get_cq(world->client, &sent));
	NEED(rpma_conn_get_cq(world->server, &received));
	for (size_t n = 0; n < COUNT(counts); n++)
		for (size_t r = 0; r < COUNT(rooms); r++)
			for (size_t i = 0; i < COUNT(imms); i++) {
				struct ibv_wc from = { 0 }, to = { 0 };
				size_t equal = 0;

				for (size_t b = 0; b < REGION_LEN; b++) {
					arena[b] = (char)(b * 3 + 1);
					TARGET[b] = 0;
				}
				about("rpma_recv");
				begin("%zu bytes into %zu, imm %#x%s", counts[n], rooms[r], imms[i],
				      imm ? ", sent" : "");
				int posted = rpma_recv(world->server, world->target, 0, rooms[r], (void *)11);

				end("%d", posted);
				about(imm ? "rpma_send_with_imm" : "rpma_send");
				begin("%zu bytes into %zu, imm %#x", counts[n], rooms[r], imms[i]);
				int ret = send_one(world, imm, 0, 0, counts[n], 3, imms[i], 22);
				int done = rpma_cq_get_wc(sent, 1, &from, NULL);
				int came = rpma_cq_get_wc(received, 1, &to, NULL);

				for (size_t b = 0; b < REGION_LEN; b++)
					equal += arena[b] == TARGET[b];
				end("%d; %d: id %lu, status %d, opcode %d; %d: id %lu, status %d, opcode %d, %u bytes, flags %d, imm %#x; %zu equal",
				    ret, done, from.wr_id, from.status, (int)from.opcode, came, to.wr_id, to.status,
				    (int)to.opcode, to.byte_len, (int)to.wc_flags, to.imm_data, equal);
				nic_renew_all();
			}
	/* Nobody waits for it: it waits. */
	begin("before a receive");
	struct ibv_wc wc = { 0 };
	int ret = send_one(world, imm, 0, 0, 8, 3, 5, 1), early = rpma_cq_get_wc(sent, 1, &wc, NULL);
	int posted = rpma_recv(world->server, world->target, 0, 8, NULL);
	int late = rpma_cq_get_wc(sent, 1, &wc, NULL);

	end("%d, %d, %d, %d", ret, early, posted, late);
	nic_renew_all();
}

void cases_message(void)
{
	struct world world;

	world_new(&world, NULL);
	nic_renew_all();
	for (int imm = 0; imm < 2; imm++) {
		about(imm ? "rpma_send_with_imm" : "rpma_send");
		send_arguments(&world, imm);
		exchange(&world, imm);
	}
	recv_arguments(&world);
	world_delete(&world);
}
