/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of librpma, as farword has them. A program that was written for
 * librpma is compiled with this header, or with librpma's own, and linked to
 * farword's library: types, constants and prototypes are the same.
 *
 * Unless a function's line says otherwise it returns 0, or one of the negative
 * codes RPMA_E_*; what an out-pointer leads to is written on success only. What
 * an object was made of must outlive it. Deleting a pointer to NULL does nothing.
 *
 * One connection is used by one thread at a time, but for the calls of the
 * section "Requests", rpma_cq_wait and rpma_cq_get_wc: any thread may call those.
 */
#ifndef LIBRPMA_H
#define LIBRPMA_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Codes ---- */

#define RPMA_E_UNKNOWN		(-100000) /* none of the others */
#define RPMA_E_NOSUPP		(-100001) /* this cannot be done here */
#define RPMA_E_PROVIDER		(-100002) /* libibverbs or librdmacm said no; the log says what */
#define RPMA_E_NOMEM		(-100003) /* no memory */
#define RPMA_E_INVAL		(-100004) /* an argument that is not allowed */
#define RPMA_E_NO_COMPLETION	(-100005) /* no completion is there */
#define RPMA_E_NO_EVENT		(-100006) /* no event is there */
#define RPMA_E_AGAIN		(-100007) /* try again */
#define RPMA_E_SHARED_CHANNEL	(-100008) /* the completion channel is shared */
#define RPMA_E_NOT_SHARED_CHNL	(-100009) /* the completion channel is not shared */

#define RPMA_W_WAIT_FOR_COMPLETION (1)

/* A code in words; never NULL. */
const char *rpma_err_2str(int ret);

/* ---- Devices ---- */

/* How long connecting may take unless it is set, in milliseconds. */
#define RPMA_DEFAULT_TIMEOUT_MS 1000

enum rpma_util_ibv_context_type {
	RPMA_UTIL_IBV_CONTEXT_LOCAL,	/* the device that has the address */
	RPMA_UTIL_IBV_CONTEXT_REMOTE	/* the device that leads to the address */
};

/* The device of an address: an IPv4 or IPv6 address, or a host's name. */
int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
		struct ibv_context **ibv_ctx_ptr);

/* 1 where the device can register memory that is not pinned, else 0. */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/* ---- What a peer can do ---- */

struct rpma_peer_cfg;

int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);

/* Whether writes reach the peer's persistent memory without passing its caches. */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);

/* The configuration as bytes to be sent to the other side: one. */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size,
		struct rpma_peer_cfg **pcfg_ptr);

/* ---- The peer: a protection domain of a device ---- */

struct rpma_peer;

int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);
int rpma_peer_delete(struct rpma_peer **peer_ptr);

/* ---- Memory ---- */

struct rpma_mr_local;
struct rpma_mr_remote;

/* What memory may be used for: any of these, at least one. */
#define RPMA_MR_USAGE_READ_SRC			(1 << 0)
#define RPMA_MR_USAGE_READ_DST			(1 << 1)
#define RPMA_MR_USAGE_WRITE_SRC			(1 << 2)
#define RPMA_MR_USAGE_WRITE_DST			(1 << 3)
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY	(1 << 4)
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT	(1 << 5)
#define RPMA_MR_USAGE_SEND			(1 << 6)
#define RPMA_MR_USAGE_RECV			(1 << 7)

/* Makes memory known to the device. */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage,
		struct rpma_mr_local **mr_ptr);
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);

/* Advice to the device, as of ibv_advise_mr(3). */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice,
		uint32_t flags);

/* What the other side needs to reach the memory: 21 bytes, little-endian. */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);

/* The other side's memory, from its descriptor. */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size,
		struct rpma_mr_remote **mr_ptr);
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);

/* The flush bits of its usage. */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/* ---- How a connection is made ---- */

struct rpma_conn_cfg;
struct rpma_srq;

int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);

/* Milliseconds, not negative; 1000 unless set. */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/* The completion queue; 10 unless set. */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);

/* The completion queue of receives; 0, which is none, unless set. */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);

/* Whether both share one completion channel; they do not unless set. */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);

/* The send queue and the receive queue; 10 each unless set. */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);

/* A receive queue that connections share; none unless set. */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/* ---- Connections ---- */

struct rpma_conn;
struct rpma_conn_req;
struct rpma_ep;
struct rpma_cq;

/* Bytes that go along with a request or with its acceptance. */
struct rpma_conn_private_data {
	void *ptr;
	uint8_t len;
};

