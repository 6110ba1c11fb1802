/* Event channels and ids: the calls of librdmacm, within one process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cm.h"

struct id *nic_ids;

/* ---- events --------------------------------------------------------------- */

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	if (failed(NIC_create_event_channel))
		return NULL;
	struct evch *evch = nic_alloc(sizeof(*evch));

	evch->verbs.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	nic_alive.event_channels++;
	return &evch->verbs;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *gone)
{
	struct evch *evch = (struct evch *)gone;

	while (evch->events.count) {
		nic_release(nic_front(evch->events));
		nic_pop(evch->events);
	}
	close(gone->fd);
	nic_release(evch->events.at);
	nic_release(evch);
	nic_alive.event_channels--;
}

void nic_emit(struct id *id, struct id *listener, int type, const void *data, uint8_t len)
{
	struct id *via = listener ? listener : id;
	struct evch *evch = (struct evch *)via->verbs.channel;
	struct event *event;
	uint64_t one = 1;

	if (!evch)
		return;
	event = nic_alloc(sizeof(*event));
	event->verbs.id = &id->verbs;
	event->verbs.listen_id = listener ? &listener->verbs : NULL;
	event->verbs.event = (enum rdma_cm_event_type)type;
	if (data && len) {
		memcpy(event->data, data, len);
		event->verbs.param.conn.private_data = event->data;
		event->verbs.param.conn.private_data_len = len;
	}
	if (nic_push(evch->events, event) && write(evch->verbs.fd, &one, sizeof(one)) < 0)
		nic_note("no event could be sent");
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *from, struct rdma_cm_event **event)
{
	struct evch *evch = (struct evch *)from;
	uint64_t one;

	if (failed(NIC_get_cm_event) || read(from->fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	pthread_mutex_lock(&nic_lock);
	*event = &nic_front(evch->events)->verbs;
	nic_pop(evch->events);
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	nic_release(event);
	return failed(NIC_ack_cm_event);
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	(void)event;
	return "an event";
}

static struct id *owner(const struct ibv_qp *qp)
{
	struct id *id = nic_ids;

	while (id && id->verbs.qp != qp)
		id = id->next;
	return id;
}

EXPORT void nic_cm_event(struct ibv_qp *qp, int type, const void *private_data, uint8_t len)
{
	pthread_mutex_lock(&nic_lock);
	nic_emit(owner(qp), NULL, type, private_data, len);
	pthread_mutex_unlock(&nic_lock);
}

EXPORT void nic_listener_event(struct ibv_qp *qp, int type)
{
	struct id *listener = nic_ids;

	while (listener && !listener->listening)
		listener = listener->next;
	if (listener)
		nic_emit(qp ? owner(qp) : listener, listener, type, NULL, 0);
}

/* ---- ids ------------------------------------------------------------------ */

struct id *nic_new_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct id *id = nic_alloc(sizeof(*id));

	id->verbs.channel = channel;
	id->verbs.context = context;
	id->verbs.ps = ps;
	id->next = nic_ids;
	nic_ids = id;
	nic_alive.ids++;
	return id;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out,
			  void *context, enum rdma_port_space ps)
{
	if (failed(NIC_create_id))
		return -1;
	if (ps != RDMA_PS_TCP)
		nic_note("create_id(port space %#x)", ps);
	pthread_mutex_lock(&nic_lock);
	*out = &nic_new_id(channel, context, ps)->verbs;
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

void nic_hang_up(struct id *id)
{
	struct id *peer = id->peer;

	if (peer && !id->over && !peer->over) {
		id->over = peer->over = true;
		if (queues(peer))
			nic_flush_qp(queues(peer));
		nic_emit(peer, NULL, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	}
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *gone)
{
	struct id *id = (struct id *)gone;

	pthread_mutex_lock(&nic_lock);
	nic_hang_up(id);
	if (id->peer)
		id->peer->peer = NULL;
	for (struct id **at = &nic_ids; *at; at = &(*at)->next)
		if (*at == id) {
			*at = id->next;
			break;
		}
	/* Its events go with it. */
	struct evch *evch = (struct evch *)gone->channel;

	for (uint32_t i = evch ? evch->events.count : 0; i > 0; i--) {
		struct event *event = nic_front(evch->events);
		uint64_t one;

		nic_pop(evch->events);
		if (event->verbs.id != gone)
			(void)nic_push(evch->events, event);
		else if (read(evch->verbs.fd, &one, sizeof(one)) == sizeof(one))
			nic_release(event);
	}
	nic_release(id);
	nic_alive.ids--;
	pthread_mutex_unlock(&nic_lock);
	return failed(NIC_destroy_id);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *moved, struct rdma_event_channel *to)
{
	if (failed(NIC_migrate_id))
		return -1;
	pthread_mutex_lock(&nic_lock);
	struct evch *from = (struct evch *)moved->channel, *into = (struct evch *)to;

	for (uint32_t i = from && into ? from->events.count : 0; i > 0; i--) {
		struct event *event = nic_front(from->events);
		uint64_t one = 1;

		nic_pop(from->events);
		if (event->verbs.id != moved)
			(void)nic_push(from->events, event);
		else if (read(from->verbs.fd, &one, sizeof(one)) == sizeof(one) &&
			 nic_push(into->events, event) &&
			 write(into->verbs.fd, &one, sizeof(one)) < 0)
			nic_note("no event could be sent");
	}
	moved->channel = to;
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	bool extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		nic_note("create_qp without a domain");
	pthread_mutex_lock(&nic_lock);
	struct nic_qp *qp = nic_new_qp(attr, extended ? attr->send_ops_flags : 0);

	if (qp) {
		qp->id = id;
		id->qp = &qp->ex.qp_base;
	}
	pthread_mutex_unlock(&nic_lock);
	return qp ? 0 : -1;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&nic_lock);
	nic_free_qp((struct nic_qp *)id->qp);
	id->qp = NULL;
	pthread_mutex_unlock(&nic_lock);
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t len)
{
	(void)id, (void)value;
	nic_note("set_option(level %d, option %d, %zu bytes)", level, option, len);
	return 0;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(((struct id *)id)->port);
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)attr, (void)mask;
	return ((struct id *)id)->over ? refuse(EINVAL) : 0;
}
