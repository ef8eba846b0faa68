/* Loopback TCP ports. */
#include "port.h"
#include "support.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

/* Below the kernel's range for outgoing connections, so that no other connection takes a port between its reservation
 * and its use. */
#define PORT_FIRST 20000
#define PORT_COUNT 10000

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

/* Reserves the name "port n" among all processes of this machine with an abstract unix socket, which vanishes with the
 * process. The descriptor stays open until then. */
static bool is_held_by_us(int port)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "wsonce-test-port-%d", port);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);

	if (bind(fd, (struct sockaddr *)&name, size) == 0)
		return true;
	close(fd);
	return false;
}

static bool is_free(int port)
{
	struct sockaddr_in addr = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok = bind(fd, (struct sockaddr *)&addr, sizeof addr) == 0;

	close(fd);
	return ok;
}

int port_reserve(void)
{
	static unsigned next;

	if (!next)
		next = (unsigned)getpid() * 37u + 1;
	for (int tries = 0; tries < PORT_COUNT; tries++) {
		int port = PORT_FIRST + (int)(next++ % PORT_COUNT);

		if (is_held_by_us(port) && is_free(port))
			return port;
	}
	cr_assert_fail("no free loopback port from %d to %d", PORT_FIRST, PORT_FIRST + PORT_COUNT - 1);
	return -1;
}

int port_listen(int port)
{
	struct sockaddr_in addr = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (struct sockaddr *)&addr, sizeof addr) == -1 || listen(fd, 1024) == -1)
		cr_assert_fail("cannot listen on 127.0.0.1:%d: %s", port, strerror(errno));
	return fd;
}

/* Does the pending connect on fd succeed by end_ms? If not, errno says why. */
static bool is_connected(int fd, int64_t end_ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t size = sizeof error;

	if (poll(&pfd, 1, wait_left_ms(end_ms)) < 1) {
		errno = ETIMEDOUT;
		return false;
	}
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	errno = error;
	return error == 0;
}

int port_connect(int port, int deadline_ms)
{
	struct sockaddr_in addr = loopback(port);
	int64_t end = wait_end_ms(deadline_ms);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, error;

	if (fd == -1)
		cr_assert_fail("cannot make a socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
		return fd;
	if (errno == EINPROGRESS && is_connected(fd, end))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int port_connect_from(const char *address, int port)
{
	struct sockaddr_in own = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, address, &own.sin_addr);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	to.sin_port = htons((uint16_t)port);
	cr_assert_eq(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}
