/* Memory regions: registered, described, advised on. */
#include "case.h"

static const size_t lens[] = { 0, 1, 7, 8, 4096, 16384, SIZE_MAX / 2, SIZE_MAX };

/* ---- registration ------------------------------------------------------------ */

static void registrations(const char *device)
{
	struct rpma_peer *peer = NULL;

	NEED(rpma_peer_new(nic_context(), &peer));
	about("rpma_mr_reg");
	for (int usage = 0; usage <= 0x1ff; usage++) {
		struct rpma_mr_local *mr = UNTOUCHED_PTR;

		begin("%s, usage %#x", device, usage);
		int ret = rpma_mr_reg(peer, arena, REGION_LEN, usage, &mr);

		end("%d, %s", ret, pointer(mr));
		if (ret == 0)
			NEED(rpma_mr_dereg(&mr));
	}
	NEED(rpma_peer_delete(&peer));
}

static void arguments(struct rpma_peer *peer)
{
	static const int usages[] = { 0, 1, 0xff, 0x100, INT_MIN, -1, INT_MAX };

	about("rpma_mr_reg");
	for (int null = 0; null < 8; null++)
		for (size_t l = 0; l < COUNT(lens); l++)
			for (size_t u = 0; u < COUNT(usages); u++) {
				struct rpma_mr_local *mr = UNTOUCHED_PTR;

				begin("peer %s, memory %s, out %s, %#zx bytes, usage %#x",
				      null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok",
				      null & 4 ? "NULL" : "ok", lens[l], usages[u]);
				int ret = rpma_mr_reg(null & 1 ? NULL : peer, null & 2 ? NULL : arena,
						      lens[l], usages[u], null & 4 ? NULL : &mr);

				end("%d, %s", ret, pointer(mr));
				if (ret == 0)
					NEED(rpma_mr_dereg(&mr));
			}
	/* Anywhere: librpma leaves it to the device. */
	for (int off = 0; off < 17; off++) {
		struct rpma_mr_local *mr = UNTOUCHED_PTR;

		begin("at %+d, 8 bytes", off);
		int ret = rpma_mr_reg(peer, arena + off, 8, RPMA_MR_USAGE_READ_SRC, &mr);

		end("%d, %s", ret, pointer(mr));
		NEED(rpma_mr_dereg(&mr));
	}
}

static void refusals(const char *device)
{
	static const int errors[] = { EPERM, EFAULT, ENOMEM, EINVAL, ENOTSUP, 1000, 0 };
	static const int usages[] = { 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff };
	struct rpma_peer *peer = NULL;
	int ret;

	NEED(rpma_peer_new(nic_context(), &peer));
	for (size_t e = 0; e < COUNT(errors); e++) {
		for (size_t u = 0; u < COUNT(usages); u++) {
			struct rpma_mr_local *mr = UNTOUCHED_PTR;

			about("rpma_mr_reg");
			begin("%s, usage %#x, reg_mr fails with %d", device, usages[u], errors[e]);
			nic_fail(NIC_reg_mr, 0, errors[e]);
			ret = rpma_mr_reg(peer, arena, REGION_LEN, usages[u], &mr);
			bool unmet = nic_fail_end();

			end("%d, %s%s", ret, pointer(mr), unmet ? ", not called" : "");
			if (ret == 0)
				NEED(rpma_mr_dereg(&mr));
		}
		if (!errors[e])
			continue;
		struct rpma_mr_local *mr = NULL;

		NEED(rpma_mr_reg(peer, arena, REGION_LEN, 1, &mr));
		about("rpma_mr_dereg");
		begin("%s, dereg_mr fails with %d", device, errors[e]);
		nic_fail(NIC_dereg_mr, 0, errors[e]);
		ret = rpma_mr_dereg(&mr);
		nic_fail_end();
		end("%d, %s", ret, pointer(mr));
	}
	NEED(rpma_peer_delete(&peer));
}

/* ---- what a region says of itself -------------------------------------------- */

