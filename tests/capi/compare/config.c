/* Configurations: of a connection, of a shared receive queue, of a peer. */
#include "case.h"

static const uint32_t sizes[] = { 0, 1, 2, 9, 10, 4095, 4096, INT_MAX, 1U + INT_MAX, UINT32_MAX };

/* ---- connection ------------------------------------------------------------ */

typedef int set_u32(struct rpma_conn_cfg *, uint32_t);
typedef int get_u32(const struct rpma_conn_cfg *, uint32_t *);

static const struct {
	const char *set_name, *get_name;
	set_u32 *set;
	get_u32 *get;
} conn_sizes[] = {
	{ "rpma_conn_cfg_set_cq_size", "rpma_conn_cfg_get_cq_size", rpma_conn_cfg_set_cq_size,
	  rpma_conn_cfg_get_cq_size },
	{ "rpma_conn_cfg_set_rcq_size", "rpma_conn_cfg_get_rcq_size", rpma_conn_cfg_set_rcq_size,
	  rpma_conn_cfg_get_rcq_size },
	{ "rpma_conn_cfg_set_sq_size", "rpma_conn_cfg_get_sq_size", rpma_conn_cfg_set_sq_size,
	  rpma_conn_cfg_get_sq_size },
	{ "rpma_conn_cfg_set_rq_size", "rpma_conn_cfg_get_rq_size", rpma_conn_cfg_set_rq_size,
	  rpma_conn_cfg_get_rq_size },
};

/* Everything that a configuration holds: a setter changes one thing. */
static const char *all_of(const struct rpma_conn_cfg *cfg)
{
	static char text[160];
	uint32_t size[4] = { 0 };
	struct rpma_srq *srq = UNTOUCHED_PTR;
	bool shared = false;
	int timeout = 0;

	for (int i = 0; i < 4; i++)
		NEED(conn_sizes[i].get(cfg, &size[i]));
	NEED(rpma_conn_cfg_get_timeout(cfg, &timeout));
	NEED(rpma_conn_cfg_get_compl_channel(cfg, &shared));
	NEED(rpma_conn_cfg_get_srq(cfg, &srq));
	snprintf(text, sizeof(text), "cq %u, rcq %u, sq %u, rq %u, %d ms, shared %d, srq %s", size[0],
		 size[1], size[2], size[3], timeout, shared, pointer(srq));
	return text;
}

