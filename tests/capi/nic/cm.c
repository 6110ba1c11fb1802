/* The connection manager: the calls of librdmacm, within one process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

#define PRIVATE_DATA_MAX 56            /* of an RDMA_PS_TCP connection, from the active side */

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

static struct id *ids;
static uint16_t next_port = 40000;

static struct nic_qp *queues(const struct id *id)
{
	return (struct nic_qp *)id->verbs.qp;
}

static int failed(enum nic_call call)
{
	int error;

	if (!nic_fails(call, &error))
		return 0;
	errno = error;
	return -1;
}

static int refuse(int error)
{
	errno = error;
	return -1;
}

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

static void emit(struct id *id, struct id *listener, int type, const void *data, uint8_t len)
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
	struct id *id = ids;

	while (id && id->verbs.qp != qp)
		id = id->next;
	return id;
}

EXPORT void nic_cm_event(struct ibv_qp *qp, int type, const void *private_data, uint8_t len)
{
	pthread_mutex_lock(&nic_lock);
	emit(owner(qp), NULL, type, private_data, len);
	pthread_mutex_unlock(&nic_lock);
}

EXPORT void nic_listener_event(struct ibv_qp *qp, int type)
{
	struct id *listener = ids;

	while (listener && !listener->listening)
		listener = listener->next;
	if (listener)
		emit(qp ? owner(qp) : listener, listener, type, NULL, 0);
}

/* ---- ids ------------------------------------------------------------------ */

static struct id *new_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct id *id = nic_alloc(sizeof(*id));

	id->verbs.channel = channel;
	id->verbs.context = context;
	id->verbs.ps = ps;
	id->next = ids;
	ids = id;
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
	*out = &new_id(channel, context, ps)->verbs;
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

