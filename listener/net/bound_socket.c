/* bound_socket.c turns an address from the settings into a bound socket. */
#include "net/bound_socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/url.h"

static int close_failed(int fd)
{
	int error = errno;

	close(fd);
	errno = error;
	return -1;
}

static int bind_path(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat found;
	mode_t mask;
	int fd, failed;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	unlink(path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	mask = umask(0117);
	failed = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	return failed ? close_failed(fd) : fd;
}

static int bind_at(const struct addrinfo *at)
{
	int on = 1, off = 0;
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	return bind(fd, at->ai_addr, at->ai_addrlen) ? close_failed(fd) : fd;
}

static int bind_host(const char *host, int port)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *all = NULL;
	char service[12];
	int fd = -1, failed;

	snprintf(service, sizeof(service), "%d", port);
	failed = getaddrinfo(host, service, &hints, &all);
	if (failed == EAI_MEMORY)
		memory_exhausted("libc", 0);
	if (failed) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (const struct addrinfo *at = all; at && fd < 0; at = at->ai_next)
		fd = bind_at(at);
	freeaddrinfo(all);
	return fd;
}

/* * and :: include IPv4, and work on hosts without IPv6. */
static int bind_tcp(const struct url *url)
{
	const char *host = strcmp(url->host, "localhost") == 0 ? "127.0.0.1" : url->host;
	bool is_any = strcmp(host, "*") == 0 || strcmp(host, "::") == 0;
	int fd = bind_host(is_any ? "::" : host, url->port);

	return fd < 0 && is_any ? bind_host("0.0.0.0", url->port) : fd;
}

int bound_socket(const char *address)
{
	struct url url = {0};
	int fd = -1;

	if (strncmp(address, "unix:", 5) == 0)
		return bind_path(address + 5);
	errno = ENOMEM;
	if (url_parse_address(&url, address) == 0)
		fd = bind_tcp(&url);
	url_clear(&url);
	return fd;
}

const char *bound_socket_error(int error)
{
	return error == EEXIST ? "a file of this name exists and is not a socket" : strerror(error);
}

int listening_socket(const char *flag, const char *address, char *error, size_t size)
{
	int fd = bound_socket(address);

	if (fd >= 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	snprintf(error, size, "%s: cannot listen on %s: %s", flag, address, bound_socket_error(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}
