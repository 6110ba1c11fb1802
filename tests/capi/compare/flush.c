/* rpma_flush: both types, on regions and connections that have them or not. */
#include "case.h"

static const size_t offsets[] = { 0, 1, 4088, 4096, SIZE_MAX };
static const size_t lens[] = { 0, 1, 8, 4096, UINT32_MAX, SIZE_MAX };
static const int flags[] = { 0, 1, 2, 3, 4, 8, INT_MIN, -1 };
static const int types[] = { RPMA_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY, 2, -1, INT_MAX };
static const int errors[] = { ENOMEM, EINVAL, -1, 1000 };

static void arguments(struct world *world, int pmem)
{
	for (int null = 0; null < 4; null++)
		for (size_t o = 0; o < COUNT(offsets); o++)
			for (size_t l = 0; l < COUNT(lens); l++)
				for (size_t f = 0; f < COUNT(flags); f++)
					for (size_t t = 0; t < COUNT(types); t++) {
						begin("pmem %d, conn %s, dst %s, offset %#zx, %#zx bytes, flags %#x, type %d",
						      pmem, null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
						      offsets[o], lens[l], (unsigned)flags[f], types[t]);
						int ret = rpma_flush(null & 1 ? NULL : world->client,
								     null & 2 ? NULL : world->remote, offsets[o],
								     lens[l], (enum rpma_flush_type)types[t],
								     flags[f], (void *)7);

						end("%d", ret);
						nic_renew_all();
					}
}

static void uses(struct world *world, int pmem)
{
	for (int usage = 1; usage <= 0xff; usage++) {
		struct rpma_mr_remote *remote = NULL;
		char descriptor[64];

		NEED(rpma_mr_get_descriptor(world->target, descriptor));
		descriptor[20] = (char)usage;
		NEED(rpma_mr_remote_from_descriptor(descriptor, 21, &remote));
		for (size_t t = 0; t < COUNT(types); t++) {
			begin("pmem %d, usage %#x, type %d", pmem, usage, types[t]);
			int ret = rpma_flush(world->client, remote, 0, 8, (enum rpma_flush_type)types[t],
					     RPMA_F_COMPLETION_ALWAYS, (void *)9);
			struct rpma_cq *cq = NULL;
			struct ibv_wc wc = { 0 };

			NEED(rpma_conn_get_cq(world->client, &cq));
			int done = rpma_cq_get_wc(cq, 1, &wc, NULL);

			end("%d, %d; id %lu, status %d, opcode %d", ret, done, wc.wr_id, wc.status,
			    (int)wc.opcode);
			nic_renew_all();
		}
		NEED(rpma_mr_remote_delete(&remote));
	}
}

void cases_flush(void)
{
	struct rpma_peer_cfg *cfg = NULL;
	struct world world;

	about("rpma_flush");
	NEED(rpma_peer_cfg_new(&cfg));
	world_new(&world, NULL);
	nic_renew_all();
	for (int pmem = 0; pmem < 2; pmem++) {
		NEED(rpma_peer_cfg_set_direct_write_to_pmem(cfg, pmem));
		NEED(rpma_conn_apply_remote_peer_cfg(world.client, cfg));
		arguments(&world, pmem);
		uses(&world, pmem);
	}
	for (size_t e = 0; e < COUNT(errors); e++)
		for (size_t f = 1; f < COUNT(flags); f++) {
			begin("post_send fails with %d, flags %#x", errors[e], (unsigned)flags[f]);
			nic_fail(NIC_post_send, 0, errors[e]);
			int ret = rpma_flush(world.client, world.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY,
					     flags[f], NULL);
			bool unmet = nic_fail_end();

			end("%d%s", ret, unmet ? ", not called" : "");
			nic_renew_all();
		}
	world_delete(&world);
	NEED(rpma_peer_cfg_delete(&cfg));
}
