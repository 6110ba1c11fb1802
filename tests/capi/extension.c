/*
 * What librpma does not have: <farword_rpma.h>, on the software NIC. Prints ok and
 * FAIL lines. Needs the library itself, not librpma in its place.
 */
#include <farword_rpma.h>

#include "compare/case.h"

static struct world world;
static const char *doing = "";
static int wrong;

static void check_that(bool holds, const char *what, int line)
{
	if (!holds) {
		printf("     %s: line %d: this does not hold: %s\n", doing, line, what);
		wrong++;
	}
}
#define CHECK(condition) check_that((condition), #condition, __LINE__)

/* ---- batches ------------------------------------------------------------------ */

#define REQUESTS 7

static int request(int which)
{
	struct rpma_conn *conn = world.client;
	void *context = (void *)(uintptr_t)(100 + which);

	switch (which) {
	case 0:
		return rpma_write(conn, world.remote, 0, world.local, 0, 64, 1, context);
	case 1:
		return rpma_flush(conn, world.remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY, 1, context);
	case 2:
		return rpma_atomic_write(conn, world.remote, 64, "abcdefgh", 1, context);
	case 3:
		return rpma_read(conn, world.local, 512, world.remote, 64, 8, 3, context);
	case 4:
		return rpma_write_with_imm(conn, world.remote, 128, world.local, 0, 8, 1, 5, context);
	case 5:
		return rpma_send(conn, world.local, 0, 16, 1, context);
	default:
		return rpma_send_with_imm(conn, world.local, 0, 16, 3, 6, context);
	}
}

static void renew(void)
{
	nic_renew_all();
	for (size_t i = 0; i < 6; i++)
		NEED(rpma_recv(world.server, world.target, 2048, 64, (void *)i));
}

