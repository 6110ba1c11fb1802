/* Addresses and connections: the calls of librdmacm, within one process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

#define PRIVATE_DATA_MAX 56            /* from the active side, of an RDMA_PS_TCP connection */

static uint16_t next_port = 40000;

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
	for (struct id *other = nic_ids; other; other = other->next)
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
	nic_emit(id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0);
	return 0;
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *to, int timeout_ms)
{
	nic_note("resolve_route(%d ms)", timeout_ms);
	if (failed(NIC_resolve_route))
		return -1;
	nic_emit((struct id *)to, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
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
	struct id *id = (struct id *)from, *listener = nic_ids;

	note_param("connect", param);
	if (failed(NIC_connect))
		return -1;
	if (param->private_data_len > PRIVATE_DATA_MAX)
		return refuse(EINVAL);
	pthread_mutex_lock(&nic_lock);
	while (listener && (!listener->listening || listener->port != id->port))
		listener = listener->next;
	if (listener) {
		struct id *theirs = nic_new_id(listener->verbs.channel, listener->verbs.context, RDMA_PS_TCP);

		theirs->verbs.verbs = nic_context();
		theirs->verbs.port_num = 1;
		theirs->peer = id;
		id->peer = theirs;
		nic_emit(theirs, listener, RDMA_CM_EVENT_CONNECT_REQUEST, param->private_data,
		     param->private_data_len);
	} else {
		nic_emit(id, NULL, RDMA_CM_EVENT_REJECTED, NULL, 0);
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
	nic_emit(id, NULL, RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
	nic_emit(peer, NULL, RDMA_CM_EVENT_ESTABLISHED, param->private_data, param->private_data_len);
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
		nic_emit(id->peer, NULL, RDMA_CM_EVENT_REJECTED, data, len);
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
		nic_hang_up(id);
		if (queues(id))
			nic_flush_qp(queues(id));
		nic_emit(id, NULL, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	}
	pthread_mutex_unlock(&nic_lock);
	return 0;
}
