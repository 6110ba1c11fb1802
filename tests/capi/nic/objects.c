/* The device, and what is made of it: the calls of libibverbs. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

#define CQE_MAX 4095
#define QP_WR_MAX 4095
#define INLINE_MAX 64
#define ATOMIC_WRITE_BIT (1ULL << 40)
#define FLUSH_BITS (3ULL << 38)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)

struct nic_device nic_can;
struct nic_live nic_alive;
struct nic_mr *nic_mrs;
struct nic_qp *nic_qps;
struct nic_srq *nic_srqs;
static struct nic_cq *cqs[256];
static uint32_t next_qp_num = 0x11, next_cq, next_key;

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "nic0",
	.dev_name = "uverbs0",
};

static int query_device_ex(struct ibv_context *, const struct ibv_query_device_ex_input *,
			   struct ibv_device_attr_ex *, size_t);
static int advise_mr(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t, struct ibv_sge *,
		     uint32_t);
static struct ibv_qp *create_qp_ex(struct ibv_context *, struct ibv_qp_init_attr_ex *);

static struct verbs_context context = {
	.sz = sizeof(struct verbs_context),
	.query_device_ex = query_device_ex,
	.advise_mr = advise_mr,
	.create_qp_ex = create_qp_ex,
	.context = {
		.device = &device,
		.abi_compat = (void *)UINTPTR_MAX,
		.cmd_fd = -1,
		.async_fd = -1,
		.num_comp_vectors = 1,
		.ops = {
			.post_send = nic_post_send,
			.post_recv = nic_post_recv,
			.post_srq_recv = nic_post_srq_recv,
			.poll_cq = nic_poll_cq,
			.req_notify_cq = nic_req_notify,
		},
	},
};

EXPORT struct ibv_context *nic_context(void)
{
	return &context.context;
}

EXPORT void nic_set_device(const struct nic_device *can)
{
	nic_can = *can;
	device.transport_type = can->iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	device.node_type = can->iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
}

EXPORT struct nic_live nic_live(void)
{
	return nic_alive;
}

EXPORT struct ibv_qp *nic_qp(uint32_t qp_num)
{
	for (struct nic_qp *qp = nic_qps; qp; qp = qp->next)
		if (qp->ex.qp_base.qp_num == qp_num)
			return &qp->ex.qp_base;
	return NULL;
}

/* ---- the device ----------------------------------------------------------- */

static void attributes(struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "1.0");
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 4096;
	attr->max_qp = 4096;
	attr->max_qp_wr = QP_WR_MAX;
	attr->max_sge = 32;
	attr->max_cq = 256;
	attr->max_cqe = CQE_MAX;
	attr->max_mr = 1 << 20;
	attr->max_pd = 1 << 16;
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	attr->max_res_rd_atom = 256;
	attr->max_srq = 256;
	attr->max_srq_wr = QP_WR_MAX;
	attr->max_srq_sge = 32;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->phys_port_cnt = 1;
}

EXPORT int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *attr)
{
	int error;

	(void)of;
	if (nic_fails(NIC_query_device, &error))
		return error;
	attributes(attr);
	return 0;
}

static int query_device_ex(struct ibv_context *of, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	int error;

	(void)of, (void)input;
	if (nic_fails(NIC_query_device_ex, &error))
		return error;
	memset(attr, 0, size);
	attributes(&attr->orig_attr);
	if (nic_can.native_atomic_write)
		attr->device_cap_flags_ex |= ATOMIC_WRITE_BIT;
	if (nic_can.native_flush)
		attr->device_cap_flags_ex |= FLUSH_BITS;
	if (nic_can.on_demand_paging) {
		attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
		attr->odp_caps.per_transport_caps.rc_odp_caps =
			nic_can.rc_odp_caps ? nic_can.rc_odp_caps
					    : IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	}
	return 0;
}

#undef ibv_query_port
EXPORT int ibv_query_port(struct ibv_context *of, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *all = (struct ibv_port_attr *)attr;

	(void)of;
	if (port != 1)
		return EINVAL;
	/* The part that every version of the header has. */
	memset(all, 0, offsetof(struct ibv_port_attr, port_cap_flags2));
	all->state = IBV_PORT_ACTIVE;
	all->max_mtu = all->active_mtu = IBV_MTU_4096;
	all->gid_tbl_len = 1;
	all->max_msg_sz = 1U << 31;
	all->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

EXPORT const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

EXPORT int ibv_get_async_event(struct ibv_context *of, struct ibv_async_event *event)
{
	(void)of, (void)event;
	errno = EAGAIN;
	return -1;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/* ---- protection domains and regions --------------------------------------- */

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *of)
{
	int error;

	if (nic_fails(NIC_alloc_pd, &error)) {
		errno = error;
		return NULL;
	}
	struct ibv_pd *pd = nic_alloc(sizeof(*pd));

	pd->context = of;
	nic_alive.pds++;
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int error;

	nic_alive.pds--;
	nic_release(pd);
	return nic_fails(NIC_dealloc_pd, &error) ? error : 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	int error = EINVAL;

	nic_note("reg_mr(%s, access %#x)", nic_where((uintptr_t)addr, length), access);
	/* As Soft-RoCE does: the memory here is not persistent. */
	if (nic_fails(NIC_reg_mr, &error) || access & ACCESS_FLUSH_PERSISTENT) {
		errno = error;
		return NULL;
	}
	struct nic_mr *mr = nic_alloc(sizeof(*mr));

	mr->verbs.context = pd->context;
	mr->verbs.pd = pd;
	mr->verbs.addr = addr;
	mr->verbs.length = length;
	/* Never equal: who sends one for the other is found out. */
	mr->verbs.lkey = 0x1000 + ++next_key;
	mr->verbs.rkey = 0x810000 + next_key;
	mr->access = access;
	pthread_mutex_lock(&nic_lock);
	mr->next = nic_mrs;
	nic_mrs = mr;
	nic_alive.mrs++;
	pthread_mutex_unlock(&nic_lock);
	return &mr->verbs;
}

#undef ibv_reg_mr
EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				       uint64_t iova, unsigned int access)
{
	if (iova != (uintptr_t)addr)
		nic_note("with iova %#lx", (unsigned long)iova);
	return reg_mr(pd, addr, length, (int)access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *gone)
{
	int error = 0;

	pthread_mutex_lock(&nic_lock);
	for (struct nic_mr **at = &nic_mrs; *at; at = &(*at)->next)
		if (&(*at)->verbs == gone) {
			struct nic_mr *mr = *at;

			nic_note("dereg_mr(%s)", nic_where((uintptr_t)gone->addr, gone->length));
			*at = mr->next;
			nic_release(mr);
			nic_alive.mrs--;
			break;
		}
	pthread_mutex_unlock(&nic_lock);
	return nic_fails(NIC_dereg_mr, &error) ? error : 0;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *list, uint32_t count)
{
	int error;

	(void)pd;
	nic_note("advise_mr(advice %d, flags %#x, %u of %s, lkey %s)", (int)advice, flags, count,
		 nic_where(list->addr, list->length), nic_key(list->lkey, false));
	return nic_fails(NIC_advise_mr, &error) ? error : 0;
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

	base->context = &context.context;
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

static struct ibv_qp *create_qp_ex(struct ibv_context *of, struct ibv_qp_init_attr_ex *attr)
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
