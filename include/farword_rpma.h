/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What librpma does not have: many requests with one doorbell, a ring that says
 * of every context what became of it, and the remote log. It goes with
 * <librpma.h> of the same library and is in no other.
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

#ifdef __cplusplus
}
#endif
#endif /* FARWORD_RPMA_H */
