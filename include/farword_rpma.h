/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What librpma does not have: many requests with one doorbell, a ring that says
 * of every context what became of it, and the remote log. It goes with
 * <librpma.h> of the same library and is in no other.
 *
 * Where the device has the FLUSH operation, rpma_flush uses it if the environment
 * has FARWORD_RPMA_FLUSH=native when the connection is requested, and only then:
 * the peer's region has to grant it, which librpma 1.2 does not do.
 *
 * Functions return 0 or one of the codes RPMA_E_*; what an out-pointer leads to is
 * written on success only, unless a function's text says otherwise.
 */
#ifndef FARWORD_RPMA_H
#define FARWORD_RPMA_H 1

#include <librpma.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Batches: the calls of librpma, one doorbell ---- */

/*
 * From farword_batch_begin on, rpma_atomic_write, rpma_write, rpma_write_with_imm,
 * rpma_read, rpma_flush, rpma_send and rpma_send_with_imm on this connection check
 * their arguments as ever and are staged. farword_batch_end posts all of them with
 * one doorbell. Completions come as ever, by rpma_cq_get_wc.
 *
 * A batch holds as many requests as the send queue; for one more a call returns
 * RPMA_E_AGAIN, and the request is not staged. Until the end one thread alone may
 * post on the connection. What rpma_write and the like name must stay as it is
 * until the request is complete; the 8 bytes of rpma_atomic_write are copied.
 *
 * Where the device has the operation ATOMIC WRITE, messages (send, send_with_imm,
 * write_with_imm) among other requests take a doorbell of their own.
 */
int farword_batch_begin(struct rpma_conn *conn);

/*
 * Posts what is staged and ends the batch. posted may be NULL; it is written
 * whatever is returned.
 *
 *   0                all of it was posted
 *   RPMA_E_AGAIN     there was room for the first *posted requests only
 *   RPMA_E_PROVIDER  the request after the first *posted was refused
 *   RPMA_E_UNKNOWN   how many were posted is not known; the batch is over, and
 *                    the connection should be
 *   RPMA_E_INVAL     no batch is open
 *
 * After RPMA_E_AGAIN and RPMA_E_PROVIDER the rest is staged still and the batch
 * open: take completions and end it again, or drop it. Nothing is posted twice.
 */
int farword_batch_end(struct rpma_conn *conn, uint32_t *posted);

/* The contexts of what is staged, in order, at most `most`; and how many there are. */
int farword_batch_get_staged(struct rpma_conn *conn, uint32_t most, const void **contexts,
		uint32_t *staged);

/* Ends the batch and forgets what is staged: it was not posted. */
int farword_batch_drop(struct rpma_conn *conn);

/* ---- A ring: what became of every context ---- */

struct farword_ring;

enum farword_outcome {
	FARWORD_CONFIRMED,	/* it succeeded, and so did all before it */
	FARWORD_FAILED,		/* it is the one that failed: see status */
	FARWORD_UNKNOWN,	/* in flight when the ring failed: carried out or not */
	FARWORD_UNPOSTED	/* staged when the ring failed: not carried out */
};

struct farword_done {
	const void *op_context;
	int outcome;	/* enum farword_outcome */
	int status;	/* enum ibv_wc_status, of FARWORD_FAILED */
};

/*
 * A ring stages requests and posts at most `batch` of them with one doorbell (0: as
 * many as it is deep). It signals often enough by itself, so that any number of
 * requests with RPMA_F_COMPLETION_ON_ERROR goes through; and it refuses with
 * RPMA_E_INVAL, before anything is posted, what lies out of the region's bounds or
 * rights, and an atomic write whose base and offset do not add up to a multiple of
 * 8. RPMA_E_AGAIN: there is no room; ring, or poll.
 *
 * Until it is closed, the ring alone posts on the connection and polls its main
 * completion queue, and one thread at a time uses it. Receives need a completion
 * queue of their own.
 */
int farword_ring_open(struct rpma_conn *conn, uint32_t batch, struct farword_ring **ring_ptr);
int farword_ring_close(struct farword_ring **ring_ptr);

int farword_ring_atomic_write(struct farword_ring *ring, const struct rpma_mr_remote *dst,
		size_t dst_offset, const char src[8], int flags, const void *op_context);
int farword_ring_write(struct farword_ring *ring, const struct rpma_mr_remote *dst,
		size_t dst_offset, const struct rpma_mr_local *src, size_t src_offset, size_t len,
		int flags, const void *op_context);
int farword_ring_read(struct farword_ring *ring, const struct rpma_mr_local *dst,
		size_t dst_offset, const struct rpma_mr_remote *src, size_t src_offset, size_t len,
		int flags, const void *op_context);
int farword_ring_flush(struct farword_ring *ring, const struct rpma_mr_remote *dst,
		size_t dst_offset, size_t len, enum rpma_flush_type type, int flags,
		const void *op_context);

/* Posts what is staged; posted may be NULL. What finds no room stays staged. */
int farword_ring_doorbell(struct farword_ring *ring, uint32_t *posted);

/*
 * What became of requests, `most` at most: those with RPMA_F_COMPLETION_ALWAYS and,
 * once one has failed, every other that is not confirmed, each once.
 * RPMA_E_NO_COMPLETION: nothing now. RPMA_E_PROVIDER: the ring is dead, and all has
 * been told.
 */
int farword_ring_poll(struct farword_ring *ring, uint32_t most, struct farword_done *done,
		uint32_t *got);

/* ---- The remote log ---- */

struct farword_log;

/*
 * A log in a peer's region: 8 bytes of signature, the word `used` (at used_offset, 8
 * in librpma's example), records behind it, each ended by a NUL. It is opened with
 * the peer's region (to be read, written and flushed) and with memory of this side
 * that records pass through (RPMA_MR_USAGE_WRITE_SRC and READ_DST, 8-aligned, at
 * least 16 bytes). timeout_ms bounds every wait within the log.
 *
 * Until it is closed the log alone uses that memory, posts on the connection and
 * polls its main completion queue, and one thread at a time uses it.
 *
 * RPMA_E_NOMEM: the log is full. RPMA_E_AGAIN: a wait took too long.
 */
int farword_log_open(struct rpma_conn *conn, const struct rpma_mr_remote *region,
		size_t used_offset, const struct rpma_mr_local *staging, int timeout_ms,
		struct farword_log **log_ptr);
int farword_log_close(struct farword_log **log_ptr);

/* Appends a record, which shows with the next commit; *tail is behind it. */
int farword_log_append(struct farword_log *log, const void *record, size_t len, uint64_t *tail);

/* Publishes what was appended: write, flush, atomic write of `used`, flush, one doorbell. */
int farword_log_commit(struct farword_log *log, uint64_t *tail);

/* Waits until all before tail is flushed, or looks how far that is. */
int farword_log_wait(struct farword_log *log, uint64_t tail);
int farword_log_poll(struct farword_log *log, uint64_t *tail);

#ifdef __cplusplus
}
#endif
#endif /* FARWORD_RPMA_H */
