/*
 * A software NIC and connection manager in place of libibverbs and librdmacm,
 * for one process that has both ends of every connection.
 *
 * It carries requests out, notes down what it is asked for, and fails where it
 * is told to. A program that is linked to it before librpma gets its calls in
 * place of the libraries'; no kernel support and no device is needed.
 */
#ifndef NIC_H
#define NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* The calls that can be made to fail, and how many there are of each thing. */
#define NIC_CALLS(X)                                                             \
	X(query_device_ex) X(query_device) X(alloc_pd) X(dealloc_pd) X(reg_mr)   \
	X(dereg_mr) X(advise_mr) X(create_comp_channel) X(destroy_comp_channel)  \
	X(create_cq) X(destroy_cq) X(req_notify_cq) X(get_cq_event) X(poll_cq)   \
	X(create_srq) X(destroy_srq) X(create_qp) X(post_send) X(post_recv)      \
	X(post_srq_recv) X(create_event_channel) X(create_id) X(destroy_id)      \
	X(migrate_id) X(getaddrinfo) X(bind_addr) X(listen) X(resolve_addr)      \
	X(resolve_route) X(connect) X(accept) X(reject) X(disconnect)            \
	X(get_cm_event) X(ack_cm_event)

enum nic_call {
#define X(name) NIC_##name,
	NIC_CALLS(X)
#undef X
	NIC_CALL_COUNT
};

extern const char *const nic_call_names[NIC_CALL_COUNT];

/* What the device can do. Zeros: a plain InfiniBand device. */
struct nic_device {
	bool iwarp;
	bool on_demand_paging;        /* on reliable connections, reads and writes */
	uint32_t rc_odp_caps;         /* where on_demand_paging is set, in its place */
	bool native_atomic_write;
	bool native_flush;
};

/* What is alive. */
struct nic_live {
	int pds, mrs, channels, cqs, srqs, qps, event_channels, ids, infos;
};

/* ---- for the program that tests ------------------------------------------ */

/* The device's context: what rdma_cm finds behind every address. */
struct ibv_context *nic_context(void);

/* Changes what the device can do, for whoever asks from now on. */
void nic_set_device(const struct nic_device *device);

/*
 * The call fails once, after it has gone well `after` times. With `error` it
 * does what its manual says of a failure with this errno; of poll_cq it is
 * what is returned.
 */
void nic_fail(enum nic_call call, int after, int error);

/* Forgets the failure. Was it still to come? */
bool nic_fail_end(void);

/* How often the call was made since the log began. */
int nic_called(enum nic_call call);

/* How often a doorbell of a send queue rang since the log began. */
int nic_doorbells(void);

struct nic_live nic_live(void);

/* Names memory, so that the log says "name+0x10" in place of an address. */
void nic_name(const char *name, const void *base, size_t len);

/* Begins a new log; ends it, and gives it: valid until the next begins. */
void nic_log_begin(void);
const char *nic_log_end(void);

/* The queue pair's requests and completions are forgotten; it is as new. */
void nic_renew(struct ibv_qp *qp);
/* All of them, and those of every receive queue and completion queue. */
void nic_renew_all(void);

/* The queue pair of this number, or NULL. */
struct ibv_qp *nic_qp(uint32_t qp_num);

/* A completion out of nowhere. */
void nic_complete(struct ibv_cq *cq, const struct ibv_wc *wc);

/* An event for the connection that the queue pair belongs to. */
void nic_cm_event(struct ibv_qp *qp, int type, const void *private_data, uint8_t len);

/* An event for the newest listener; the id is the queue pair's, or the listener's. */
void nic_listener_event(struct ibv_qp *qp, int type);

/* Messages that went to syslog since the log began, and the options of openlog. */
int nic_syslogs(void);

#endif
