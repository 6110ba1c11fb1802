/* Peers: on every device, and where the device refuses. */
#include "case.h"

static const int errors[] = { EPERM, EIO, EAGAIN, ENOMEM, EINVAL, EOPNOTSUPP, 1000 };

static void life(const char *device)
{
	struct rpma_peer *peer = NULL;
	int ret;

	about("rpma_peer_new");
	for (int null = 3; null >= 0; null--) {
		peer = UNTOUCHED_PTR;
		begin("%s, context %s, out %s", device, null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_peer_new(null & 1 ? NULL : nic_context(), null & 2 ? NULL : &peer);
		end("%d, %s", ret, pointer(peer));
	}
	about("rpma_peer_delete");
	begin("%s, NULL", device);
	ret = rpma_peer_delete(NULL);
	end("%d", ret);
	begin("%s, ok", device);
	ret = rpma_peer_delete(&peer);
	end("%d, %s", ret, pointer(peer));
	begin("%s, pointer to NULL", device);
	ret = rpma_peer_delete(&peer);
	end("%d, %s", ret, pointer(peer));
}

static void failures(void)
{
	static const enum nic_call calls[] = { NIC_query_device_ex, NIC_query_device, NIC_alloc_pd };

	about("rpma_peer_new");
	for (size_t c = 0; c < COUNT(calls); c++)
		for (int after = 0; after < 3; after++)
			for (size_t e = 0; e <= COUNT(errors); e++) {
				int error = e < COUNT(errors) ? errors[e] : 0;
				struct rpma_peer *peer = UNTOUCHED_PTR;

				/* A NULL with no errno is a failure; a status of 0 is none. */
				if (!error && calls[c] != NIC_alloc_pd)
					continue;
				begin("%s fails with %d after %d", nic_call_names[calls[c]], error, after);
				nic_fail(calls[c], after, error);
				int ret = rpma_peer_new(nic_context(), &peer);
				bool unmet = nic_fail_end();

				end("%d, %s%s", ret, pointer(peer), unmet ? ", not called" : "");
				if (ret == 0)
					NEED(rpma_peer_delete(&peer));
			}
	about("rpma_peer_delete");
	for (size_t e = 0; e < COUNT(errors); e++) {
		struct rpma_peer *peer = NULL;

		NEED(rpma_peer_new(nic_context(), &peer));
		begin("dealloc_pd fails with %d", errors[e]);
		nic_fail(NIC_dealloc_pd, 0, errors[e]);
		int ret = rpma_peer_delete(&peer);
		bool unmet = nic_fail_end();

		end("%d, %s%s", ret, pointer(peer), unmet ? ", not called" : "");
	}
}

void cases_peer(void)
{
	static const struct nic_device devices[] = {
		{ .iwarp = false }, { .iwarp = true }, { .on_demand_paging = true },
	};
	static const char *const names[] = { "InfiniBand", "iWARP", "with paging" };

	for (size_t d = 0; d < COUNT(devices); d++) {
		nic_set_device(&devices[d]);
		life(names[d]);
	}
	nic_set_device(&devices[0]);
	failures();
}
