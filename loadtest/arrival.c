/* arrival.c asks the kernel. It is a separate file because <linux/tcp.h>, which has the byte count,
 * conflicts with <netinet/tcp.h>, which libwebsockets includes. */
#include "arrival.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct arrival arrival_of(int socket)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &len))
		return (struct arrival){0, true};
	return (struct arrival){info.tcpi_bytes_acked, !info.tcpi_notsent_bytes && !info.tcpi_unacked};
}
