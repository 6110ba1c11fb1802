/*
 * Preloaded: a disconnect that waits a second first. Some of librpma's examples
 * send a last message without a completion and disconnect right behind it; a
 * device may drop what has not left by then, and the other side waits for ever.
 * That is between them and the device: it is so with librpma as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

struct rdma_cm_id;

int rdma_disconnect(struct rdma_cm_id *id)
{
	int (*next)(struct rdma_cm_id *) =
		(int (*)(struct rdma_cm_id *))dlsym(RTLD_NEXT, "rdma_disconnect");

	sleep(1);
	return next ? next(id) : -1;
}
