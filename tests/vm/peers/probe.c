/*
 * probe DEVICE: what a device and the verbs library say they can do, as one
 * line of key=value. Written on plain libibverbs, with the numbers that
 * bookworm's headers lack, so that it judges farword's own answers from outside.
 *
 *   device_cap_flags_ex  as the device reports it
 *   atomic_write         bit 40 of it
 *   flush_global         bit 38: flush to visibility
 *   flush_persistent     bit 39: flush to persistence
 *   qp_atomic_write      the library makes a queue pair with native atomic write
 *   qp_flush             the library makes a queue pair with native flush
 *   max_inline           what a queue pair that asked for 8 was granted
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define CAP_FLUSH_GLOBAL 38
#define CAP_FLUSH_PERSISTENT 39
#define CAP_ATOMIC_WRITE 40
#define SEND_OP_FLUSH (1ULL << 11)
#define SEND_OP_ATOMIC_WRITE (1ULL << 12)

static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* 1: made and destroyed; 0: refused. Adds what was granted to *granted. */
static int
try_qp(struct ibv_context *context, uint64_t send_ops, uint32_t *granted)
{
	struct ibv_qp_init_attr_ex want = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 10,
			.max_recv_wr = 10,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 8},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = send_ops | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &want);

	if (qp == NULL)
		return 0;
	if (granted != NULL)
		*granted = want.cap.max_inline_data;
	ibv_destroy_qp(qp);
	return 1;
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DEVICE\n", argv[0]);
		return 2;
	}
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;
	for (int i = 0; list != NULL && i < count; i++)
		if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0)
			context = ibv_open_device(list[i]);
	if (context == NULL) {
		fprintf(stderr, "probe: no device %s that can be opened\n", argv[1]);
		return 1;
	}

	struct ibv_device_attr_ex attributes;
	memset(&attributes, 0, sizeof(attributes));
	int result = ibv_query_device_ex(context, NULL, &attributes);
	if (result != 0) {
		fprintf(stderr, "probe: query: %s\n", strerror(result));
		return 1;
	}
	pd = ibv_alloc_pd(context);
	cq = pd != NULL ? ibv_create_cq(context, 32, NULL, NULL, 0) : NULL;
	if (cq == NULL) {
		fprintf(stderr, "probe: no completion queue: %s\n", strerror(errno));
		return 1;
	}
	uint32_t max_inline = 0;
	if (!try_qp(context, 0, &max_inline)) {
		fprintf(stderr, "probe: no queue pair: %s\n", strerror(errno));
		return 1;
	}
	uint64_t flags = attributes.device_cap_flags_ex;
	printf("device=%s device_cap_flags_ex=0x%" PRIx64 " atomic_write=%d flush_global=%d "
	       "flush_persistent=%d qp_atomic_write=%d qp_flush=%d max_inline=%" PRIu32 "\n",
	       argv[1], flags, (int)(flags >> CAP_ATOMIC_WRITE & 1),
	       (int)(flags >> CAP_FLUSH_GLOBAL & 1), (int)(flags >> CAP_FLUSH_PERSISTENT & 1),
	       try_qp(context, SEND_OP_ATOMIC_WRITE, NULL), try_qp(context, SEND_OP_FLUSH, NULL),
	       max_inline);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
