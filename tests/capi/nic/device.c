/* The device, its domains and regions: the calls of libibverbs. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "internal.h"

#define ATOMIC_WRITE_BIT (1ULL << 40)
#define FLUSH_BITS (3ULL << 38)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)

struct nic_device nic_can;
struct nic_live nic_alive;
struct nic_mr *nic_mrs;
static uint32_t next_key;

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

static struct verbs_context context = {
	.sz = sizeof(struct verbs_context),
	.query_device_ex = query_device_ex,
	.advise_mr = advise_mr,
	.create_qp_ex = nic_create_qp_ex,
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