static void hang_up(struct id *id)
{
	struct id *peer = id->peer;

	if (peer && !id->over && !peer->over) {
		id->over = peer->over = true;
		if (queues(peer))
			nic_flush_qp(queues(peer));
		emit(peer, NULL, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	}
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *gone)
{
	struct id *id = (struct id *)gone;

	pthread_mutex_lock(&nic_lock);
	hang_up(id);
	if (id->peer)
		id->peer->peer = NULL;
	for (struct id **at = &ids; *at; at = &(*at)->next)
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

/* ---- addresses ------------------------------------------------------------ */

static struct sockaddr *address(const char *node, uint16_t port)
{
	struct sockaddr_in *four = nic_alloc(sizeof(struct sockaddr_in6));
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)four;

	if (inet_pton(AF_INET, node, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, node, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
	} else {
		nic_release(four);
		return NULL;
	}
	return (struct sockaddr *)four;
}

/* Numeric addresses alone, and the name "localhost". */
EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **out)
{
	bool passive = hints && hints->ai_flags & RAI_PASSIVE;
	char *end = NULL;
	unsigned long port = service ? strtoul(service, &end, 10) : 0;
	int error;

	nic_note("getaddrinfo(%s, %s, flags %#x, type %d, port space %#x)", node ? node : "NULL",
		 service ? service : "NULL", hints ? hints->ai_flags : 0,
		 hints ? hints->ai_qp_type : 0, hints ? hints->ai_port_space : 0);
	if (nic_fails(NIC_getaddrinfo, &error)) {
		errno = error < 0 ? errno : error;
		return error < 0 ? error : -1;
	}
	if (service && (!*service || *end || port > 65535))
		return EAI_SERVICE;
	struct sockaddr *of =
		address(node && !strcmp(node, "localhost") ? "127.0.0.1" : node ? node : "0.0.0.0",
			(uint16_t)port);

	if (!of)
		return EAI_NONAME;
	struct rdma_addrinfo *info = nic_alloc(sizeof(*info));

	info->ai_flags = hints ? hints->ai_flags : 0;
	info->ai_family = of->sa_family;
	info->ai_qp_type = IBV_QPT_RC;
	info->ai_port_space = RDMA_PS_TCP;
	socklen_t len = of->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						 : sizeof(struct sockaddr_in6);
	if (passive) {
		info->ai_src_addr = of;
		info->ai_src_len = len;
	} else {
		info->ai_dst_addr = of;
		info->ai_dst_len = len;
	}
	nic_alive.infos++;
	*out = info;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
	nic_release(info->ai_src_addr);
	nic_release(info->ai_dst_addr);
	nic_release(info);
	nic_alive.infos--;
}

static const char *shown(const struct sockaddr *of, uint16_t *port)
{
	static char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *four = (const void *)of;
	const struct sockaddr_in6 *six = (const void *)of;

	*port = 0;
	if (!of)
		return "none";
	*port = ntohs(of->sa_family == AF_INET ? four->sin_port : six->sin6_port);
	inet_ntop(of->sa_family,
		  of->sa_family == AF_INET ? (const void *)&four->sin_addr : &six->sin6_addr, text,
		  sizeof(text));
	return text;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *to, struct sockaddr *addr)
{
	struct id *id = (struct id *)to;
	const char *text = shown(addr, &id->port);

	nic_note("bind_addr(%s, %u)", text, id->port);
	if (failed(NIC_bind_addr))
		return -1;
	for (struct id *other = ids; other; other = other->next)
		if (other != id && other->listening && id->port && other->port == id->port)
			return refuse(EADDRINUSE);
	if (!id->port)
		id->port = next_port++;
	to->verbs = nic_context();
	to->port_num = 1;
	memcpy(&to->route.addr.src_addr, addr,
	       addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	return 0;
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *to, struct sockaddr *from, struct sockaddr *addr,
			     int timeout_ms)
{
	struct id *id = (struct id *)to;
	uint16_t none;
	char source[INET6_ADDRSTRLEN];

	strcpy(source, shown(from, &none));
	const char *text = shown(addr, &id->port);

	nic_note("resolve_addr(from %s, to %s, %u, %d ms)", source, text, id->port, timeout_ms);
	if (failed(NIC_resolve_addr))
		return -1;
	to->verbs = nic_context();
	to->port_num = 1;
	memcpy(&to->route.addr.dst_addr, addr,
	       addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	emit(id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	return 0;
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *to, int timeout_ms)
{
	nic_note("resolve_route(%d ms)", timeout_ms);
	if (failed(NIC_resolve_route))
		return -1;
	emit((struct id *)to, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
	return 0;
}

EXPORT int rdma_listen(struct rdma_cm_id *to, int backlog)
{
	nic_note("listen(backlog %d)", backlog);
	if (failed(NIC_listen))
		return -1;
	((struct id *)to)->listening = true;
	return 0;
}

/* ---- connections ---------------------------------------------------------- */

static void note_param(const char *what, const struct rdma_conn_param *param)
{
	char bytes[128] = "";

	for (int i = 0; param && param->private_data && i < param->private_data_len && i < 60; i++)
		snprintf(bytes + 2 * i, 3, "%02x", ((const uint8_t *)param->private_data)[i]);
	if (param)
		nic_note("%s(resources %u, depth %u, flow %u, retry %u, rnr %u, data %u: %s)", what,
			 param->responder_resources, param->initiator_depth, param->flow_control,
			 param->retry_count, param->rnr_retry_count, param->private_data_len, bytes);
	else
		nic_note("%s(nothing)", what);
}

EXPORT int rdma_connect(struct rdma_cm_id *from, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)from, *listener = ids;

	note_param("connect", param);
	if (failed(NIC_connect))
		return -1;
	if (param->private_data_len > PRIVATE_DATA_MAX)
		return refuse(EINVAL);
	pthread_mutex_lock(&nic_lock);
	while (listener && (!listener->listening || listener->port != id->port))
		listener = listener->next;
	if (listener) {
		struct id *theirs = new_id(listener->verbs.channel, listener->verbs.context, RDMA_PS_TCP);

		theirs->verbs.verbs = nic_context();
		theirs->verbs.port_num = 1;
		theirs->peer = id;
		id->peer = theirs;
		emit(theirs, listener, RDMA_CM_EVENT_CONNECT_REQUEST, param->private_data,
		     param->private_data_len);
	} else {
		emit(id, NULL, RDMA_CM_EVENT_REJECTED, NULL, 0);
	}
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

EXPORT int rdma_accept(struct rdma_cm_id *from, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)from, *peer = id->peer;

	note_param("accept", param);
	if (failed(NIC_accept))
		return -1;
	if (!peer || !queues(peer) || !queues(id))
		return refuse(EINVAL);
	pthread_mutex_lock(&nic_lock);
	queues(id)->peer = queues(peer);
	queues(peer)->peer = queues(id);
	queues(id)->connected = queues(peer)->connected = true;
	id->verbs.qp->state = peer->verbs.qp->state = IBV_QPS_RTS;
	emit(id, NULL, RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
	emit(peer, NULL, RDMA_CM_EVENT_ESTABLISHED, param->private_data, param->private_data_len);
	pthread_mutex_unlock(&nic_lock);
	return 0;
}

EXPORT int rdma_reject(struct rdma_cm_id *from, const void *data, uint8_t len)
{
	struct id *id = (struct id *)from;

	nic_note("reject(%u bytes)", len);
	if (failed(NIC_reject))
		return -1;
	if (id->peer)
		emit(id->peer, NULL, RDMA_CM_EVENT_REJECTED, data, len);
	id->over = true;
	return 0;
}

EXPORT int rdma_disconnect(struct rdma_cm_id *from)
{
	struct id *id = (struct id *)from;

	nic_note("disconnect()");
	if (failed(NIC_disconnect))
		return -1;
	pthread_mutex_lock(&nic_lock);
	if (!id->over) {
		hang_up(id);
		if (queues(id))
			nic_flush_qp(queues(id));
		emit(id, NULL, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	}
	pthread_mutex_unlock(&nic_lock);
	return 0;
}
