/* Strings, contexts, and what a context can do. */
#include "case.h"

static void strings(void)
{
	static const int far[] = { INT_MIN, INT_MIN + 1, -1000000, -1, 1, 2, 1000, INT_MAX };

	about("rpma_err_2str");
	for (int code = -100030; code <= -99970; code++) {
		begin("%d", code);
		const char *text = rpma_err_2str(code);

		end("%s", text);
	}
	for (int code = -40; code <= 40; code++) {
		begin("small %d", code);
		const char *text = rpma_err_2str(code);

		end("%s", text);
	}
	for (size_t i = 0; i < COUNT(far); i++) {
		begin("far %d", far[i]);
		const char *text = rpma_err_2str(far[i]);

		end("%s", text);
	}
	about("rpma_utils_conn_event_2str");
	for (int event = -20; event <= 40; event++) {
		begin("%d", event);
		const char *text = rpma_utils_conn_event_2str((enum rpma_conn_event)event);

		end("%s", text);
	}
	for (size_t i = 0; i < COUNT(far); i++) {
		begin("far %d", far[i]);
		const char *text = rpma_utils_conn_event_2str((enum rpma_conn_event)far[i]);

		end("%s", text);
	}
}

static void contexts(void)
{
	static const char *const addresses[] = {
		"10.9.0.1", "127.0.0.1", "localhost", "::1", "fd09::1", "", " ", "10.9.0",
		"10.9.0.256", "no such host", "10.9.0.1 ", NULL,
	};
	static const int types[] = { RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE, 2, 3,
				     -1, INT_MIN, INT_MAX };
	static const enum nic_call calls[] = { NIC_getaddrinfo, NIC_create_id, NIC_bind_addr,
					       NIC_resolve_addr, NIC_destroy_id };
	static const int errors[] = { EPERM, ENODEV, ENOMEM, EINVAL, EADDRNOTAVAIL, ETIMEDOUT };

	about("rpma_utils_get_ibv_context");
	for (size_t a = 0; a < COUNT(addresses); a++)
		for (size_t t = 0; t < COUNT(types); t++)
			for (int null = 0; null < 2; null++) {
				struct ibv_context *got = UNTOUCHED_PTR;

				begin("\"%s\", type %d, out %s", addresses[a] ? addresses[a] : "(NULL)",
				      types[t], null ? "NULL" : "ok");
				int ret = rpma_utils_get_ibv_context(
					addresses[a], (enum rpma_util_ibv_context_type)types[t],
					null ? NULL : &got);

				end("%d, %s", ret,
				    got == nic_context() ? "the device" : pointer(got));
			}
	for (size_t c = 0; c < COUNT(calls); c++)
		for (int type = 0; type < 2; type++)
			for (size_t e = 0; e < COUNT(errors); e++) {
				struct ibv_context *got = UNTOUCHED_PTR;

				begin("%s fails with %d, type %d", nic_call_names[calls[c]], errors[e], type);
				nic_fail(calls[c], 0, errors[e]);
				int ret = rpma_utils_get_ibv_context(
					"10.9.0.1", (enum rpma_util_ibv_context_type)type, &got);
				bool unmet = nic_fail_end();

				end("%d, %s%s", ret,
				    got == nic_context() ? "the device" : pointer(got),
				    unmet ? ", not called" : "");
			}
}

static void paging(void)
{
	static const int errors[] = { EPERM, ENOMEM, EINVAL, EOPNOTSUPP, -1, 1000 };
	struct nic_device device = { .iwarp = false };
	int can, ret;

	about("rpma_utils_ibv_context_is_odp_capable");
	for (int null = 3; null >= 0; null--) {
		can = UNTOUCHED;
		begin("context %s, out %s", null & 1 ? "NULL" : "ok", null & 2 ? "NULL" : "ok");
		ret = rpma_utils_ibv_context_is_odp_capable(null & 1 ? NULL : nic_context(),
							    null & 2 ? NULL : &can);
		end("%d, %#x", ret, (unsigned)can);
	}
	device.on_demand_paging = true;
	for (uint32_t caps = 0; caps < 64; caps++) {
		/* 0 stands for reads and writes; what is above the five bits is unknown. */
		device.rc_odp_caps = caps == 63 ? UINT32_MAX : caps;
		nic_set_device(&device);
		can = UNTOUCHED;
		begin("capabilities %#x", device.rc_odp_caps);
		ret = rpma_utils_ibv_context_is_odp_capable(nic_context(), &can);
		end("%d, %d", ret, can);
	}
	for (size_t e = 0; e < COUNT(errors); e++) {
		can = UNTOUCHED;
		begin("query_device_ex fails with %d", errors[e]);
		nic_fail(NIC_query_device_ex, 0, errors[e]);
		ret = rpma_utils_ibv_context_is_odp_capable(nic_context(), &can);
		bool unmet = nic_fail_end();

		end("%d, %#x%s", ret, (unsigned)can, unmet ? ", not called" : "");
	}
	memset(&device, 0, sizeof(device));
	nic_set_device(&device);
}

void cases_utils(void)
{
	strings();
	contexts();
	paging();
}
