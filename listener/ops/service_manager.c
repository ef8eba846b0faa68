/* service_manager.c owns the conversation with systemd: datagrams to a socket, as sd_notify(3) describes them. That
 * page calls the protocol stable and small enough to be spoken without libsystemd, which would bring its own libraries
 * into each listener. */
#include "ops/service_manager.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

struct service_manager {
	int fd;
	struct sockaddr_un address;
	socklen_t length;
	uv_timer_t watchdog;
};

/* The address is a path, or a name in the abstract namespace, for which "@" stands. */
static int read_address(struct service_manager *m, const char *name)
{
	size_t len = strlen(name);

	if ((*name != '/' && *name != '@') || len < 2 || len >= sizeof(m->address.sun_path))
		return -1;
	m->address.sun_family = AF_UNIX;
	memcpy(m->address.sun_path, name, len + 1);
	if (*name == '@')
		m->address.sun_path[0] = '\0';
	m->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return 0;
}

/* How often the watchdog is told, in ms; 0 if it does not watch this process. */
static uint64_t read_interval(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!usec || (pid && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(usec, NULL, 10) / 2000;
}

static void on_watchdog(uv_timer_t *timer)
{
	service_manager_tell(timer->data, "WATCHDOG=1");
}

struct service_manager *service_manager_open(uv_loop_t *loop)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct service_manager *m;
	uint64_t interval = read_interval();

	if (!name || !*name)
		return NULL;
	m = memory_calloc(1, sizeof(*m));
	m->fd = read_address(m, name) ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->fd < 0)
		log_warn("the service manager cannot be told that the listener runs", "NOTIFY_SOCKET=%s", name);
	uv_timer_init(loop, &m->watchdog);
	m->watchdog.data = m;
	if (interval)
		uv_timer_start(&m->watchdog, on_watchdog, interval, interval);
	service_manager_tell(m, "READY=1");
	return m;
}

void service_manager_tell(const struct service_manager *m, const char *fields)
{
	if (m && m->fd >= 0)
		sendto(m->fd, fields, strlen(fields), MSG_NOSIGNAL, (const struct sockaddr *)&m->address, m->length);
}

void service_manager_close(struct service_manager *m)
{
	if (!m)
		return;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	uv_close((uv_handle_t *)&m->watchdog, NULL);
}

void service_manager_free(struct service_manager *m)
{
	free(m);
}
