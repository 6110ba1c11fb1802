/*
 * A device that flushes to persistence refuses other memory for it. librpma
 * registers such memory all the same, to be flushed by reads, and so does farword.
 */
#include "flow.h"

#include <errno.h>

#include <nic.h>

const char flow_name[] = "persistent";
const int flow_usage = RPMA_MR_USAGE_WRITE_DST;

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
}

void flow_call(struct side *side)
{
	const struct nic_device native = { .native_atomic_write = true, .native_flush = true };
	const struct nic_device plain = { 0 };
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *mr = NULL;
	static char memory[64];

	nic_set_device(&native);
	WELL(rpma_peer_new(nic_context(), &peer));
	nic_log_begin();
	nic_fail(NIC_reg_mr, 0, EINVAL);
	WELL(rpma_mr_reg(peer, memory, sizeof(memory), RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &mr));
	MUST(nic_called(NIC_reg_mr) == 2);
	/* Read from afar, and nothing else. */
	MUST(strstr(nic_log_end(), "access 0x4)"));
	WELL(rpma_mr_dereg(&mr));
	/* Other usages are refused for good. */
	nic_fail(NIC_reg_mr, 0, EINVAL);
	MUST(rpma_mr_reg(peer, memory, sizeof(memory), RPMA_MR_USAGE_READ_SRC, &mr) == RPMA_E_PROVIDER);
	nic_fail_end();
	MUST(!mr);
	WELL(rpma_peer_delete(&peer));
	nic_set_device(&plain);
	hang_up(&conn);
}
