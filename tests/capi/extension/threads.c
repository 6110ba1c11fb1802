/*
 * One thread posts while another polls, and two threads post at once: what the
 * manual lists as calls that any thread may make.
 */
#include "flow.h"

#include <pthread.h>
#include <sched.h>

const char flow_name[] = "threads";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST;

#define WRITES 400
#define AT_ONCE 8

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);

	await_end(&conn);
	MUST(*(uint64_t *)(side->memory + 8) == WRITES);
	MUST(*(uint64_t *)(side->memory + 16) == WRITES);
}

static struct rpma_conn *conn;
static struct rpma_mr_remote *remote;
/* How many completions of either poster were seen. */
static uint64_t done[2];

static void *post(void *which)
{
	uintptr_t own = (uintptr_t)which;

	for (uint64_t number = 1; number <= WRITES; number++) {
		while (number - __atomic_load_n(&done[own], __ATOMIC_ACQUIRE) > AT_ONCE / 2)
			sched_yield();
		WELL(rpma_atomic_write(conn, remote, 8 + 8 * own, (char *)&number,
				RPMA_F_COMPLETION_ALWAYS, (void *)own));
	}
	return NULL;
}

static void *poll_all(void *unused)
{
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc[4];

	WELL(rpma_conn_get_cq(conn, &cq));
	for (int seen = 0; seen < 2 * WRITES;) {
		int got = 0;
		int code = rpma_cq_get_wc(cq, 4, wc, &got);

		if (code == RPMA_E_NO_COMPLETION) {
			WELL(rpma_cq_wait(cq));
			continue;
		}
		WELL(code);
		for (int i = 0; i < got; i++) {
			MUST(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id < 2);
			__atomic_add_fetch(&done[wc[i].wr_id], 1, __ATOMIC_RELEASE);
		}
		seen += got;
	}
	return unused;
}

void flow_call(struct side *side)
{
	pthread_t threads[3];

	conn = call_one(side, NULL);
	remote = remote_from(conn);
	MUST(!pthread_create(&threads[2], NULL, poll_all, NULL));
	for (uintptr_t own = 0; own < 2; own++)
		MUST(!pthread_create(&threads[own], NULL, post, (void *)own));
	for (int i = 0; i < 3; i++)
		MUST(!pthread_join(threads[i], NULL));
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&conn);
}
