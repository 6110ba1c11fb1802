/* Completion queues, receive queues and queue pairs: the calls of libibverbs. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

#define INLINE_MAX 64

struct nic_qp *nic_qps;
struct nic_srq *nic_srqs;
static struct nic_cq *cqs[256];
static uint32_t next_qp_num = 0x11, next_cq;

EXPORT struct ibv_qp *nic_qp(uint32_t qp_num)
{
	for (struct nic_qp *qp = nic_qps; qp; qp = qp->next)
		if (qp->ex.qp_base.qp_num == qp_num)
			return &qp->ex.qp_base;
	return NULL;
}

/* ---- completions ---------------------------------------------------------- */

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *of)
{
	int error;

	if (nic_fails(NIC_create_comp_channel, &error)) {
		errno = error;
		return NULL;
	}
	struct nic_channel *channel = nic_alloc(sizeof(*channel));

	channel->verbs.context = of;
	channel->verbs.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	nic_alive.channels++;
	return &channel->verbs;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *gone)
{
	struct nic_channel *channel = (struct nic_channel *)gone;
	int error;

	/* libibverbs refuses while completion queues use it. */
	if (gone->refcnt)
		return EBUSY;
	close(gone->fd);
	nic_release(channel->events.at);
	nic_release(channel);
	nic_alive.channels--;
	return nic_fails(NIC_destroy_comp_channel, &error) ? error : 0;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *of, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	int error = EINVAL;

	nic_note("create_cq(%d entries, vector %d%s)", cqe, vector,
		 channel ? channel->refcnt ? ", shared channel" : "" : ", no channel");
	if (nic_fails(NIC_create_cq, &error) || cqe < 1 || cqe > CQE_MAX) {
		errno = error;
		return NULL;
	}
	struct nic_cq *cq = nic_alloc(sizeof(*cq));

	cq->verbs.context = of;
	cq->verbs.channel = channel;
	cq->verbs.cq_context = cq_context;
	cq->verbs.handle = ++next_cq;
	cq->verbs.cqe = cqe;
	if (channel)
		channel->refcnt++;
	for (int i = 0; i < 256; i++)
		if (!cqs[i]) {
			cqs[i] = cq;
			break;
		}
	nic_alive.cqs++;
	return &cq->verbs;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *gone)
{
	struct nic_cq *cq = (struct nic_cq *)gone;
	int error;

	if (gone->channel)
		gone->channel->refcnt--;
	for (int i = 0; i < 256; i++)
		if (cqs[i] == cq)
			cqs[i] = NULL;
	nic_release(cq->entries.at);
	nic_release(cq);
	nic_alive.cqs--;
	return nic_fails(NIC_destroy_cq, &error) ? error : 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *of, struct ibv_cq **cq, void **cq_context)
{
	struct nic_channel *channel = (struct nic_channel *)of;
	uint64_t one;
	int error;

	if (nic_fails(NIC_get_cq_event, &error)) {
		errno = error;
		return -1;
	}
	if (read(of->fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	pthread_mutex_lock(&nic_lock);
	*cq = nic_front(channel->events);
	nic_pop(channel->events);
	pthread_mutex_unlock(&nic_lock);
	*cq_context = (*cq)->cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	cq->comp_events_completed += count;
	nic_note("ack_cq_events(%u)", count);
}

/* ---- queues --------------------------------------------------------------- */

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	int error = EINVAL;

	nic_note("create_srq(%u requests, %u sge, limit %u)", attr->attr.max_wr, attr->attr.max_sge,
		 attr->attr.srq_limit);
	if (nic_fails(NIC_create_srq, &error) || !attr->attr.max_wr || attr->attr.max_wr > QP_WR_MAX) {
		errno = error;
		return NULL;
	}
	struct nic_srq *srq = nic_alloc(sizeof(*srq));

	srq->verbs.context = pd->context;
	srq->verbs.pd = pd;
	srq->rq.depth = attr->attr.max_wr;
	srq->next = nic_srqs;
	nic_srqs = srq;
	nic_alive.srqs++;
	return &srq->verbs;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *gone)
{
	struct nic_srq *srq = (struct nic_srq *)gone;
	int error;

	for (struct nic_srq **at = &nic_srqs; *at; at = &(*at)->next)
		if (*at == srq) {
			*at = srq->next;
			break;
		}
	nic_release(srq->rq.posted.at);
	nic_release(srq);
	nic_alive.srqs--;
	return nic_fails(NIC_destroy_srq, &error) ? error : 0;
}

struct nic_qp *nic_new_qp(const struct ibv_qp_init_attr_ex *attr, uint64_t operations)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	int error = EINVAL;

	nic_note("create_qp(send cq %d, receive cq %s %d, srq %s, send %u, receive %u, sge %u %u, "
		 "inline %u, type %d, all signaled %d, operations %#lx)",
		 attr->send_cq->cqe, attr->send_cq == attr->recv_cq ? "the same" : "another",
		 attr->recv_cq->cqe, attr->srq ? "yes" : "no", cap->max_send_wr, cap->max_recv_wr,
		 cap->max_send_sge, cap->max_recv_sge, cap->max_inline_data, (int)attr->qp_type,
		 attr->sq_sig_all, (unsigned long)operations);
	if (nic_fails(NIC_create_qp, &error) || cap->max_send_wr > QP_WR_MAX ||
	    cap->max_recv_wr > QP_WR_MAX || cap->max_inline_data > INLINE_MAX) {
		errno = error;
		return NULL;
	}
	struct nic_qp *qp = nic_alloc(sizeof(*qp));
	struct ibv_qp *base = &qp->ex.qp_base;

	base->context = nic_context();
	base->pd = attr->pd;
	base->qp_context = attr->qp_context;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	base->qp_num = next_qp_num++;
	base->state = IBV_QPS_INIT;
	base->qp_type = attr->qp_type;
	qp->sq_depth = cap->max_send_wr;
	qp->rq.depth = cap->max_recv_wr;
	qp->max_inline = cap->max_inline_data;
	if (operations)
		nic_extend(qp, operations);
	qp->next = nic_qps;
	nic_qps = qp;
	nic_alive.qps++;
	return qp;
}

