/* What happens to a request: noted, checked, carried out, completed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* ---- completions ---------------------------------------------------------- */

static void announce(struct nic_cq *cq)
{
	struct nic_channel *channel = (struct nic_channel *)cq->verbs.channel;
	uint64_t one = 1;

	if (!cq->armed || !channel)
		return;
	cq->armed = false;
	if (nic_push(channel->events, &cq->verbs) && write(channel->verbs.fd, &one, sizeof(one)) < 0)
		nic_note("no event could be sent");
}

EXPORT void nic_complete(struct ibv_cq *to, const struct ibv_wc *wc)
{
	struct nic_cq *cq = (struct nic_cq *)to;

	pthread_mutex_lock(&nic_lock);
	if (cq->entries.count >= (uint32_t)cq->verbs.cqe)
		nic_note("completion queue overrun");
	else if (nic_push(cq->entries, *wc))
		announce(cq);
	pthread_mutex_unlock(&nic_lock);
}

int nic_req_notify(struct ibv_cq *to, int solicited_only)
{
	int error;

	nic_note("req_notify(%d)", solicited_only);
	if (nic_fails(NIC_req_notify_cq, &error))
		return error;
	pthread_mutex_lock(&nic_lock);
	((struct nic_cq *)to)->armed = true;
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

/* A completion says that its request and those before it left the queue. */
static void retire(const struct ibv_wc *wc, struct nic_cq *cq)
{
	struct nic_qp *qp = (struct nic_qp *)nic_qp(wc->qp_num);

	if (qp && qp->ex.qp_base.send_cq == &cq->verbs && !(wc->opcode & IBV_WC_RECV)) {
		uint32_t count = wc->slid + 1U;  /* see `finish` */

		qp->sq_used -= count < qp->sq_used ? count : qp->sq_used;
	}
}

int nic_poll_cq(struct ibv_cq *from, int most, struct ibv_wc *wc)
{
	struct nic_cq *cq = (struct nic_cq *)from;
	int result = 0, error;

	nic_note("poll_cq(%d)", most);
	if (nic_fails(NIC_poll_cq, &error))
		return error;
	pthread_mutex_lock(&nic_lock);
	while (result < most && cq->entries.count) {
		wc[result] = nic_front(cq->entries);
		nic_pop(cq->entries);
		retire(&wc[result], cq);
		wc[result++].slid = 0;
	}
	pthread_mutex_unlock(&nic_lock);
	return result;
}

/* ---- memory --------------------------------------------------------------- */

static struct nic_mr *region(uint32_t key, bool remote, uint64_t addr, size_t len, int access)
{
	for (struct nic_mr *mr = nic_mrs; mr; mr = mr->next) {
		uint64_t base = (uintptr_t)mr->verbs.addr;

		if ((remote ? mr->verbs.rkey : mr->verbs.lkey) == key)
			return addr >= base && len <= mr->verbs.length &&
			       addr - base <= mr->verbs.length - len &&
			       (mr->access & access) == access ? mr : NULL;
	}
	return NULL;
}

static void *memory(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* The local side of a request: where its bytes are, or NULL. */
static void *local(const struct nic_wr *wr, int access)
{
	if (wr->flags & IBV_SEND_INLINE)
		return (void *)wr->inlined;
	if (!wr->num_sge || !wr->sge.length)
		return (void *)wr->inlined;
	return region(wr->sge.lkey, false, wr->sge.addr, wr->sge.length, access)
		       ? memory(wr->sge.addr) : NULL;
}

/* ---- execution ------------------------------------------------------------ */

static void finish(struct nic_qp *qp, const struct nic_wr *wr, enum ibv_wc_status status, int opcode)
{
	struct ibv_wc wc = { .wr_id = wr->wr_id, .status = status };
	bool ok = status == IBV_WC_SUCCESS;

	if (ok && !(wr->flags & IBV_SEND_SIGNALED)) {
		qp->sq_unsignaled++;
		return;
	}
	wc.opcode = ok ? (enum ibv_wc_opcode)opcode : 0;
	wc.byte_len = ok && wr->num_sge ? wr->sge.length : 0;
	wc.qp_num = qp->ex.qp_base.qp_num;
	/* How many before it left with it: taken out again by poll_cq. */
	wc.slid = (uint16_t)qp->sq_unsignaled;
	qp->sq_unsignaled = 0;
	nic_complete(qp->ex.qp_base.send_cq, &wc);
}

static void to_error(struct nic_qp *qp)
{
	qp->in_error = true;
	qp->ex.qp_base.state = IBV_QPS_ERR;
	while (qp->sq.count) {
		finish(qp, &nic_front(qp->sq), IBV_WC_WR_FLUSH_ERR, 0);
		nic_pop(qp->sq);
	}
	while (qp->rq.posted.count) {
		struct ibv_wc wc = { .wr_id = nic_front(qp->rq.posted).wr_id,
				     .status = IBV_WC_WR_FLUSH_ERR,
				     .opcode = IBV_WC_RECV,
				     .qp_num = qp->ex.qp_base.qp_num };

		nic_complete(qp->ex.qp_base.recv_cq, &wc);
		nic_pop(qp->rq.posted);
	}
}

void nic_flush_qp(struct nic_qp *qp)
{
	pthread_mutex_lock(&nic_lock);
	if (!qp->in_error)
		to_error(qp);
	pthread_mutex_unlock(&nic_lock);
}

/* Takes the peer's next receive; its completion is sent. */
static enum ibv_wc_status deliver(struct nic_qp *qp, const struct nic_wr *wr, const void *bytes,
				  struct nic_rq *rq)
{
	struct nic_recv recv = nic_front(rq->posted);
	bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool write = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint32_t len = wr->num_sge ? wr->sge.length : 0;
	struct ibv_wc wc = { .wr_id = recv.wr_id,
			     .opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
			     .byte_len = len,
			     .qp_num = qp->peer->ex.qp_base.qp_num,
			     .wc_flags = imm ? IBV_WC_WITH_IMM : 0 };

	wc.imm_data = imm ? wr->imm : 0;
	nic_pop(rq->posted);
	if (!write && len) {
		if (!recv.num_sge || recv.sge.length < len)
			wc.status = IBV_WC_LOC_LEN_ERR;
		else if (!region(recv.sge.lkey, false, recv.sge.addr, len, IBV_ACCESS_LOCAL_WRITE))
			wc.status = IBV_WC_LOC_PROT_ERR;
		else
			memcpy(memory(recv.sge.addr), bytes, len);
	}
	nic_complete(qp->peer->ex.qp_base.recv_cq, &wc);
	if (wc.status != IBV_WC_SUCCESS)
		to_error(qp->peer);
	return wc.status == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR;
}

static bool takes_a_receive(int opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Does the request in front go? False: it waits for a receive of the peer's. */
static bool step(struct nic_qp *qp)
{
	const struct nic_wr *wr = &nic_front(qp->sq);
	struct nic_qp *peer = qp->peer;
	uint32_t len = wr->num_sge ? wr->sge.length : 0;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	int opcode = IBV_WC_SEND;
	struct nic_rq *rq = peer && peer->ex.qp_base.srq
				    ? &((struct nic_srq *)peer->ex.qp_base.srq)->rq
				    : peer ? &peer->rq : NULL;
	bool read = wr->opcode == IBV_WR_RDMA_READ;
	void *bytes = local(wr, read ? IBV_ACCESS_LOCAL_WRITE : 0);

	if (!peer || peer->in_error)
		status = IBV_WC_RETRY_EXC_ERR;
	else if (!bytes)
		status = IBV_WC_LOC_PROT_ERR;
	else if (takes_a_receive(wr->opcode) && !rq->posted.count)
		return false;
	if (status == IBV_WC_SUCCESS && wr->opcode != IBV_WR_SEND &&
	    wr->opcode != IBV_WR_SEND_WITH_IMM) {
		int access = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;

		opcode = read ? IBV_WC_RDMA_READ
			      : wr->opcode == IBV_WR_ATOMIC_WRITE ? IBV_WC_ATOMIC_WRITE
								  : IBV_WC_RDMA_WRITE;
		if (wr->opcode == 14)       /* flush: to the header, a driver's own */
			opcode = 8;
		else if (len && !region(wr->rkey, true, wr->remote_addr, len, access))
			status = IBV_WC_REM_ACCESS_ERR;
		else if (read)
			memmove(bytes, memory(wr->remote_addr), len);
		else
			memmove(memory(wr->remote_addr), bytes, len);
	}
	if (status == IBV_WC_SUCCESS && takes_a_receive(wr->opcode))
		status = deliver(qp, wr, bytes, rq);
	struct nic_wr done = *wr;

	nic_pop(qp->sq);
	finish(qp, &done, status, opcode);
	if (status != IBV_WC_SUCCESS) {
		to_error(qp);
		if (status == IBV_WC_REM_ACCESS_ERR && peer)
			to_error(peer);
	}
	return true;
}

void nic_run(struct nic_qp *qp)
{
	while (qp->sq.count && !qp->in_error && qp->connected)
		if (!step(qp))
			break;
}

/* ---- posting -------------------------------------------------------------- */

void nic_enter(struct nic_qp *qp, const struct nic_wr *wr)
{
	qp->sq_used++;
	if (qp->in_error) {
		finish(qp, wr, IBV_WC_WR_FLUSH_ERR, 0);
	} else if (nic_push(qp->sq, *wr)) {
		nic_run(qp);
	}
}

static void note_send(const struct ibv_send_wr *wr)
{
	static const char *const names[] = { "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND",
					     "SEND_WITH_IMM", "RDMA_READ" };
	const char *name = wr->opcode < 5 ? names[wr->opcode] : "another";
	char imm[32] = "", far[192] = "", near[192] = "none";
	bool inlined = wr->send_flags & IBV_SEND_INLINE;

	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_IMM)
		snprintf(imm, sizeof(imm), ", imm %#x", wr->imm_data);
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
		snprintf(far, sizeof(far), ", to %s, rkey %s", nic_where(wr->wr.rdma.remote_addr, 0),
			 nic_key(wr->wr.rdma.rkey, true));
	if (wr->num_sge == 1 && inlined) {
		uint64_t word = 0;

		memcpy(&word, memory(wr->sg_list->addr),
		       wr->sg_list->length < 8 ? wr->sg_list->length : 8);
		snprintf(near, sizeof(near), "inline %u bytes, %#lx", wr->sg_list->length,
			 (unsigned long)word);
	} else if (wr->num_sge == 1) {
		snprintf(near, sizeof(near), "%s, lkey %s",
			 nic_where(wr->sg_list->addr, wr->sg_list->length),
			 nic_key(wr->sg_list->lkey, false));
	}
	nic_note("post_send(%s, id %#lx, flags %#x%s%s, %d sge: %s%s)", name,
		 (unsigned long)wr->wr_id, wr->send_flags, imm, far, wr->num_sge, near,
		 wr->next ? ", chained" : "");
}

/* Copies a request out of the program's hands; 0, or why not. */
static int take(struct nic_qp *qp, const struct ibv_send_wr *from, struct nic_wr *to)
{
	*to = (struct nic_wr){ .wr_id = from->wr_id,
			       .opcode = (int)from->opcode,
			       .flags = from->send_flags,
			       .remote_addr = from->wr.rdma.remote_addr,
			       .rkey = from->wr.rdma.rkey,
			       .imm = from->imm_data,
			       .num_sge = from->num_sge };
	if (from->num_sge > 1)
		return EINVAL;
	if (from->num_sge)
		to->sge = *from->sg_list;
	if (from->send_flags & IBV_SEND_INLINE) {
		if (to->sge.length > qp->max_inline)
			return EINVAL;
		memcpy(to->inlined, memory(to->sge.addr), to->sge.length);
	}
	if (qp->ex.qp_base.state == IBV_QPS_INIT)
		return EINVAL;
	return qp->sq_used >= qp->sq_depth ? ENOMEM : 0;
}

int nic_post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct nic_qp *qp = (struct nic_qp *)to;
	struct nic_wr taken;
	int error = 0;

	pthread_mutex_lock(&nic_lock);
	nic_doorbells_rung++;
	for (; wr && !error; wr = wr->next) {
		note_send(wr);
		if (!nic_fails(NIC_post_send, &error))
			error = take(qp, wr, &taken);
		if (error)
			*bad = wr;
		else
			nic_enter(qp, &taken);
	}
	pthread_mutex_unlock(&nic_lock);
	return error;
}

static int receive(struct nic_rq *rq, const char *what, enum nic_call call, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad)
{
	int error = 0;

	for (; wr && !error; wr = wr->next) {
		struct nic_recv recv = { .wr_id = wr->wr_id, .num_sge = wr->num_sge };

		if (wr->num_sge == 1)
			recv.sge = *wr->sg_list;
		nic_note("%s(id %#lx, %d sge: %s, lkey %s%s)", what, (unsigned long)wr->wr_id,
			 wr->num_sge, wr->num_sge ? nic_where(recv.sge.addr, recv.sge.length) : "none",
			 nic_key(recv.sge.lkey, false), wr->next ? ", chained" : "");
		if (!nic_fails(call, &error))
			error = wr->num_sge > 1 ? EINVAL : rq->posted.count >= rq->depth ? ENOMEM : 0;
		if (error)
			*bad = wr;
		else
			(void)nic_push(rq->posted, recv);
	}
	/* A request may have waited for it. */
	for (struct nic_qp *qp = nic_qps; qp; qp = qp->next)
		nic_run(qp);
	return error;
}

int nic_post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct nic_qp *qp = (struct nic_qp *)to;

	pthread_mutex_lock(&nic_lock);
	int error = receive(&qp->rq, "post_recv", NIC_post_recv, wr, bad);

	pthread_mutex_unlock(&nic_lock);
	return error;
}

int nic_post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct nic_srq *srq = (struct nic_srq *)to;

	pthread_mutex_lock(&nic_lock);
	int error = receive(&srq->rq, "post_srq_recv", NIC_post_srq_recv, wr, bad);

	pthread_mutex_unlock(&nic_lock);
	return error;
}
