/*
 * rpma-writer ADDR PORT rate|latency WRITES [EVERY]
 *
 * Writes 8 bytes atomically, WRITES times, round the 64 words that `farword perf
 * ... --serve` at ADDR PORT tells of, through librpma. `rate` keeps up to 64 in
 * flight, every EVERYth of them (1) with a completion; `latency` waits for each.
 * Prints one line: the nanoseconds that a write took on average.
 *
 * Exit status: 0; 1 with a reason on stderr; 3 out of time.
 */
#include <time.h>

#include "peer.h"

#define WORDS 64
#define DEPTH 64
#define DESCRIPTOR_BYTES 21

static struct rpma_conn *connection;
static struct rpma_cq *completions;

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Takes completions out, at least one, and says up to which write they reach. */
static uint64_t
collect(void)
{
	struct ibv_wc wc[DEPTH];
	int got = 0, result;

	do
		result = rpma_cq_get_wc(completions, DEPTH, wc, &got);
	while (result == RPMA_E_NO_COMPLETION);
	must(result, "collecting completions");
	for (int i = 0; i < got; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			die("a write failed: %s", ibv_wc_status_str(wc[i].status));
	return wc[got - 1].wr_id;
}

static void
put(struct rpma_mr_remote *words, uint64_t number, int flags)
{
	uint64_t word = number;

	must(rpma_atomic_write(connection, words, number % WORDS * 8, (const char *)&word, flags,
			       (const void *)(uintptr_t)number),
	     "posting a write");
}

int
main(int argc, char **argv)
{
	if (argc != 5 && argc != 6) {
		fprintf(stderr, "usage: %s ADDR PORT rate|latency WRITES [EVERY]\n", argv[0]);
		return 2;
	}
	start_clock("rpma-writer");
	int one_by_one = strcmp(argv[3], "latency") == 0;
	uint64_t every = argc == 6 && !one_by_one ? strtoul(argv[5], NULL, 0) : 1;
	uint64_t writes = strtoul(argv[4], NULL, 0);
	if (every < 1 || every > DEPTH / 2 || writes == 0)
		die("EVERY must be 1 to %d, and there must be writes", DEPTH / 2);
	writes -= writes % every;

	struct ibv_context *device = NULL;
	struct rpma_peer *peer = NULL;
	struct rpma_conn_cfg *config = NULL;
	struct rpma_conn_req *request = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	must(rpma_utils_get_ibv_context(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &device),
	     "finding a device that leads to the address");
	must(rpma_peer_new(device, &peer), "opening the device");
	must(rpma_conn_cfg_new(&config), "making a configuration");
	must(rpma_conn_cfg_set_sq_size(config, DEPTH), "setting the depth");
	must(rpma_conn_cfg_set_cq_size(config, DEPTH), "setting the depth");
	must(rpma_conn_req_new(peer, argv[1], argv[2], config, &request), "preparing to connect");
	must(rpma_conn_req_connect(&request, NULL, &connection), "connecting");
	must(rpma_conn_next_event(connection, &event), "waiting for the connection");
	if (event != RPMA_CONN_ESTABLISHED)
		die("no connection to %s port %s: %s", argv[1], argv[2], event_name(event));
	must(rpma_conn_get_cq(connection, &completions), "getting the completion queue");

	struct rpma_conn_private_data said = {0};
	struct rpma_mr_remote *words = NULL;
	must(rpma_conn_get_private_data(connection, &said), "reading the private data");
	if (said.ptr == NULL || said.len < DESCRIPTOR_BYTES)
		die("the peer tells of no words");
	must(rpma_mr_remote_from_descriptor(said.ptr, DESCRIPTOR_BYTES, &words),
	     "reading the descriptor");

	double begin = now();
	if (one_by_one) {
		for (uint64_t n = 0; n < writes; n++) {
			put(words, n, RPMA_F_COMPLETION_ALWAYS);
			collect();
		}
	} else {
		uint64_t done = 0; /* all below are confirmed */
		for (uint64_t n = 0; n < writes; n++) {
			while (n - done >= DEPTH)
				done = collect() + 1;
			put(words, n, n % every == every - 1 ? RPMA_F_COMPLETION_ALWAYS
							      : RPMA_F_COMPLETION_ON_ERROR);
		}
		while (done < writes)
			done = collect() + 1;
	}
	printf("%.1f\n", (now() - begin) / (double)writes);

	must(rpma_conn_disconnect(connection), "disconnecting");
	must(rpma_mr_remote_delete(&words), "forgetting the words");
	must(rpma_conn_delete(&connection), "deleting the connection");
	must(rpma_conn_cfg_delete(&config), "deleting the configuration");
	must(rpma_peer_delete(&peer), "closing the device");
	return 0;
}