static void local_getters(struct rpma_peer *peer)
{
	struct rpma_mr_local *mr = NULL;
	int ret;

	for (int usage = 1; usage <= 0xff; usage++) {
		unsigned char bytes[24];
		char text[64] = "";

		NEED(rpma_mr_reg(peer, arena + usage, 100 + (size_t)usage, usage, &mr));
		about("rpma_mr_get_descriptor");
		memset(bytes, 0xee, sizeof(bytes));
		begin("usage %#x", usage);
		ret = rpma_mr_get_descriptor(mr, bytes);
		/* The key is a number of the NIC's. */
		bool key = bytes[16] | bytes[17] | bytes[18];

		for (int i = 0; i < 24; i++)
			if (i < 16 || i >= 20)
				snprintf(text + strlen(text), 4, "%02x", bytes[i]);
		end("%d, %s, key %d", ret, text, key);
		if (usage < 0xff)
			NEED(rpma_mr_dereg(&mr));
	}
	for (int null = 3; null >= 0; null--) {
		const char *mr_is = null & 1 ? "NULL" : "ok", *out_is = null & 2 ? "NULL" : "ok";
		const struct rpma_mr_local *of = null & 1 ? NULL : mr;
		unsigned char bytes[24] = { 0 };
		size_t len = UNTOUCHED;
		void *ptr = UNTOUCHED_PTR;

		about("rpma_mr_get_descriptor");
		begin("mr %s, out %s", mr_is, out_is);
		ret = rpma_mr_get_descriptor(of, null & 2 ? NULL : bytes);
		end("%d, %d", ret, bytes[0]);
		about("rpma_mr_get_descriptor_size");
		begin("mr %s, out %s", mr_is, out_is);
		ret = rpma_mr_get_descriptor_size(of, null & 2 ? NULL : &len);
		end("%d, %#zx", ret, len);
		about("rpma_mr_get_size");
		len = UNTOUCHED;
		begin("mr %s, out %s", mr_is, out_is);
		ret = rpma_mr_get_size(of, null & 2 ? NULL : &len);
		end("%d, %#zx", ret, len);
		about("rpma_mr_get_ptr");
		begin("mr %s, out %s", mr_is, out_is);
		ret = rpma_mr_get_ptr(of, null & 2 ? NULL : &ptr);
		end("%d, %p", ret, ptr);
	}
	about("rpma_mr_dereg");
	begin("NULL");
	ret = rpma_mr_dereg(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_mr_dereg(&mr);
	end("%d, %s", ret, pointer(mr));
	begin("pointer to NULL");
	ret = rpma_mr_dereg(&mr);
	end("%d, %s", ret, pointer(mr));
}

/* ---- descriptors from outside ------------------------------------------------ */

static void remote_getters(const struct rpma_mr_remote *mr, const char *what)
{
	size_t len = UNTOUCHED;
	int type = UNTOUCHED;

	about("rpma_mr_remote_get_size");
	begin("%s", what);
	int ret = rpma_mr_remote_get_size(mr, &len);

	end("%d, %#zx", ret, len);
	about("rpma_mr_remote_get_flush_type");
	begin("%s", what);
	ret = rpma_mr_remote_get_flush_type(mr, &type);
	end("%d, %#x", ret, (unsigned)type);
}

static void descriptor(const unsigned char *bytes, size_t len, const char *what)
{
	struct rpma_mr_remote *mr = UNTOUCHED_PTR;

	about("rpma_mr_remote_from_descriptor");
	begin("%s, %zu bytes", what, len);
	int ret = rpma_mr_remote_from_descriptor(bytes, len, &mr);

	end("%d, %s", ret, pointer(mr));
	if (ret)
		return;
	remote_getters(mr, what);
	about("rpma_mr_remote_delete");
	begin("%s", what);
	ret = rpma_mr_remote_delete(&mr);
	end("%d, %s", ret, pointer(mr));
}

static void descriptors(void)
{
	static const uint64_t numbers[] = { 0, 1, 8, 0x1122334455667788, UINT64_MAX };
	unsigned char bytes[64];
	char what[128];

	/* Every usage byte, then every length, then what is in the fields. */
	memset(bytes, 0x11, sizeof(bytes));
	for (int usage = 0; usage < 256; usage++) {
		bytes[20] = (unsigned char)usage;
		snprintf(what, sizeof(what), "usage %#x", usage);
		descriptor(bytes, 21, what);
	}
	for (size_t len = 0; len <= 65; len++) {
		size_t told = len > 64 ? SIZE_MAX : len;

		snprintf(what, sizeof(what), "told to be %zu long", told);
		descriptor(bytes, told, what);
	}
	bytes[20] = 0;
	for (size_t len = 19; len < 24; len++)
		descriptor(bytes, len, "without a use");
	for (size_t a = 0; a < COUNT(numbers); a++)
		for (size_t s = 0; s < COUNT(numbers); s++)
			for (size_t k = 0; k < COUNT(numbers); k++) {
				uint32_t key = (uint32_t)numbers[k];

				memcpy(bytes, &numbers[a], 8);
				memcpy(bytes + 8, &numbers[s], 8);
				memcpy(bytes + 16, &key, 4);
				bytes[20] = 0xff;
				snprintf(what, sizeof(what), "at %#lx, size %#lx, key %#x", numbers[a],
					 numbers[s], key);
				descriptor(bytes, 21, what);
			}
}

static void remote_nulls(void)
{
	unsigned char bytes[21];
	struct rpma_mr_remote *mr = NULL;
	int ret;

	memset(bytes, 0xff, sizeof(bytes));
	about("rpma_mr_remote_from_descriptor");
	for (int null = 3; null >= 0; null--)
		for (size_t len = 0; len < 23; len += 20) {
			mr = UNTOUCHED_PTR;
			begin("desc %s, out %s, %zu bytes", null & 1 ? "NULL" : "ok",
			      null & 2 ? "NULL" : "ok", len ? len + 1 : 0);
			ret = rpma_mr_remote_from_descriptor(null & 1 ? NULL : bytes, len ? len + 1 : 0,
							     null & 2 ? NULL : &mr);
			end("%d, %s", ret, pointer(mr));
			if (ret == 0 && null == 0 && len < 20)
				NEED(rpma_mr_remote_delete(&mr));
		}
	for (int null = 3; null > 0; null--) {
		const struct rpma_mr_remote *of = null & 1 ? NULL : mr;
		size_t len = UNTOUCHED;
		int type = UNTOUCHED;

		about("rpma_mr_remote_get_size");
		begin("mr %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_mr_remote_get_size(of, null & 2 ? NULL : &len);
		end("%d, %#zx", ret, len);
		about("rpma_mr_remote_get_flush_type");
		begin("mr %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_mr_remote_get_flush_type(of, null & 2 ? NULL : &type);
		end("%d, %#x", ret, (unsigned)type);
	}
	about("rpma_mr_remote_delete");
	begin("NULL");
	ret = rpma_mr_remote_delete(NULL);
	end("%d", ret);
	begin("ok");
	ret = rpma_mr_remote_delete(&mr);
	end("%d, %s", ret, pointer(mr));
	begin("pointer to NULL");
	ret = rpma_mr_remote_delete(&mr);
	end("%d, %s", ret, pointer(mr));
}

/* ---- advice ------------------------------------------------------------------- */

static void advice(struct rpma_peer *peer)
{
	static const size_t numbers[] = { 0, 1, 8, 4095, 4096, 1UL << 32, SIZE_MAX };
	static const int advices[] = { IBV_ADVISE_MR_ADVICE_PREFETCH, 1, 2, 3, -1, INT_MAX };
	static const uint32_t flags[] = { 0, IBV_ADVISE_MR_FLAG_FLUSH, UINT32_MAX };
	static const int errors[] = { EOPNOTSUPP, EFAULT, EINVAL, EPERM, ENOMEM, ENOENT, 1000, -1 };
	struct rpma_mr_local *mr = NULL;
	int ret;

	NEED(rpma_mr_reg(peer, arena, REGION_LEN, ALL_USES, &mr));
	about("rpma_mr_advise");
	for (size_t o = 0; o < COUNT(numbers); o++)
		for (size_t l = 0; l < COUNT(numbers); l++)
			for (size_t a = 0; a < COUNT(advices); a++)
				for (size_t f = 0; f < COUNT(flags); f++) {
					begin("offset %#zx, %#zx bytes, advice %d, flags %#x",
					      numbers[o], numbers[l], advices[a], flags[f]);
					ret = rpma_mr_advise(mr, numbers[o], numbers[l], advices[a],
							     flags[f]);
					end("%d", ret);
				}
	for (size_t e = 0; e < COUNT(errors); e++) {
		begin("advise_mr fails with %d", errors[e]);
		nic_fail(NIC_advise_mr, 0, errors[e]);
		ret = rpma_mr_advise(mr, 0, 8, IBV_ADVISE_MR_ADVICE_PREFETCH, 0);
		bool unmet = nic_fail_end();

		end("%d%s", ret, unmet ? ", not called" : "");
	}
	if (begin_risky("mr NULL")) {
		ret = rpma_mr_advise(NULL, 0, 8, IBV_ADVISE_MR_ADVICE_PREFETCH, 0);
		end_risky("%d", ret);
	}
	NEED(rpma_mr_dereg(&mr));
}

void cases_region(void)
{
	static const struct nic_device plain, iwarp = { .iwarp = true },
				       paging = { .on_demand_paging = true };
	struct rpma_peer *peer = NULL;

	registrations("InfiniBand");
	refusals("InfiniBand");
	nic_set_device(&iwarp);
	registrations("iWARP");
	refusals("iWARP");
	nic_set_device(&paging);
	registrations("with paging");
	refusals("with paging");
	nic_set_device(&plain);
	NEED(rpma_peer_new(nic_context(), &peer));
	arguments(peer);
	local_getters(peer);
	descriptors();
	remote_nulls();
	advice(peer);
	NEED(rpma_peer_delete(&peer));
}
