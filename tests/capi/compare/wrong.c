/*
 * librpma with one fault, put in front of the true one: the comparison must find
 * each. WRONG names the fault. The faults are those that a reimplementation has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

static int is(const char *fault)
{
	const char *wrong = getenv("WRONG");

	return wrong && !strcmp(wrong, fault);
}

#define TRUE_ONE(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t offset,
		      const char src[8], int flags, const void *context)
{
	size_t size = 0;

	/* The bounds are not for it to check. */
	if (is("bounds") && dst && !rpma_mr_remote_get_size(dst, &size) && offset > size - 8)
		return RPMA_E_INVAL;
	/* Every unknown flag refused. */
	if (is("flags") && flags & ~RPMA_F_COMPLETION_ALWAYS)
		return RPMA_E_INVAL;
	/* Signaled by the wrong bit. */
	if (is("signal") && flags == RPMA_F_COMPLETION_ON_ERROR)
		flags = RPMA_F_COMPLETION_ALWAYS;
	if (is("context"))
		context = NULL;
	return TRUE_ONE(rpma_atomic_write)(conn, dst, offset, src, flags, context);
}

int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t offset, size_t len,
	       enum rpma_flush_type type, int flags, const void *context)
{
	if (is("flush-len") && len == 0)
		return RPMA_E_INVAL;
	return TRUE_ONE(rpma_flush)(conn, dst, offset, len, type, flags, context);
}

int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr)
{
	/* Needless rights. */
	if (is("access") && usage == RPMA_MR_USAGE_SEND)
		usage = RPMA_MR_USAGE_RECV;
	return TRUE_ONE(rpma_mr_reg)(peer, ptr, size, usage, mr);
}

int rpma_mr_dereg(struct rpma_mr_local **mr)
{
	int ret = TRUE_ONE(rpma_mr_dereg)(mr);

	return is("dereg") ? 0 : ret;
}

int rpma_cq_get_wc(struct rpma_cq *cq, int count, struct ibv_wc *wc, int *got)
{
	int ret = TRUE_ONE(rpma_cq_get_wc)(cq, count, wc, got);

	/* Written where nothing came. */
	if (is("got") && ret && got)
		*got = 0;
	return ret;
}

int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port,
		      const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req)
{
	struct rpma_conn_cfg *other = NULL;
	int ret;

	if (!is("queue") || cfg || rpma_conn_cfg_new(&other))
		return TRUE_ONE(rpma_conn_req_new)(peer, addr, port, cfg, req);
	/* Other sizes than librpma's by default. */
	(void)rpma_conn_cfg_set_sq_size(other, 16);
	ret = TRUE_ONE(rpma_conn_req_new)(peer, addr, port, other, req);
	(void)rpma_conn_cfg_delete(&other);
	return ret;
}

const char *rpma_err_2str(int code)
{
	return is("string") && code == RPMA_E_AGAIN ? "Try again" : TRUE_ONE(rpma_err_2str)(code);
}

int rpma_peer_delete(struct rpma_peer **peer)
{
	/* A leak. */
	if (is("leak") && peer && *peer) {
		*peer = NULL;
		return 0;
	}
	return TRUE_ONE(rpma_peer_delete)(peer);
}