enum rpma_conn_event {
	RPMA_CONN_UNDEFINED = -1,	/* not an event */
	RPMA_CONN_ESTABLISHED,		/* both sides are ready */
	RPMA_CONN_CLOSED,		/* it was closed, by either side */
	RPMA_CONN_LOST,			/* it broke */
	RPMA_CONN_REJECTED,		/* the other side did not want it */
	RPMA_CONN_UNREACHABLE		/* the other side did not answer */
};

/* An event in words; never NULL. */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/* Listens. The descriptor is readable when somebody asks. */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port,
		struct rpma_ep **ep_ptr);
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);

/* Waits for the next request. With cfg NULL the defaults hold. */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
		struct rpma_conn_req **req_ptr);

/* Makes a request. With cfg NULL the defaults hold. */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port,
		const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/* Deletes a request; the other side's is rejected. */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);

/* Connects or accepts. *req_ptr is NULL afterwards, whatever is returned. */
int rpma_conn_req_connect(struct rpma_conn_req **req_ptr,
		const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr);

/* Posts a receive before the connection is there. */
int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset,
		size_t len, const void *op_context);

int rpma_conn_req_get_private_data(const struct rpma_conn_req *req,
		struct rpma_conn_private_data *pdata);

/* The next event; waits for it unless the descriptor is non-blocking. */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);

int rpma_conn_get_private_data(const struct rpma_conn *conn,
		struct rpma_conn_private_data *pdata);
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

/* Its completion queues; the one of receives is NULL where there is none. */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);

/* Where both share a channel: waits for an event, and says whose it is. */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);

/* Begins to close it. RPMA_CONN_CLOSED follows. */
int rpma_conn_disconnect(struct rpma_conn *conn);
int rpma_conn_delete(struct rpma_conn **conn_ptr);

/* ---- Shared receive queues ---- */

struct rpma_srq_cfg;

int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);

/* Receives, and the completion queue for them (0 for none); 20 each unless set. */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);

int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);
int rpma_srq_delete(struct rpma_srq **srq_ptr);
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len,
		const void *op_context);
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/* ---- Requests: one call, one request, one doorbell ---- */

/* Which results give a completion. */
#define RPMA_F_COMPLETION_ON_ERROR	(1 << 0)
#define RPMA_F_COMPLETION_ALWAYS	(1 << 1 | RPMA_F_COMPLETION_ON_ERROR)

/* What the offset of an atomic write is a multiple of. */
#define RPMA_ATOMIC_WRITE_ALIGNMENT 8

enum rpma_flush_type {
	RPMA_FLUSH_TYPE_PERSISTENT,	/* until power may be lost */
	RPMA_FLUSH_TYPE_VISIBILITY	/* until the other side sees it */
};

int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
		const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags,
		const void *op_context);
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
		const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
		const void *op_context);
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
		const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
		uint32_t imm, const void *op_context);

/* 8 bytes, which are copied before the call returns, appear whole or not at all. */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
		const char src[8], int flags, const void *op_context);

int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
		enum rpma_flush_type type, int flags, const void *op_context);
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len,
		int flags, const void *op_context);
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset,
		size_t len, int flags, uint32_t imm, const void *op_context);
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
		const void *op_context);

/* ---- Completions ---- */

int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);
int rpma_cq_wait(struct rpma_cq *cq);

/* At most num_entries; num_entries_got may be NULL where that is 1. */
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

/* ---- Messages ---- */

enum rpma_log_level {
	RPMA_LOG_DISABLED = -1,		/* nothing at all */
	RPMA_LOG_LEVEL_FATAL,		/* nothing works any more */
	RPMA_LOG_LEVEL_ERROR,		/* something did not work */
	RPMA_LOG_LEVEL_WARNING,		/* something is odd */
	RPMA_LOG_LEVEL_NOTICE,		/* connections come and go */
	RPMA_LOG_LEVEL_INFO,		/* what else there is to know */
	RPMA_LOG_LEVEL_DEBUG		/* details */
};

enum rpma_log_threshold {
	RPMA_LOG_THRESHOLD,		/* up to here there are messages */
	RPMA_LOG_THRESHOLD_AUX,		/* up to here they go to stderr, too */
	RPMA_LOG_THRESHOLD_MAX
};

int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

typedef void rpma_log_function(enum rpma_log_level level, const char *file_name,
		const int line_no, const char *function_name, const char *message_format, ...);

#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/* The program's own function, or NULL for syslog and stderr. */
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif
#endif /* LIBRPMA_H */
