/* service_manager.c sends notifications to systemd: datagrams to a socket, see sd_notify(3). That page declares the
 * protocol stable and simple enough to implement without libsystemd, which would add its own dependencies. */
#include "ops/service_manager.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

#define UNSAID_MOST 8   /* messages in the queue; if it is full, the oldest is dropped */
#define AGAIN_MS    100 /* time between two tries to send the first one */

struct service_manager {
	int fd;
	struct sockaddr_un address;
	socklen_t length;
	uv_timer_t watchdog;
	uv_timer_t again;          /* runs while messages are queued */
	char *unsaid[UNSAID_MOST]; /* queue for when the socket is full (net.unix.max_dgram_qlen) */
	size_t unsaid_count;
};

/* The address is a path, or "@" and a name in the abstract namespace. */
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

/* The interval of watchdog messages in ms; 0 if the watchdog does not watch this process. */
static uint64_t read_interval(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!usec || (pid && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(usec, NULL, 10) / 2000;
}

/* Returns false if the socket is full. */
static bool say(const struct service_manager *m, const char *fields)
{
	return sendto(m->fd, fields, strlen(fields), MSG_NOSIGNAL, (const struct sockaddr *)&m->address, m->length) >=
		       0 ||
	       (errno != EAGAIN && errno != ENOBUFS);
}

/* If the socket is full, the message is skipped: the next one follows soon. */
static void on_watchdog(uv_timer_t *timer)
{
	const struct service_manager *m = timer->data;

	if (m->fd >= 0 && !m->unsaid_count)
		say(m, "WATCHDOG=1");
}

static void forget_first(struct service_manager *m)
{
	free(m->unsaid[0]);
	memmove(m->unsaid, m->unsaid + 1, --m->unsaid_count * sizeof(*m->unsaid));
}

static void on_again(uv_timer_t *timer)
{
	struct service_manager *m = timer->data;

	while (m->unsaid_count && say(m, m->unsaid[0]))
		forget_first(m);
	if (!m->unsaid_count)
		uv_timer_stop(timer);
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
		log_warn("cannot notify the service manager", "NOTIFY_SOCKET=%s", name);
	uv_timer_init(loop, &m->watchdog);
	uv_timer_init(loop, &m->again);
	m->watchdog.data = m->again.data = m;
	if (interval)
		uv_timer_start(&m->watchdog, on_watchdog, interval, interval);
	service_manager_tell(m, "READY=1");
	return m;
}

void service_manager_tell(struct service_manager *m, const char *fields)
{
	if (!m || m->fd < 0 || (!m->unsaid_count && say(m, fields)))
		return;
	if (m->unsaid_count == UNSAID_MOST)
		forget_first(m);
	m->unsaid[m->unsaid_count++] = memory_printf("%s", fields);
	uv_timer_start(&m->again, on_again, AGAIN_MS, AGAIN_MS);
}

void service_manager_close(struct service_manager *m)
{
	if (!m)
		return;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	while (m->unsaid_count)
		forget_first(m);
	uv_close((uv_handle_t *)&m->watchdog, NULL);
	uv_close((uv_handle_t *)&m->again, NULL);
}

void service_manager_free(struct service_manager *m)
{
	free(m);
}