static void conn_numbers(void)
{
	for (size_t i = 0; i < COUNT(conn_sizes); i++) {
		struct rpma_conn_cfg *cfg = NULL;
		uint32_t got = UNTOUCHED;
		int ret;

		NEED(rpma_conn_cfg_new(&cfg));
		about(conn_sizes[i].get_name);
		for (int null = 0; null < 4; null++) {
			begin("cfg %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
			ret = conn_sizes[i].get(null & 1 ? NULL : cfg, null & 2 ? NULL : &got);
			end("%d, %#x", ret, got);
		}
		about(conn_sizes[i].set_name);
		for (size_t s = 0; s < COUNT(sizes); s++) {
			begin("%u", sizes[s]);
			ret = conn_sizes[i].set(cfg, sizes[s]);
			end("%d; %s", ret, all_of(cfg));
			begin("cfg NULL, %u", sizes[s]);
			ret = conn_sizes[i].set(NULL, sizes[s]);
			end("%d", ret);
			about(conn_sizes[i].get_name);
			begin("after it was set to %u", sizes[s]);
			ret = conn_sizes[i].get(cfg, &got);
			end("%d, %u", ret, got);
			about(conn_sizes[i].set_name);
		}
		NEED(rpma_conn_cfg_delete(&cfg));
	}
}

static void conn_timeout_and_channel(void)
{
	static const int timeouts[] = { INT_MIN, -1000, -1, 0, 1, 999, 1000, 60000, INT_MAX };
	struct rpma_conn_cfg *cfg = NULL;
	int timeout = UNTOUCHED, ret;
	bool shared = true;

	NEED(rpma_conn_cfg_new(&cfg));
	about("rpma_conn_cfg_set_timeout");
	for (size_t i = 0; i < COUNT(timeouts); i++) {
		begin("%d", timeouts[i]);
		ret = rpma_conn_cfg_set_timeout(cfg, timeouts[i]);
		end("%d; %s", ret, all_of(cfg));
		begin("cfg NULL, %d", timeouts[i]);
		ret = rpma_conn_cfg_set_timeout(NULL, timeouts[i]);
		end("%d", ret);
	}
	about("rpma_conn_cfg_get_timeout");
	for (int null = 3; null >= 0; null--) {
		begin("cfg %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_conn_cfg_get_timeout(null & 1 ? NULL : cfg, null & 2 ? NULL : &timeout);
		end("%d, %d", ret, timeout);
	}
	for (int to = 0; to < 2; to++) {
		about("rpma_conn_cfg_set_compl_channel");
		begin("cfg NULL, %d", to);
		ret = rpma_conn_cfg_set_compl_channel(NULL, to);
		end("%d", ret);
		begin("%d", to);
		ret = rpma_conn_cfg_set_compl_channel(cfg, to);
		end("%d; %s", ret, all_of(cfg));
		about("rpma_conn_cfg_get_compl_channel");
		for (int null = 3; null >= 0; null--) {
			begin("set to %d, cfg %s, out %s", to, null & 1 ? "NULL" : "ok",
			      null & 2 ? "NULL" : "ok");
			shared = !to;
			ret = rpma_conn_cfg_get_compl_channel(null & 1 ? NULL : cfg,
							      null & 2 ? NULL : &shared);
			end("%d, %d", ret, shared);
		}
	}
	NEED(rpma_conn_cfg_delete(&cfg));
}

static void conn_srq(void)
{
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_peer *peer = NULL;
	struct rpma_srq *srq = NULL, *got;
	int ret;

	NEED(rpma_peer_new(nic_context(), &peer));
	NEED(rpma_srq_new(peer, NULL, &srq));
	NEED(rpma_conn_cfg_new(&cfg));
	for (int set = 0; set < 2; set++) {
		about("rpma_conn_cfg_get_srq");
		for (int null = 3; null >= 0; null--) {
			got = UNTOUCHED_PTR;
			begin("%s, cfg %s, out %s", set ? "set" : "new", null & 1 ? "NULL" : "ok",
			      null & 2 ? "NULL" : "ok");
			ret = rpma_conn_cfg_get_srq(null & 1 ? NULL : cfg, null & 2 ? NULL : &got);
			end("%d, %s", ret, got == srq ? "the one that was set" : pointer(got));
		}
		about("rpma_conn_cfg_set_srq");
		for (int null = 3; null >= 0; null--) {
			begin("%s, cfg %s, srq %s", set ? "again" : "first", null & 1 ? "NULL" : "ok",
			      null & 2 ? "NULL" : "ok");
			ret = rpma_conn_cfg_set_srq(null & 1 ? NULL : cfg, null & 2 ? NULL : srq);
			end("%d; %s", ret, all_of(cfg));
		}
	}
	NEED(rpma_conn_cfg_delete(&cfg));
	NEED(rpma_srq_delete(&srq));
	NEED(rpma_peer_delete(&peer));
}

static void conn_life(void)
{
	struct rpma_conn_cfg *cfg = NULL;
	int ret;

	about("rpma_conn_cfg_new");
	begin("out NULL");
	ret = rpma_conn_cfg_new(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_conn_cfg_new(&cfg);
	end("%d, %s; %s", ret, pointer(cfg), all_of(cfg));
	about("rpma_conn_cfg_delete");
	begin("NULL");
	ret = rpma_conn_cfg_delete(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_conn_cfg_delete(&cfg);
	end("%d, %s", ret, pointer(cfg));
	begin("pointer to NULL");
	ret = rpma_conn_cfg_delete(&cfg);
	end("%d, %s", ret, pointer(cfg));
}

/* ---- shared receive queue --------------------------------------------------- */

static void srq_life(void)
{
	struct rpma_srq_cfg *cfg = NULL;
	uint32_t rq = 0, rcq = 0;
	int ret;

	about("rpma_srq_cfg_new");
	begin("out NULL");
	ret = rpma_srq_cfg_new(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_srq_cfg_new(&cfg);
	NEED(rpma_srq_cfg_get_rq_size(cfg, &rq));
	NEED(rpma_srq_cfg_get_rcq_size(cfg, &rcq));
	end("%d, %s; rq %u, rcq %u", ret, pointer(cfg), rq, rcq);
	about("rpma_srq_cfg_delete");
	begin("NULL");
	ret = rpma_srq_cfg_delete(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_srq_cfg_delete(&cfg);
	end("%d, %s", ret, pointer(cfg));
	begin("pointer to NULL");
	ret = rpma_srq_cfg_delete(&cfg);
	end("%d, %s", ret, pointer(cfg));
}

static void srq_numbers(void)
{
	static const struct {
		const char *set_name, *get_name;
		int (*set)(struct rpma_srq_cfg *, uint32_t);
		int (*get)(const struct rpma_srq_cfg *, uint32_t *);
	} srq_sizes[] = {
		{ "rpma_srq_cfg_set_rq_size", "rpma_srq_cfg_get_rq_size",
		  rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size },
		{ "rpma_srq_cfg_set_rcq_size", "rpma_srq_cfg_get_rcq_size",
		  rpma_srq_cfg_set_rcq_size, rpma_srq_cfg_get_rcq_size },
	};

	for (size_t i = 0; i < COUNT(srq_sizes); i++) {
		struct rpma_srq_cfg *cfg = NULL;
		uint32_t got = UNTOUCHED, other = 0;
		int ret;

		NEED(rpma_srq_cfg_new(&cfg));
		about(srq_sizes[i].get_name);
		for (int null = 3; null >= 0; null--) {
			begin("cfg %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
			ret = srq_sizes[i].get(null & 1 ? NULL : cfg, null & 2 ? NULL : &got);
			end("%d, %#x", ret, got);
		}
		for (size_t s = 0; s < COUNT(sizes); s++) {
			about(srq_sizes[i].set_name);
			begin("cfg NULL, %u", sizes[s]);
			ret = srq_sizes[i].set(NULL, sizes[s]);
			end("%d", ret);
			begin("%u", sizes[s]);
			ret = srq_sizes[i].set(cfg, sizes[s]);
			NEED(srq_sizes[1 - i].get(cfg, &other));
			end("%d, the other is %u", ret, other);
			about(srq_sizes[i].get_name);
			begin("after it was set to %u", sizes[s]);
			ret = srq_sizes[i].get(cfg, &got);
			end("%d, %u", ret, got);
		}
		NEED(rpma_srq_cfg_delete(&cfg));
	}
}

/* ---- peer -------------------------------------------------------------------- */

static void peer_life(void)
{
	struct rpma_peer_cfg *cfg = NULL;
	bool supported = true;
	int ret;

	about("rpma_peer_cfg_new");
	begin("out NULL");
	ret = rpma_peer_cfg_new(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_peer_cfg_new(&cfg);
	NEED(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &supported));
	end("%d, %s; %d", ret, pointer(cfg), supported);
	about("rpma_peer_cfg_delete");
	begin("NULL");
	ret = rpma_peer_cfg_delete(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_peer_cfg_delete(&cfg);
	end("%d, %s", ret, pointer(cfg));
	begin("pointer to NULL");
	ret = rpma_peer_cfg_delete(&cfg);
	end("%d, %s", ret, pointer(cfg));
}

static void peer_flag(void)
{
	struct rpma_peer_cfg *cfg = NULL;
	unsigned char bytes[8];
	size_t len = UNTOUCHED;
	bool supported;
	int ret;

	NEED(rpma_peer_cfg_new(&cfg));
	for (int to = 0; to < 2; to++) {
		about("rpma_peer_cfg_set_direct_write_to_pmem");
		begin("cfg NULL, %d", to);
		ret = rpma_peer_cfg_set_direct_write_to_pmem(NULL, to);
		end("%d", ret);
		begin("%d", to);
		ret = rpma_peer_cfg_set_direct_write_to_pmem(cfg, to);
		end("%d", ret);
		for (int null = 3; null >= 0; null--) {
			const char *cfg_is = null & 1 ? "NULL" : "ok", *out_is = null & 2 ? "NULL" : "ok";

			about("rpma_peer_cfg_get_direct_write_to_pmem");
			supported = !to;
			begin("set to %d, cfg %s, out %s", to, cfg_is, out_is);
			ret = rpma_peer_cfg_get_direct_write_to_pmem(null & 1 ? NULL : cfg,
								     null & 2 ? NULL : &supported);
			end("%d, %d", ret, supported);
			about("rpma_peer_cfg_get_descriptor");
			memset(bytes, 0xee, sizeof(bytes));
			begin("set to %d, cfg %s, out %s", to, cfg_is, out_is);
			ret = rpma_peer_cfg_get_descriptor(null & 1 ? NULL : cfg,
							   null & 2 ? NULL : bytes);
			end("%d, bytes %02x %02x", ret, bytes[0], bytes[1]);
			about("rpma_peer_cfg_get_descriptor_size");
			begin("set to %d, cfg %s, out %s", to, cfg_is, out_is);
			ret = rpma_peer_cfg_get_descriptor_size(null & 1 ? NULL : cfg,
								null & 2 ? NULL : &len);
			end("%d, %#zx", ret, len);
		}
	}
	NEED(rpma_peer_cfg_delete(&cfg));
}

static void peer_descriptor(void)
{
	static const size_t lens[] = { 0, 1, 2, 21, SIZE_MAX };

	about("rpma_peer_cfg_from_descriptor");
	for (size_t l = 0; l < COUNT(lens); l++)
		for (int byte = 0; byte < 256; byte++)
			for (int null = byte ? 0 : 3; null >= 0; null--) {
				struct rpma_peer_cfg *cfg = UNTOUCHED_PTR;
				unsigned char bytes[2] = { (unsigned char)byte, 0xff };
				bool supported = false;

				begin("%02x, %zu bytes, desc %s, out %s", byte, lens[l],
				      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
				int ret = rpma_peer_cfg_from_descriptor(null & 1 ? NULL : bytes, lens[l],
									null & 2 ? NULL : &cfg);

				if (ret == 0)
					NEED(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &supported));
				end("%d, %s, %d", ret, pointer(cfg), supported);
				if (ret == 0)
					NEED(rpma_peer_cfg_delete(&cfg));
			}
}

void cases_config(void)
{
	conn_life();
	conn_numbers();
	conn_timeout_and_channel();
	conn_srq();
	srq_life();
	srq_numbers();
	peer_life();
	peer_flag();
	peer_descriptor();
}