static bool staged_are(const int *want, uint32_t count)
{
	const void *contexts[64];
	uint32_t staged = 99;

	if (farword_batch_get_staged(world.client, 64, contexts, &staged) || staged != count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if ((uintptr_t)contexts[i] != (uintptr_t)want[i])
			return false;
	return true;
}

/* What is posted is what each call posts by itself, but with one doorbell. */
static void the_same_requests(void)
{
	static char one_by_one[8192];
	char batched[8192], *chained;
	uint32_t posted = 99;

	renew();
	nic_log_begin();
	for (int i = 0; i < REQUESTS; i++)
		CHECK(request(i) == 0);
	snprintf(one_by_one, sizeof(one_by_one), "%s", nic_log_end());
	CHECK(nic_doorbells() == REQUESTS);
	renew();
	nic_log_begin();
	CHECK(farword_batch_begin(world.client) == 0);
	for (int i = 0; i < REQUESTS; i++)
		CHECK(request(i) == 0);
	CHECK(nic_doorbells() == 0);
	CHECK(farword_batch_end(world.client, &posted) == 0);
	snprintf(batched, sizeof(batched), "%s", nic_log_end());
	CHECK(nic_doorbells() == 1 && posted == REQUESTS);
	while ((chained = strstr(batched, ", chained")))
		memmove(chained, chained + 9, strlen(chained + 9) + 1);
	CHECK(!strcmp(one_by_one, batched));
	CHECK(!memcmp(TARGET + 64, "abcdefgh", 8));
}

static void completions_come_as_ever(void)
{
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc[8];
	int got = 0;

	renew();
	NEED(rpma_conn_get_cq(world.client, &cq));
	CHECK(farword_batch_begin(world.client) == 0);
	for (int i = 0; i < REQUESTS; i++)
		CHECK(request(i) == 0);
	CHECK(rpma_cq_get_wc(cq, 8, wc, &got) == RPMA_E_NO_COMPLETION);
	CHECK(farword_batch_end(world.client, NULL) == 0);
	CHECK(rpma_cq_get_wc(cq, 8, wc, &got) == 0 && got == 2);
	CHECK(wc[0].wr_id == 103 && wc[1].wr_id == 106);
}

static void the_word_is_copied(void)
{
	char word[8];

	renew();
	memset(TARGET, 0, 16);
	memcpy(word, "the word", 8);
	CHECK(farword_batch_begin(world.client) == 0);
	CHECK(rpma_atomic_write(world.client, world.remote, 8, word, 1, NULL) == 0);
	memset(word, '!', 8);
	CHECK(farword_batch_end(world.client, NULL) == 0);
	CHECK(!memcmp(TARGET + 8, "the word", 8));
}

static void arguments_are_checked_as_ever(void)
{
	uint32_t staged = 99;

	renew();
	CHECK(farword_batch_begin(world.client) == 0);
	CHECK(rpma_atomic_write(world.client, world.remote, 4, "abcdefgh", 1, NULL) == RPMA_E_INVAL);
	CHECK(rpma_atomic_write(world.client, world.remote, 8, NULL, 1, NULL) == RPMA_E_INVAL);
	CHECK(rpma_atomic_write(world.client, world.remote, 8, "abcdefgh", 0, NULL) == RPMA_E_INVAL);
	CHECK(rpma_write(world.client, world.remote, 0, NULL, 0, 8, 1, NULL) == RPMA_E_INVAL);
	CHECK(rpma_flush(world.client, world.remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, 1, NULL) ==
	      RPMA_E_NOSUPP);
	CHECK(rpma_send(world.client, NULL, 1, 0, 1, NULL) == RPMA_E_INVAL);
	CHECK(farword_batch_get_staged(world.client, 0, NULL, &staged) == 0 && staged == 0);
	CHECK(farword_batch_end(world.client, &staged) == 0 && staged == 0);
	nic_log_begin();
	CHECK(nic_doorbells() == 0);
}

static void out_of_order(void)
{
	const void *context = NULL;
	uint32_t number = 77;

	renew();
	CHECK(farword_batch_begin(NULL) == RPMA_E_INVAL);
	CHECK(farword_batch_end(NULL, &number) == RPMA_E_INVAL);
	CHECK(farword_batch_drop(NULL) == RPMA_E_INVAL);
	CHECK(farword_batch_get_staged(NULL, 1, &context, &number) == RPMA_E_INVAL);
	CHECK(farword_batch_end(world.client, NULL) == RPMA_E_INVAL);
	CHECK(farword_batch_drop(world.client) == RPMA_E_INVAL);
	CHECK(farword_batch_begin(world.client) == 0);
	CHECK(farword_batch_begin(world.client) == RPMA_E_INVAL);
	CHECK(farword_batch_get_staged(world.client, 1, &context, NULL) == RPMA_E_INVAL);
	CHECK(farword_batch_drop(world.client) == 0);
	CHECK(farword_batch_drop(world.client) == RPMA_E_INVAL);
	/* What was dropped stays dropped. */
	CHECK(farword_batch_begin(world.client) == 0);
	CHECK(request(0) == 0);
	CHECK(farword_batch_drop(world.client) == 0);
	nic_log_begin();
	CHECK(farword_batch_begin(world.client) == 0);
	CHECK(farword_batch_end(world.client, &number) == 0 && number == 0);
	CHECK(nic_doorbells() == 0);
}

/* The queue has room for ten. */
static void no_more_than_the_queue_has(void)
{
	uint32_t posted = 99;

	renew();
	CHECK(farword_batch_begin(world.client) == 0);
	for (int i = 0; i < 10; i++)
		CHECK(request(0) == 0);
	CHECK(request(0) == RPMA_E_AGAIN && request(2) == RPMA_E_AGAIN);
	CHECK(farword_batch_end(world.client, &posted) == 0 && posted == 10);
}

/* Room for three of six: those happen once, and the others later, once. */
static void a_part_has_room(void)
{
	static const int rest[] = { 203, 204, 205 };
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc[16];
	uint32_t posted = 99;
	int got = 0, seen = 0;

	renew();
	NEED(rpma_conn_get_cq(world.client, &cq));
	for (int i = 0; i < 7; i++)
		NEED(rpma_write(world.client, world.remote, 0, world.local, 0, 8, 3, NULL));
	CHECK(farword_batch_begin(world.client) == 0);
	for (size_t i = 0; i < 6; i++)
		CHECK(rpma_write(world.client, world.remote, 0, world.local, 0, 8, 3, (void *)(200 + i)) == 0);
	CHECK(farword_batch_end(world.client, &posted) == RPMA_E_AGAIN && posted == 3);
	CHECK(staged_are(rest, 3));
	/* It is open still. */
	CHECK(farword_batch_begin(world.client) == RPMA_E_INVAL);
	CHECK(rpma_cq_get_wc(cq, 16, wc, &got) == 0 && got == 10);
	CHECK(farword_batch_end(world.client, &posted) == 0 && posted == 3);
	for (int i = 0; i < got; i++)
		seen += wc[i].wr_id >= 200;
	CHECK(rpma_cq_get_wc(cq, 16, wc, &got) == 0 && got == 3);
	for (int i = 0; i < got; i++)
		CHECK(wc[i].wr_id == 203 + (uint64_t)i);
	CHECK(seen == 3);
}

static void a_request_is_refused(void)
{
	static const int rest[] = { 202, 203 };
	uint32_t posted = 99;

	renew();
	CHECK(farword_batch_begin(world.client) == 0);
	for (size_t i = 0; i < 4; i++)
		CHECK(rpma_write(world.client, world.remote, 0, world.local, 0, 8, 1, (void *)(200 + i)) == 0);
	nic_fail(NIC_post_send, 2, EINVAL);
	CHECK(farword_batch_end(world.client, &posted) == RPMA_E_PROVIDER && posted == 2);
	CHECK(!nic_fail_end());
	CHECK(staged_are(rest, 2));
	CHECK(farword_batch_drop(world.client) == 0);
}

static void a_connection_goes_with_its_batch(void)
{
	struct world other = world;

	CHECK(farword_batch_begin(world.client) == 0);
	CHECK(request(0) == 0 && request(2) == 0);
	NEED(rpma_conn_delete(&other.client));
	NEED(rpma_conn_delete(&world.server));
	world.client = NULL;
	world_connect(&world, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
	/* Not with native atomic writes, where messages take doorbells of their own
	 * and a chain is refused as a whole. */
	bool plain_only;
} all[] = {
	{ "a batch posts what the calls post, with one doorbell", the_same_requests, true },
	{ "the completions of a batch", completions_come_as_ever, false },
	{ "the word of an atomic write is copied", the_word_is_copied, false },
	{ "arguments are checked when a request is staged", arguments_are_checked_as_ever, false },
	{ "calls out of order", out_of_order, false },
	{ "a batch has as much room as the queue", no_more_than_the_queue_has, false },
	{ "a part of a batch has room: nothing twice", a_part_has_room, false },
	{ "a request of a batch is refused", a_request_is_refused, true },
	{ "a connection goes with its batch", a_connection_goes_with_its_batch, false },
};

int main(void)
{
	static const struct nic_device plain, native = { .native_atomic_write = true };
	int failed = 0;

	arena_new();
	NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED));
	for (int device = 0; device < 2; device++) {
		nic_set_device(device ? &native : &plain);
		world_new(&world, NULL);
		for (size_t i = 0; i < COUNT(all); i++) {
			if (device && all[i].plain_only)
				continue;
			wrong = 0;
			doing = case_now = all[i].name;
			all[i].run();
			printf("%s %s%s\n", wrong ? "FAIL" : "ok  ", doing, device ? ", native" : "");
			failed += wrong > 0;
		}
		world_delete(&world);
	}
	nic_set_device(&plain);
	return failed > 0;
}
