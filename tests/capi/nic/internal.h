/* What the parts of the software NIC know of one another. */
#ifndef NIC_INTERNAL_H
#define NIC_INTERNAL_H

#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "nic.h"

#define DEPTH_MAX 4096                 /* of any queue */
#define CQE_MAX 4095                   /* what the device says of itself */
#define QP_WR_MAX 4095
#define EXPORT __attribute__((visibility("default")))

/* A ring of numbers or pointers that grows to DEPTH_MAX. */
#define QUEUE(type) struct { type *at; uint32_t head, count, room; }

struct nic_mr {
	struct ibv_mr verbs;
	int access;
	struct nic_mr *next;
};

struct nic_channel {
	struct ibv_comp_channel verbs;
	QUEUE(struct ibv_cq *) events;
};

struct nic_cq {
	struct ibv_cq verbs;
	QUEUE(struct ibv_wc) entries;
	bool armed;
};

struct nic_recv {
	uint64_t wr_id;
	struct ibv_sge sge;
	int num_sge;
};

struct nic_rq {
	QUEUE(struct nic_recv) posted;
	uint32_t depth;
};

struct nic_srq {
	struct ibv_srq verbs;
	struct nic_rq rq;
	struct nic_srq *next;
};

/* A request that is in the send queue. */
struct nic_wr {
	uint64_t wr_id, remote_addr;
	uint32_t rkey, imm, flags;         /* imm as on the wire */
	int opcode;
	struct ibv_sge sge;
	int num_sge;
	uint8_t inlined[64];
};

struct nic_qp {
	/* First, and with room for the calls that a newer header has behind it. */
	struct ibv_qp_ex ex;
	void (*wr_flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
	struct rdma_cm_id *id;
	struct nic_qp *peer;
	QUEUE(struct nic_wr) sq;           /* requests that wait for a receive */
	QUEUE(struct nic_wr) built;        /* between wr_start and wr_complete */
	struct nic_rq rq;
	uint32_t sq_depth, sq_used, sq_unsignaled, max_inline;
	bool connected, in_error;
	struct nic_qp *next;
};

extern pthread_mutex_t nic_lock;
extern struct nic_device nic_can;
extern struct nic_live nic_alive;
extern struct nic_mr *nic_mrs;
extern struct nic_qp *nic_qps;
extern struct nic_srq *nic_srqs;

/* Memory that the program's allocator is not asked for. */
void *nic_alloc(size_t len);
void nic_release(void *memory);

/* Adds a line to the log. */
void nic_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes what an address is called; the result is one of a few static buffers. */
const char *nic_where(uint64_t addr, size_t len);
const char *nic_key(uint32_t key, bool remote);

extern int nic_doorbells_rung;

/* Is this call to fail now? Then `*error` says with what. Counts the call. */
bool nic_fails(enum nic_call call, int *error);

/* Adds an element; false where it is full. */
#define nic_push(queue, element)                                                  \
	(nic_grow((void **)&(queue).at, &(queue).head, (queue).count, &(queue).room, \
		  sizeof(*(queue).at))                                             \
		 ? ((queue).at[((queue).head + (queue).count++) % (queue).room] = (element), true) \
		 : false)
#define nic_front(queue) ((queue).at[(queue).head])
#define nic_pop(queue)                                                            \
	((queue).head = ((queue).head + 1) % (queue).room, (queue).count--)
bool nic_grow(void **at, uint32_t *head, uint32_t count, uint32_t *room, size_t size);

/* wire.c */
int nic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int nic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int nic_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int nic_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc);
int nic_req_notify(struct ibv_cq *cq, int solicited_only);
void nic_enter(struct nic_qp *qp, const struct nic_wr *wr);
void nic_flush_qp(struct nic_qp *qp);
void nic_run(struct nic_qp *qp);

/* extended.c */
void nic_extend(struct nic_qp *qp, uint64_t operations);

/* queues.c */
struct ibv_qp *nic_create_qp_ex(struct ibv_context *of, struct ibv_qp_init_attr_ex *attr);
struct nic_qp *nic_new_qp(const struct ibv_qp_init_attr_ex *attr, uint64_t operations);
void nic_free_qp(struct nic_qp *qp);

#endif