struct ibv_qp *nic_create_qp_ex(struct ibv_context *of, struct ibv_qp_init_attr_ex *attr)
{
	uint64_t operations =
		attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;
	struct nic_qp *qp = nic_new_qp(attr, operations);

	(void)of;
	return qp ? &qp->ex.qp_base : NULL;
}

void nic_free_qp(struct nic_qp *qp)
{
	if (qp->peer)
		qp->peer->peer = NULL;
	for (struct nic_qp **at = &nic_qps; *at; at = &(*at)->next)
		if (*at == qp) {
			*at = qp->next;
			break;
		}
	nic_release(qp->sq.at);
	nic_release(qp->built.at);
	nic_release(qp->rq.posted.at);
	nic_release(qp);
	nic_alive.qps--;
}

/* To an extended queue pair, where it was made as one. */
EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *base)
{
	struct nic_qp *qp = (struct nic_qp *)base;

	return qp->ex.wr_start ? &qp->ex : NULL;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *base)
{
	nic_free_qp((struct nic_qp *)base);
	return 0;
}

EXPORT int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	nic_note("modify_qp(mask %#x, state %d)", mask, (int)attr->qp_state);
	if (mask == IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		nic_flush_qp((struct nic_qp *)base);
	return 0;
}

static void renew(struct nic_qp *qp)
{
	qp->sq.count = qp->built.count = qp->rq.posted.count = 0;
	qp->sq_used = qp->sq_unsignaled = 0;
	qp->in_error = false;
	qp->ex.qp_base.state = qp->connected ? IBV_QPS_RTS : IBV_QPS_INIT;
}

EXPORT void nic_renew(struct ibv_qp *qp)
{
	renew((struct nic_qp *)qp);
}

EXPORT void nic_renew_all(void)
{
	for (struct nic_qp *qp = nic_qps; qp; qp = qp->next)
		renew(qp);
	for (struct nic_srq *srq = nic_srqs; srq; srq = srq->next)
		srq->rq.posted.count = 0;
	for (int i = 0; i < 256; i++)
		if (cqs[i]) {
			struct nic_channel *channel = (struct nic_channel *)cqs[i]->verbs.channel;
			uint64_t one;

			cqs[i]->entries.count = 0;
			cqs[i]->armed = true;
			while (channel && channel->events.count) {
				if (read(channel->verbs.fd, &one, sizeof(one)) != sizeof(one))
					break;
				nic_pop(channel->events);
			}
		}
}
