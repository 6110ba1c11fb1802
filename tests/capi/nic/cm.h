/* What the two parts of the connection manager share. */
#ifndef NIC_CM_H
#define NIC_CM_H

#include <errno.h>

#include "internal.h"

struct event {
	struct rdma_cm_event verbs;
	uint8_t data[256];
};

struct evch {
	struct rdma_event_channel verbs;
	QUEUE(struct event *) events;
};

struct id {
	struct rdma_cm_id verbs;
	struct id *peer, *next;
	bool listening, over;
	uint16_t port;
};

extern struct id *nic_ids;

struct id *nic_new_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
/* Sends an event to the channel of the id, or of the listener whose request it is. */
void nic_emit(struct id *id, struct id *listener, int type, const void *data, uint8_t len);
/* The other side hears that the connection is over. */
void nic_hang_up(struct id *id);

static inline struct nic_qp *queues(const struct id *id)
{
	return (struct nic_qp *)id->verbs.qp;
}

static inline int refuse(int error)
{
	errno = error;
	return -1;
}

static inline int failed(enum nic_call call)
{
	int error;

	return nic_fails(call, &error) ? refuse(error) : 0;
}

#endif
