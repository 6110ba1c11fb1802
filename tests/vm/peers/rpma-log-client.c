/*
 * rpma-log-client ADDR PORT --stdin | WORDS...
 *
 * Appends each line of stdin, or each word, to the log at ADDR PORT. Per
 * record: write the bytes and a NUL at `used`, flush them, write the new `used`
 * atomically, flush that, and wait for this last one.
 *
 * Exit status: 0 all records are in; 1 with a reason on stderr; 3 out of time.
 */
#include <poll.h>

#include "peer.h"

#define RECORD_MAX 65536

static struct rpma_conn *connection;
static struct rpma_cq *completions;

/* Waits for the one completion that is due and checks it. */
static void
await(const void *context, const char *step)
{
	int completion_fd, event_fd;
	struct ibv_wc completion;
	int result;

	must(rpma_cq_get_fd(completions, &completion_fd), "getting the completions' fd");
	must(rpma_conn_get_event_fd(connection, &event_fd), "getting the events' fd");
	while ((result = rpma_cq_get_wc(completions, 1, &completion, NULL)) ==
	       RPMA_E_NO_COMPLETION) {
		struct pollfd sources[2] = {{.fd = completion_fd, .events = POLLIN},
					    {.fd = event_fd, .events = POLLIN}};
		if (poll(sources, 2, -1) < 0)
			die("poll: %s", strerror(errno));
		if (sources[0].revents != 0) {
			must(rpma_cq_wait(completions), "waiting for a completion");
		} else if (sources[1].revents != 0) {
			/* A dead peer is seen here alone: no completion need come. */
			enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
			must(rpma_conn_next_event(connection, &event), "reading an event");
			die("%s: the connection ended: %s", step, event_name(event));
		}
	}
	must(result, "collecting a completion");
	if (completion.status != IBV_WC_SUCCESS)
		die("%s failed: %s (status %d)", step, ibv_wc_status_str(completion.status),
		    completion.status);
	if (completion.wr_id != (uint64_t)(uintptr_t)context)
		die("%s: the completion has a context that was never given: 0x%llx", step,
		    (unsigned long long)completion.wr_id);
}

