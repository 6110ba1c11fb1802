/* Completions: how many are asked for, what is there, what comes back. */
#include "case.h"

static const int counts[] = { INT_MIN, -1, 0, 1, 2, 3, 10, 16, 100, INT_MAX };

static struct ibv_wc completion(unsigned number)
{
	return (struct ibv_wc){ .wr_id = 0x1000 + number,
				.status = (enum ibv_wc_status)(number % 24),
				.opcode = (enum ibv_wc_opcode)(number % 5),
				.vendor_err = number * 3,
				.byte_len = number * 5,
				.imm_data = number * 7,
				.qp_num = 0x900 + number,
				.src_qp = number * 11,
				.wc_flags = number % 3,
				.pkey_index = (uint16_t)number,
				.sl = (uint8_t)number,
				.dlid_path_bits = (uint8_t)(number + 1) };
}

static const char *all_of(const struct ibv_wc *wc, int count)
{
	static char text[1024];
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0; i < count && len < sizeof(text) - 120; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "(%lx %d %d %x %u %x %x %x %x %u %u %u)",
					wc[i].wr_id, wc[i].status, (int)wc[i].opcode, wc[i].vendor_err,
					wc[i].byte_len, wc[i].imm_data, wc[i].qp_num, wc[i].src_qp,
					wc[i].wc_flags, wc[i].pkey_index, wc[i].sl, wc[i].dlid_path_bits);
	return text;
}

static void get_wc(struct rpma_cq *cq, struct ibv_cq *below, const char *what)
{
	static struct ibv_wc wc[128];

	about("rpma_cq_get_wc");
	for (int there = 0; there < 4; there++)
		for (size_t c = 0; c < COUNT(counts); c++)
			for (int null = 0; null < 8; null++) {
				int got = 777;

				/* The pointer is all there is to say how much room there is. */
				memset(wc, 0xee, sizeof(wc));
				for (int i = 0; i < there; i++) {
					struct ibv_wc one = completion((unsigned)(i + counts[c] % 64 + 64));

					nic_complete(below, &one);
				}
				begin("%s, %d there, %d asked for, cq %s, wc %s, got %s", what, there, counts[c],
				      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
				      null & 4 ? "NULL" : "ok");
				int ret = rpma_cq_get_wc(null & 1 ? NULL : cq, counts[c], null & 2 ? NULL : wc,
							 null & 4 ? NULL : &got);

				end("%d, got %d: %s%s", ret, got, all_of(wc, ret ? 0 : null & 4 ? 1 : got),
				    wc[there].wr_id == 0xeeeeeeeeeeeeeeee ? "" : " and beyond");
				nic_renew_all();
			}
}

/* Every status and opcode comes through as it is. */
static void passes_on(struct rpma_cq *cq, struct ibv_cq *below)
{
	static const int opcodes[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 128, 129, 130, 255 };

	about("rpma_cq_get_wc");
	for (int status = 0; status < 32; status++)
		for (size_t o = 0; o < COUNT(opcodes); o++) {
			struct ibv_wc one = completion((unsigned)status), wc = { 0 };
			int got = 777;

			one.status = (enum ibv_wc_status)status;
			one.opcode = (enum ibv_wc_opcode)opcodes[o];
			nic_complete(below, &one);
			begin("status %d, opcode %d", status, opcodes[o]);
			int ret = rpma_cq_get_wc(cq, 1, &wc, &got);

			end("%d, got %d: %s", ret, got, all_of(&wc, 1));
			nic_renew_all();
		}
}

static void lies(struct rpma_cq *cq)
{
	static const int answers[] = { -1, -2, -1000, INT_MIN, 0, 1, 2, 3, 4, 5, 17, INT_MAX };

	about("rpma_cq_get_wc");
	for (int asked = 1; asked < 5; asked++)
		for (size_t a = 0; a < COUNT(answers); a++)
			for (int null = 0; null < 2; null++) {
				struct ibv_wc wc[8];
				int got = 777;

				memset(wc, 0, sizeof(wc));
				begin("%d asked for, the provider answers %d, got %s", asked, answers[a],
				      null ? "NULL" : "ok");
				nic_fail(NIC_poll_cq, 0, answers[a]);
				int ret = rpma_cq_get_wc(cq, asked, wc, null ? NULL : &got);
				bool unmet = nic_fail_end();

				end("%d, got %d%s", ret, got, unmet ? ", not called" : "");
			}
}

/* Which completions come to which queue. */
static void which(struct world *world, struct rpma_cq *cq, struct rpma_cq *rcq, const char *what)
{
	struct ibv_wc wc[8];

	about("rpma_cq_get_wc");
	for (int message = 0; message < 2; message++) {
		int sent = 0, received = 0;

		begin("%s, %s", what, message ? "a message" : "a write");
		NEED(rpma_recv(world->server, world->target, 0, 64, (void *)31));
		int ret = message ? rpma_send(world->client, world->local, 0, 8, 3, (void *)32)
				  : rpma_write(world->client, world->remote, 0, world->local, 0, 8, 3,
					       (void *)33);
		struct rpma_cq *there = NULL;

		NEED(rpma_conn_get_rcq(world->server, &there));
		if (!there)
			NEED(rpma_conn_get_cq(world->server, &there));
		int one = rpma_cq_get_wc(cq, 8, wc, &sent), none = rcq ? rpma_cq_get_wc(rcq, 8, wc + 1, NULL) : 0;
		int two = rpma_cq_get_wc(there, 8, wc + 2, &received);

		end("%d; %d %d; %d; %d %d", ret, one, sent, none, two, received);
		nic_renew_all();
	}
}

void cases_completion(void)
{
	struct rpma_conn_cfg *cfg = NULL;
	struct world world;

	NEED(rpma_conn_cfg_new(&cfg));
	for (int shape = 0; shape < 4; shape++) {
		struct rpma_cq *cq = NULL, *rcq = NULL;
		char what[64];

		NEED(rpma_conn_cfg_set_rcq_size(cfg, shape & 1 ? 12 : 0));
		NEED(rpma_conn_cfg_set_compl_channel(cfg, shape & 2));
		world_new(&world, cfg);
		nic_renew_all();
		NEED(rpma_conn_get_cq(world.client, &cq));
		NEED(rpma_conn_get_rcq(world.client, &rcq));
		snprintf(what, sizeof(what), "receive cq %d, shared %d", shape & 1, !!(shape & 2));
		get_wc(cq, qp_of(world.client)->send_cq, what);
		if (rcq) {
			strcat(what, ", from it");
			get_wc(rcq, qp_of(world.client)->recv_cq, what);
		}
		if (!shape) {
			passes_on(cq, qp_of(world.client)->send_cq);
			lies(cq);
		}
		which(&world, cq, rcq, what);
		world_delete(&world);
	}
	NEED(rpma_conn_cfg_delete(&cfg));
}
