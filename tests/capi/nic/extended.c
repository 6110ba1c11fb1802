/* The wr_ calls of an extended queue pair: a chain between start and complete. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Not in every header: flush, and its bits at creation. */
#define WR_FLUSH 14
#define QP_EX_WITH_FLUSH (1 << 11)

static struct nic_qp *of(struct ibv_qp_ex *qp)
{
	return (struct nic_qp *)qp;
}

static void start(struct ibv_qp_ex *qp)
{
	pthread_mutex_lock(&nic_lock);
	of(qp)->built.count = 0;
}

static void abort_chain(struct ibv_qp_ex *qp)
{
	of(qp)->built.count = 0;
	pthread_mutex_unlock(&nic_lock);
}

static void build(struct ibv_qp_ex *qp, int opcode, uint32_t rkey, uint64_t addr, uint32_t imm)
{
	struct nic_wr wr = { .wr_id = qp->wr_id, .flags = qp->wr_flags, .opcode = opcode,
			     .rkey = rkey, .remote_addr = addr, .imm = imm };

	(void)nic_push(of(qp)->built, wr);
}

static struct nic_wr *last(struct ibv_qp_ex *qp)
{
	struct nic_qp *nic = of(qp);

	return &nic->built.at[(nic->built.head + nic->built.count - 1) % nic->built.room];
}

static void rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	build(qp, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	build(qp, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
	build(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	build(qp, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
}

static void send_plain(struct ibv_qp_ex *qp)
{
	build(qp, IBV_WR_SEND, 0, 0, 0);
}

static void flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		  uint8_t level)
{
	build(qp, WR_FLUSH, rkey, addr, 0);
	nic_note("flush(%zu bytes, type %u, level %u)", len, type, level);
}

static void set_inline(struct ibv_qp_ex *qp, const void *bytes, size_t len)
{
	struct nic_wr *wr = last(qp);

	wr->flags |= IBV_SEND_INLINE;
	wr->num_sge = 1;
	wr->sge.length = (uint32_t)len;
	if (len <= sizeof(wr->inlined))
		memcpy(wr->inlined, bytes, len);
}

static void set_inline_data(struct ibv_qp_ex *qp, void *bytes, size_t len)
{
	set_inline(qp, bytes, len);
}

static void atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *word)
{
	build(qp, IBV_WR_ATOMIC_WRITE, rkey, addr, 0);
	set_inline(qp, word, 8);
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	last(qp)->sge = (struct ibv_sge){ .addr = addr, .length = length, .lkey = lkey };
	last(qp)->num_sge = 1;
}

static void set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	if (count)
		set_sge(qp, list->lkey, list->addr, list->length);
	else
		last(qp)->num_sge = 0;
}

static int complete(struct ibv_qp_ex *qp)
{
	struct nic_qp *nic = of(qp);
	int error = 0;

	nic_doorbells_rung++;
	if (!nic_fails(NIC_post_send, &error) && nic->sq_used + nic->built.count > nic->sq_depth)
		error = ENOSPC;
	while (nic->built.count) {
		struct nic_wr wr = nic_front(nic->built);
		uint64_t word;

		memcpy(&word, wr.inlined, sizeof(word));
		nic_pop(nic->built);
		nic_note("wr_complete(opcode %d, id %#lx, flags %#x, to %s, rkey %s, %s, %#lx)",
			 wr.opcode, (unsigned long)wr.wr_id, wr.flags, nic_where(wr.remote_addr, 0),
			 nic_key(wr.rkey, true), nic_where(wr.sge.addr, wr.sge.length),
			 (unsigned long)word);
		if (!error)
			nic_enter(nic, &wr);
	}
	pthread_mutex_unlock(&nic_lock);
	return error;
}

void nic_extend(struct nic_qp *qp, uint64_t operations)
{
	qp->ex.wr_start = start;
	qp->ex.wr_complete = complete;
	qp->ex.wr_abort = abort_chain;
	qp->ex.wr_rdma_read = rdma_read;
	qp->ex.wr_rdma_write = rdma_write;
	qp->ex.wr_rdma_write_imm = rdma_write_imm;
	qp->ex.wr_send = send_plain;
	qp->ex.wr_send_imm = send_imm;
	qp->ex.wr_set_inline_data = set_inline_data;
	qp->ex.wr_set_sge = set_sge;
	qp->ex.wr_set_sge_list = set_sge_list;
	if (operations & IBV_QP_EX_WITH_ATOMIC_WRITE)
		qp->ex.wr_atomic_write = atomic_write;
	if (operations & QP_EX_WITH_FLUSH)
		qp->wr_flush = flush;
}
