/*
 * A program of two sides that talk by librpma: what all of them need.
 *
 *   PROGRAM serve ADDR PORT     one side; says "listening" when it does
 *   PROGRAM call ADDR PORT      the other
 *   PROGRAM both                both in one process, on the software NIC
 *
 * Each side checks what it got, and says so; the exit status is 1 where
 * anything was not as it must be.
 */
#ifndef FLOW_H
#define FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#define REGION_LEN 8192

struct side {
	const char *addr, *port;
	struct rpma_peer *peer;
	struct rpma_ep *ep;                    /* of the side that serves */
	char *memory;                          /* REGION_LEN bytes, page-aligned */
	struct rpma_mr_local *mr;
};

/* What a flow is: each side, from the peer to the end of the connections. */
extern const char flow_name[];
extern const int flow_usage;                   /* of either side's memory */
void flow_serve(struct side *side);
void flow_call(struct side *side);

/* This must hold, or the program ends with status 1. */
#define MUST(condition) must((condition), #condition, __FILE__, __LINE__)
#define WELL(call) well((call), #call, __FILE__, __LINE__)
void must(bool holds, const char *what, const char *file, int line);
void well(int ret, const char *what, const char *file, int line);

/* What the serving side tells of its memory: private data of its answer. */
struct rpma_conn_private_data descriptor_of(const struct side *side);
/* The caller's view of it, from the private data of an established connection. */
struct rpma_mr_remote *remote_from(const struct rpma_conn *conn);

/* Connections, established on return. */
struct rpma_conn *accept_one(struct side *side, const struct rpma_conn_cfg *cfg);
struct rpma_conn *call_one(struct side *side, const struct rpma_conn_cfg *cfg);
void await_event(struct rpma_conn *conn, enum rpma_conn_event event);
/* The calling side ends a connection; the serving side waits for that. */
void hang_up(struct rpma_conn **conn);
void await_end(struct rpma_conn **conn);

/* The next completion of the main or the receive queue, which must have gone well. */
struct ibv_wc await_wc(struct rpma_conn *conn);
struct ibv_wc await_received(struct rpma_conn *conn);
struct ibv_wc await_on(struct rpma_cq *cq);

/* Bytes that are told apart by where they lie and by a seed. */
void fill(char *at, size_t len, unsigned seed);
bool filled(const char *at, size_t len, unsigned seed);

#endif