int
main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: %s ADDR PORT --stdin | WORDS...\n", argv[0]);
		return 2;
	}
	start_clock("rpma-log-client");

	/* The first 8 bytes take `used`, the rest is the record being sent. */
	void *memory;
	if (posix_memalign(&memory, 4096, 8 + RECORD_MAX) != 0)
		die("out of memory");
	uint8_t *buffer = memory;

	struct ibv_context *device = NULL;
	struct rpma_peer *peer = NULL;
	struct rpma_mr_local *local = NULL;
	struct rpma_conn_req *request = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	must(rpma_utils_get_ibv_context(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &device),
	     "finding a device that leads to the address");
	must(rpma_peer_new(device, &peer), "opening the device");
	must(rpma_mr_reg(peer, buffer, 8 + RECORD_MAX,
			 RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC, &local),
	     "registering the buffer");
	must(rpma_conn_req_new(peer, argv[1], argv[2], NULL, &request), "preparing to connect");
	must(rpma_conn_req_connect(&request, NULL, &connection), "connecting");
	must(rpma_conn_next_event(connection, &event), "waiting for the connection");
	if (event != RPMA_CONN_ESTABLISHED)
		die("no connection to %s port %s: %s", argv[1], argv[2], event_name(event));
	must(rpma_conn_get_cq(connection, &completions), "getting the completion queue");

	/* What the server said: transport padding may make it longer than sent. */
	struct rpma_conn_private_data said = {0};
	struct hello hello;
	must(rpma_conn_get_private_data(connection, &said), "reading the private data");
	if (said.ptr == NULL || said.len < sizeof(hello))
		die("the server sent %u bytes of private data, not 28", said.len);
	memcpy(&hello, said.ptr, sizeof(hello));
	if (hello.region_bytes + hello.config_bytes > (int)sizeof(hello.descriptors))
		die("descriptors of %u and %u bytes do not fit the private data",
		    hello.region_bytes, hello.config_bytes);

	struct rpma_mr_remote *log = NULL;
	size_t size = 0;
	int flush_types = 0;
	must(rpma_mr_remote_from_descriptor(hello.descriptors, hello.region_bytes, &log),
	     "reading the region's descriptor");
	must(rpma_mr_remote_get_size(log, &size), "reading the region's size");
	must(rpma_mr_remote_get_flush_type(log, &flush_types), "reading the flush types");
	enum rpma_flush_type flush_type = RPMA_FLUSH_TYPE_VISIBILITY;
	if (flush_types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) {
		/* Allowed only where the server is known to write straight to pmem:
		 * its configuration says so or, in a log's hello without one, it is
		 * taken for granted. */
		struct rpma_peer_cfg *config = NULL;
		flush_type = RPMA_FLUSH_TYPE_PERSISTENT;
		if (hello.config_bytes != 0) {
			must(rpma_peer_cfg_from_descriptor(hello.descriptors + hello.region_bytes,
							   hello.config_bytes, &config),
			     "reading the peer's configuration");
		} else {
			must(rpma_peer_cfg_new(&config), "making a peer configuration");
			must(rpma_peer_cfg_set_direct_write_to_pmem(config, true),
			     "configuring the peer");
		}
		must(rpma_conn_apply_remote_peer_cfg(connection, config),
		     "applying the peer's configuration");
		must(rpma_peer_cfg_delete(&config), "deleting a peer configuration");
	}

	uint64_t used;
	must(rpma_read(connection, local, 0, log, hello.used_at, sizeof(used),
		       RPMA_F_COMPLETION_ALWAYS, &used),
	     "posting the read of `used`");
	await(&used, "reading `used`");
	memcpy(&used, buffer, sizeof(used));
	if (used < hello.used_at + sizeof(used) || used > size)
		die("`used` is %llu in a log of %zu bytes", (unsigned long long)used, size);

	int from_stdin = strcmp(argv[3], "--stdin") == 0;
	char *line = NULL;
	size_t line_room = 0;
	unsigned long records = 0;
	for (int word = 3;; word++) {
		const char *text;
		size_t length;

		if (from_stdin) {
			ssize_t got = getline(&line, &line_room, stdin);
			if (got < 0)
				break;
			if (got > 0 && line[got - 1] == '\n')
				line[--got] = '\0';
			text = line;
			length = (size_t)got;
		} else {
			if (word == argc)
				break;
			text = argv[word];
			length = strlen(text);
		}
		if (memchr(text, '\0', length) != NULL)
			die("record %lu has a NUL in it", records + 1);
		if (length + 1 > RECORD_MAX)
			die("record %lu is longer than %d bytes", records + 1, RECORD_MAX - 1);
		if (length + 1 > size - used)
			die("the log is full: record %lu takes %zu bytes, %llu are free",
			    records + 1, length + 1, (unsigned long long)(size - used));

		memcpy(buffer + 8, text, length);
		buffer[8 + length] = '\0';
		must(rpma_write(connection, log, used, local, 8, length + 1,
				RPMA_F_COMPLETION_ON_ERROR, NULL),
		     "posting a record");
		must(rpma_flush(connection, log, used, length + 1, flush_type,
				RPMA_F_COMPLETION_ON_ERROR, NULL),
		     "posting a record's flush");
		used += length + 1;
		must(rpma_atomic_write(connection, log, hello.used_at, (const char *)&used,
				       RPMA_F_COMPLETION_ON_ERROR, NULL),
		     "posting the atomic write");
		must(rpma_flush(connection, log, hello.used_at, sizeof(used), flush_type,
				RPMA_F_COMPLETION_ALWAYS, &used),
		     "posting the last flush");
		await(&used, "appending a record");
		records++;
	}
	if (from_stdin && ferror(stdin))
		die("cannot read stdin");
	free(line);

	must(rpma_conn_disconnect(connection), "disconnecting");
	must(rpma_conn_next_event(connection, &event), "waiting for the end");
	if (event != RPMA_CONN_CLOSED)
		die("the connection did not close: %s", event_name(event));
	must(rpma_mr_remote_delete(&log), "forgetting the log");
	must(rpma_conn_delete(&connection), "deleting the connection");
	must(rpma_mr_dereg(&local), "giving the buffer back");
	must(rpma_peer_delete(&peer), "closing the device");
	free(memory);
	fprintf(stderr, "%s: %lu records, used %llu\n", self, records, (unsigned long long)used);
	return 0;
}
