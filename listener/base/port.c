/* port.c reads socket addresses of IPv4 and IPv6. */
#include "base/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

int port_of(const struct sockaddr_storage *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	memcpy(&v4, address, sizeof(v4));
	memcpy(&v6, address, sizeof(v6));
	if (address->ss_family == AF_INET6)
		return ntohs(v6.sin6_port);
	return address->ss_family == AF_INET ? ntohs(v4.sin_port) : 0;
}

int port_of_socket(int fd)
{
	struct sockaddr_storage own = {0};
	socklen_t len = sizeof(own);

	return getsockname(fd, (struct sockaddr *)&own, &len) ? -1 : port_of(&own);
}

uint64_t port_peer_key(int fd)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
	uint64_t key = 0;
	uint32_t v4;

	if (getpeername(fd, (struct sockaddr *)&peer, &len))
		return 0;
	if (peer.ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(v6)) {
		memcpy(&key, v6, sizeof(key));
		return key ? key : 1; /* ::1 begins with 64 zero bits */
	}
	if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6)
		return 0;
	if (peer.ss_family == AF_INET)
		memcpy(&v4, &((const struct sockaddr_in *)&peer)->sin_addr, sizeof(v4));
	else
		memcpy(&v4, v6->s6_addr + 12, sizeof(v4));
	return UINT64_C(0xffff) << 32 | v4;
}

const char *port_key_text(uint64_t key, char *room)
{
	struct in6_addr v6 = {0};
	uint32_t v4 = (uint32_t)key;

	memcpy(&v6, &key, sizeof(key));
	if (!key)
		return NULL;
	return key >> 32 == 0xffff ? inet_ntop(AF_INET, &v4, room, PORT_KEY_TEXT)
				   : inet_ntop(AF_INET6, &v6, room, PORT_KEY_TEXT);
}
