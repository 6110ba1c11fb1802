/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * publish server ADDRESS PORT         shows a region, and the word once it is over
 * publish client ADDRESS PORT TEXT    writes TEXT there, then the word that says
 *                                     how long it is: four requests, one doorbell
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farword_rpma.h>
#include <librpma.h>

#define REGION 4096
#define WORD 0 /* where the word is */
#define DATA 8 /* where the text begins */

/* Ends the program where a call failed. */
static void must(int code, const char *what)
{
	if (code) {
		fprintf(stderr, "publish: %s: %s\n", what, rpma_err_2str(code));
		exit(1);
	}
}

static void expect(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	must(rpma_conn_next_event(conn, &event), "waiting for an event");
	if (event != wanted) {
		fprintf(stderr, "publish: %s\n", rpma_utils_conn_event_2str(event));
		exit(1);
	}
}

static struct rpma_peer *peer_for(const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *device = NULL;
	struct rpma_peer *peer = NULL;

	must(rpma_utils_get_ibv_context(address, type, &device), "finding the device");
	must(rpma_peer_new(device, &peer), "making a peer");
	return peer;
}

static char *region(struct rpma_peer *peer, int usage, struct rpma_mr_local **mr)
{
	char *memory = aligned_alloc(REGION, REGION);

	if (!memory)
		must(RPMA_E_NOMEM, "the region");
	memset(memory, 0, REGION);
	must(rpma_mr_reg(peer, memory, REGION, usage, mr), "registering memory");
	return memory;
}

static void serve(const char *address, const char *port)
{
	struct rpma_peer *peer = peer_for(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_mr_local *mr = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *request = NULL;
	struct rpma_conn *conn = NULL;
	char descriptor[32];
	size_t size = 0;
	uint64_t length;
	char *memory = region(peer, RPMA_MR_USAGE_WRITE_DST |
			RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr);

	must(rpma_mr_get_descriptor_size(mr, &size), "the descriptor's size");
	must(rpma_mr_get_descriptor(mr, descriptor), "the descriptor");
	struct rpma_conn_private_data told = { descriptor, (uint8_t)size };

	must(rpma_ep_listen(peer, address, port, &ep), "listening");
	must(rpma_ep_next_conn_req(ep, NULL, &request), "waiting for a peer");
	must(rpma_conn_req_connect(&request, &told, &conn), "accepting");
	expect(conn, RPMA_CONN_ESTABLISHED);
	expect(conn, RPMA_CONN_CLOSED);
	must(rpma_conn_disconnect(conn), "closing");
	memcpy(&length, memory + WORD, sizeof(length));
	if (length > REGION - DATA)
		length = 0;
	printf("%.*s\n", (int)length, memory + DATA);

	must(rpma_conn_delete(&conn), "deleting the connection");
	must(rpma_ep_shutdown(&ep), "ending to listen");
	must(rpma_mr_dereg(&mr), "ending the registration");
	must(rpma_peer_delete(&peer), "deleting the peer");
	free(memory);
}

/* The text, a flush, the word, a flush that is waited for. */
static void publish(struct rpma_conn *conn, struct rpma_mr_remote *there,
		struct rpma_mr_local *here, size_t length)
{
	uint64_t word = length;
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc;
	int code;

	must(farword_batch_begin(conn), "beginning a batch");
	must(rpma_write(conn, there, DATA, here, 0, length, RPMA_F_COMPLETION_ON_ERROR, NULL),
			"the text");
	must(rpma_flush(conn, there, DATA, length, RPMA_FLUSH_TYPE_VISIBILITY,
			RPMA_F_COMPLETION_ON_ERROR, NULL), "its flush");
	must(rpma_atomic_write(conn, there, WORD, (const char *)&word,
			RPMA_F_COMPLETION_ON_ERROR, NULL), "the word");
	must(rpma_flush(conn, there, WORD, sizeof(word), RPMA_FLUSH_TYPE_VISIBILITY,
			RPMA_F_COMPLETION_ALWAYS, "last"), "its flush");
	must(farword_batch_end(conn, NULL), "the doorbell");

	must(rpma_conn_get_cq(conn, &cq), "the completion queue");
	do {
		must(rpma_cq_wait(cq), "waiting for a completion");
		code = rpma_cq_get_wc(cq, 1, &wc, NULL);
	} while (code == RPMA_E_NO_COMPLETION);
	must(code, "taking a completion");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "publish: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void ask(const char *address, const char *port, const char *text)
{
	struct rpma_peer *peer = peer_for(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_mr_local *here = NULL;
	struct rpma_mr_remote *there = NULL;
	struct rpma_conn_req *request = NULL;
	struct rpma_conn *conn = NULL;
	struct rpma_conn_private_data told = { NULL, 0 };
	size_t length = strlen(text) < REGION - DATA ? strlen(text) : REGION - DATA;
	char *memory = region(peer, RPMA_MR_USAGE_WRITE_SRC, &here);

	memcpy(memory, text, length);
	must(rpma_conn_req_new(peer, address, port, NULL, &request), "finding the way");
	must(rpma_conn_req_connect(&request, NULL, &conn), "connecting");
	expect(conn, RPMA_CONN_ESTABLISHED);
	must(rpma_conn_get_private_data(conn, &told), "what the server sent");
	must(rpma_mr_remote_from_descriptor(told.ptr, told.len, &there), "the server's region");

	publish(conn, there, here, length);

	must(rpma_conn_disconnect(conn), "closing");
	expect(conn, RPMA_CONN_CLOSED);
	must(rpma_mr_remote_delete(&there), "forgetting the region");
	must(rpma_conn_delete(&conn), "deleting the connection");
	must(rpma_mr_dereg(&here), "ending the registration");
	must(rpma_peer_delete(&peer), "deleting the peer");
	free(memory);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "server"))
		serve(argv[2], argv[3]);
	else if (argc == 5 && !strcmp(argv[1], "client"))
		ask(argv[2], argv[3], argv[4]);
	else {
		fprintf(stderr, "usage: publish server ADDRESS PORT\n"
				"       publish client ADDRESS PORT TEXT\n");
		return 2;
	}
	return 0;
}
