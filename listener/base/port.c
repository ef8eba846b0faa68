/* port.c owns where in an address the port is, for both versions of IP. */
#include "base/port.h"

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
