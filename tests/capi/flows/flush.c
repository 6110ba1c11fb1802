/* Writes and flushes of both types; persistence only where the server allows it. */
#include "flow.h"

const char flow_name[] = "flush";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
		       RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
	for (unsigned i = 0; i < 8; i++)
		MUST(filled(side->memory + i * 1000, 1000, i));
}

void flow_call(struct side *side)
{
	struct rpma_conn *conn = call_one(side, NULL);
	struct rpma_mr_remote *remote = remote_from(conn);
	struct rpma_peer_cfg *peer = NULL;
	int types = 0;

	WELL(rpma_mr_remote_get_flush_type(remote, &types));
	MUST(types == (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT));
	MUST(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL) ==
	     RPMA_E_NOSUPP);
	WELL(rpma_peer_cfg_from_descriptor("\1", 1, &peer));
	WELL(rpma_conn_apply_remote_peer_cfg(conn, peer));
	WELL(rpma_peer_cfg_delete(&peer));
	for (unsigned i = 0; i < 8; i++) {
		fill(side->memory, 1000, i);
		WELL(rpma_write(conn, remote, i * 1000, side->mr, 0, 1000, RPMA_F_COMPLETION_ON_ERROR, NULL));
		WELL(rpma_flush(conn, remote, i * 1000, 1000,
				i % 2 ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY,
				RPMA_F_COMPLETION_ALWAYS, (void *)(uintptr_t)(50 + i)));
		MUST(await_wc(conn).wr_id == 50 + i);
	}
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
