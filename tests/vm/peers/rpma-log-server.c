/*
 * rpma-log-server ADDR PORT [BYTES]
 *
 * Exposes an empty log of BYTES (default 65536, header included) to one client
 * through librpma. Says "listening" on stderr once a client may come. When the
 * client has gone, prints the log's data with every NUL as a newline.
 *
 * Exit status: 0; 1 for any fault, a log that makes no sense or a lost
 * connection among them (what the log holds is printed first); 3 out of time.
 */
#include "peer.h"

int
main(int argc, char **argv)
{
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: %s ADDR PORT [BYTES]\n", argv[0]);
		return 2;
	}
	start_clock("rpma-log-server");

	size_t size = 65536;
	if (argc == 4) {
		char *end;
		size = strtoul(argv[3], &end, 0);
		if (*end != '\0' || size <= LOG_DATA_AT)
			die("%s is no size for a log", argv[3]);
	}

	void *memory;
	if (posix_memalign(&memory, 4096, size) != 0)
		die("out of memory");
	uint8_t *log = memory;
	uint64_t *used_word = (uint64_t *)(log + LOG_USED_AT);
	memset(log, 0, size);
	memcpy(log, LOG_SIGNATURE, 8);
	*used_word = LOG_DATA_AT;

	struct ibv_context *device = NULL;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *region = NULL;
	struct rpma_ep *endpoint = NULL;
	must(rpma_utils_get_ibv_context(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &device),
	     "finding the device of the address");
	must(rpma_peer_new(device, &peer), "opening the device");
	must(rpma_mr_reg(peer, log, size,
			 RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
				 RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
			 &region),
	     "registering the log");

	struct hello hello = {.used_at = LOG_USED_AT};
	size_t descriptor_bytes = 0;
	must(rpma_mr_get_descriptor_size(region, &descriptor_bytes), "sizing the descriptor");
	if (descriptor_bytes > sizeof(hello.descriptors))
		die("the descriptor takes %zu bytes, there is room for %zu", descriptor_bytes,
		    sizeof(hello.descriptors));
	hello.region_bytes = (uint8_t)descriptor_bytes;
	must(rpma_mr_get_descriptor(region, hello.descriptors), "describing the log");

	must(rpma_ep_listen(peer, argv[1], argv[2], &endpoint), "listening");
	fprintf(stderr, "%s: listening on %s port %s\n", self, argv[1], argv[2]);

	struct rpma_conn_req *request = NULL;
	struct rpma_conn *connection = NULL;
	struct rpma_conn_private_data answer = {.ptr = &hello, .len = sizeof(hello)};
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	must(rpma_ep_next_conn_req(endpoint, NULL, &request), "waiting for a client");
	must(rpma_conn_req_connect(&request, &answer, &connection), "accepting");
	must(rpma_conn_next_event(connection, &event), "waiting for the connection");
	if (event != RPMA_CONN_ESTABLISHED)
		die("no connection came about: %s", event_name(event));
	must(rpma_conn_next_event(connection, &event), "waiting for the client to go");
	must(rpma_conn_disconnect(connection), "disconnecting");

	uint64_t used = __atomic_load_n(used_word, __ATOMIC_ACQUIRE);
	if (used < LOG_DATA_AT || used > size)
		die("`used` is %llu in a log of %zu bytes", (unsigned long long)used, size);
	for (uint64_t at = LOG_DATA_AT; at < used; at++)
		putchar(log[at] != 0 ? log[at] : '\n');
	if (fflush(stdout) != 0)
		die("cannot print");
	if (memcmp(log, LOG_SIGNATURE, 8) != 0)
		die("the signature was overwritten");
	if (event != RPMA_CONN_CLOSED)
		die("the connection was not closed: %s", event_name(event));

	must(rpma_conn_delete(&connection), "deleting the connection");
	must(rpma_ep_shutdown(&endpoint), "closing the endpoint");
	must(rpma_mr_dereg(&region), "giving the region back");
	must(rpma_peer_delete(&peer), "closing the device");
	free(memory);
	return 0;
}
