/* One case: a call, and the line that tells of it. */
#ifndef CASE_H
#define CASE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <librpma.h>
#include <rdma/rdma_cma.h>

#include "../nic/nic.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An out-parameter that was not written to. */
#define UNTOUCHED 0x5a5a5a5aUL
#define UNTOUCHED_PTR ((void *)UNTOUCHED)
/* What a pointer is told to be: an address differs from run to run. */
const char *pointer(const void *value);

/* The function that the cases to come are about. */
void about(const char *function);

/* Begins a case: what is noted from here on belongs to it. */
void begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends it: prints the function, the case, the result and what was noted. */
void end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A case that may end the process runs in another one. As `begin`; true in that
 * process, where `end_risky` must follow. Where it died, that is the result.
 */
bool begin_risky(const char *format, ...) __attribute__((format(printf, 1, 2)));
void end_risky(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the library logs, at every level, belongs to the cases. */
void hear_log(void);

/* A step that a case needs and that is not what it is about: it must go well. */
#define NEED(call) need((call) == 0, #call, __FILE__, __LINE__)
void need(bool holds, const char *what, const char *file, int line);

/* ---- what the cases work on ------------------------------------------------ */

#define ARENA_LEN 65536
#define ALL_USES 0xff

/* Memory at an address that is the same in every run. */
extern char *const arena;
void arena_new(void);
/* The case that is under way, for whoever must say what went wrong. */
extern const char *case_now;
#define TARGET (arena + ARENA_LEN / 2)
#define REGION_LEN 4096

struct world {
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	struct rpma_mr_local *local;           /* REGION_LEN bytes at `arena` */
	struct rpma_mr_local *target;          /* REGION_LEN bytes at TARGET */
	struct rpma_mr_remote *remote;         /* the same, from its descriptor */
	struct rpma_conn *client, *server;
};

/* The world: a connected pair in one process. `cfg` may be NULL. */
void world_new(struct world *world, const struct rpma_conn_cfg *cfg);
void world_delete(struct world *world);
/* Only the peer, the listener and the memory. */
void world_begin(struct world *world);
void world_connect(struct world *world, const struct rpma_conn_cfg *cfg);
void world_disconnect(struct world *world);
/* Whatever has come to the listener meanwhile, on which nothing may block. */
void drop_late(struct world *world);
struct rpma_mr_remote *remote_of(const struct rpma_mr_local *mr);
struct ibv_qp *qp_of(const struct rpma_conn *conn);
/* Events of this connection do not block. */
void unblock(int fd);

/* ---- the tables ------------------------------------------------------------ */

void cases_config(void);
void cases_peer(void);
void cases_region(void);
void cases_utils(void);
void cases_log(void);
void cases_request(void);
void cases_listen(void);
void cases_conn(void);
void cases_write(void);
void cases_atomic_write(void);
void cases_message(void);
void cases_flush(void);
void cases_completion(void);
void cases_wait(void);
void cases_srq(void);
void cases_native(void);
void cases_memory(void);

#endif
