/* What a listener tells systemd: that it has started, that its loop runs, and that it stops. */
#include "support.h"

#include <sys/un.h>

#define SAID_MS 10000

static int told = -1; /* the socket that systemd would have */

/* Binds the socket to a path or, if name begins with @, in the abstract namespace. */
static void be_told_at(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);

	cr_assert_lt(len, sizeof(address.sun_path));
	memcpy(address.sun_path, name, len);
	if (*name == '@')
		address.sun_path[0] = '\0';
	told = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(told, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
		     0, "cannot bind %s: %s", name, strerror(errno));
}

/* True if the next message, if any, is this one. */
static bool hears(const char *fields)
{
	char said[200];
	ssize_t n = recv(told, said, sizeof(said) - 1, 0);

	said[n > 0 ? n : 0] = '\0';
	return strncmp(said, fields, strlen(fields)) == 0;
}

/* Fills the rest of the socket's queue. */
static bool is_full(void)
{
	struct sockaddr_un address;
	socklen_t len = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_taken;

	getsockname(told, (struct sockaddr *)&address, &len);
	is_taken = sendto(fd, "STATUS=", 7, 0, (struct sockaddr *)&address, len) == 7;
	close(fd);
	return !is_taken;
}

static struct listener *start_told(const char *name)
{
	struct listener_options options = {
		.database = database_new(),
		.env = (const char *[]){suite_text("NOTIFY_SOCKET=%s", name), "WATCHDOG_USEC=200000", NULL}};

	be_told_at(name);
	return listener_start(&options, "--drain-timeout 20");
}

static void hear_a_life(struct listener *l)
{
	await(hears("READY=1"), SAID_MS);
	for (int i = 0; i < 3; i++)
		await(hears("WATCHDOG=1"), SAID_MS);
	process_signal(listener_process(l), SIGTERM);
	await(hears("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=35000000"), SAID_MS);
	cr_assert_eq(process_wait(listener_process(l), SAID_MS), 0);
}

Test(service, systemd_is_told_of_a_life_from_start_to_end)
{
	hear_a_life(start_told(suite_path("notify")));
}

Test(service, systemd_is_told_of_a_reload_from_its_begin_to_its_end)
{
	struct listener *l = start_told(suite_path("notify"));

	await(hears("READY=1"), SAID_MS);
	process_signal(listener_process(l), SIGHUP);
	await(hears("RELOADING=1\nMONOTONIC_USEC="), SAID_MS);
	await(hears("READY=1"), SAID_MS, "the end is not told");
	cr_assert_eq(listener_stop(l), 0);
}

/* A socket queues only ten datagrams, unless net.unix.max_dgram_qlen allows more. */
Test(service, what_a_full_socket_does_not_take_is_told_later)
{
	struct listener *l = start_told(suite_path("notify"));

	await(is_full(), SAID_MS);
	process_signal(listener_process(l), SIGHUP);
	await(listener_has_logged(l, "reloaded"), SAID_MS);
	await(hears("RELOADING=1\nMONOTONIC_USEC="), SAID_MS);
	await(hears("READY=1"), SAID_MS);
	cr_assert_eq(listener_stop(l), 0);
}

Test(service, a_socket_may_be_in_the_abstract_namespace)
{
	hear_a_life(start_told(suite_text("@wsonce-test-%d", (int)getpid())));
}

Test(service, a_socket_that_is_not_there_is_one_line)
{
	struct listener_options options = {.database = database_new(),
					   .env = (const char *[]){"NOTIFY_SOCKET=nowhere", NULL}};
	struct listener *l = listener_start(&options, NULL);

	cr_assert(listener_has_logged(l, "cannot notify the service manager"));
	cr_assert_eq(listener_stop(l), 0);
}
