/*
 * One thread posts and another takes the completions, on one connection, as
 * librpma's manual allows for these calls.
 */
#include <pthread.h>
#include <semaphore.h>

#include "flow.h"

const char flow_name[] = "threads";
const int flow_usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST;

#define POSTS 400
#define IN_FLIGHT 8                     /* fewer than the queue has room for */
#define DATA 64
#define PIECE 16

struct both {
	struct rpma_conn *conn;
	sem_t room;
};

static void *poll_them(void *of)
{
	struct both *both = of;

	for (uint64_t i = 0; i < POSTS; i++) {
		MUST(await_wc(both->conn).wr_id == i);
		MUST(sem_post(&both->room) == 0);
	}
	return NULL;
}

void flow_serve(struct side *side)
{
	struct rpma_conn *conn = accept_one(side, NULL);
	uint64_t last = 0;

	await_end(&conn);
	memcpy(&last, side->memory, sizeof(last));
	MUST(last == POSTS - 1);
	for (unsigned i = 0; i < POSTS / 2; i++)
		MUST(filled(side->memory + DATA + i * PIECE, PIECE, i));
}

void flow_call(struct side *side)
{
	struct both both = { .conn = call_one(side, NULL) };
	struct rpma_mr_remote *remote = remote_from(both.conn);
	pthread_t thread;

	for (unsigned i = 0; i < POSTS / 2; i++)
		fill(side->memory + DATA + i * PIECE, PIECE, i);
	MUST(sem_init(&both.room, 0, IN_FLIGHT) == 0);
	MUST(pthread_create(&thread, NULL, poll_them, &both) == 0);
	for (uint64_t i = 0; i < POSTS; i++) {
		size_t at = DATA + i / 2 * PIECE;
		char word[8];

		while (sem_wait(&both.room))
			;
		memcpy(word, &i, sizeof(word));
		if (i % 2)
			WELL(rpma_atomic_write(both.conn, remote, 0, word, RPMA_F_COMPLETION_ALWAYS, (void *)i));
		else
			WELL(rpma_write(both.conn, remote, at, side->mr, at, PIECE, RPMA_F_COMPLETION_ALWAYS,
					(void *)i));
	}
	MUST(pthread_join(thread, NULL) == 0);
	MUST(sem_destroy(&both.room) == 0);
	WELL(rpma_mr_remote_delete(&remote));
	hang_up(&both.conn);
}
