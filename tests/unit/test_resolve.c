/* Which of a host's addresses are dialled. Replaces the system's lookup of "two.test", "dead.test" and "mute.test",
 * whose name server never answers, because tests must not change the host's files. */
#include "base/resolve.h"

#include "unit.h"
#include <dlfcn.h>
#include <netdb.h>

typedef int(lookup)(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found);

/* This definition takes precedence over the C library's. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	const struct addrinfo stream = {.ai_socktype = SOCK_STREAM};
	lookup *real;
	int status;

	while (host && strcmp(host, "mute.test") == 0)
		pause();
	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!host || (strcmp(host, "two.test") != 0 && strcmp(host, "dead.test") != 0))
		return real(host, service, hints, found);
	status = real(*host == 'd' ? "127.0.0.3" : "::1", service, &stream, found);
	return status ? status : real("127.0.0.2", service, &stream, &(*found)->ai_next);
}

static void on_addresses(void *arg, const char *addresses, const char *error)
{
	strcpy(arg, addresses ? addresses : error);
}

static void expect_address(const char *host, unsigned int nth, const char *address)
{
	uv_loop_t *loop = uv_default_loop();
	char got[100] = "";

	cr_assert_not_null(resolve_start(loop, host, nth, on_addresses, got));
	uv_run(loop, UV_RUN_DEFAULT);
	cr_assert_str_eq(got, address, "attempt %u", nth);
}

Test(resolve, each_attempt_begins_with_the_next_address_of_a_host_and_then_the_first_again)
{
	expect_address("two.test", 0, "::1 127.0.0.2");
	expect_address("two.test", 1, "127.0.0.2 ::1");
	expect_address("two.test", 2, "::1 127.0.0.2");
	expect_address("two.test", 4000000001, "127.0.0.2 ::1");
}

Test(resolve, a_numeric_address_is_itself_however_often_it_is_tried)
{
	expect_address("127.0.0.1", 0, "127.0.0.1");
	expect_address("127.0.0.1", 3, "127.0.0.1");
	expect_address("::1", 5, "::1");
}

Test(resolve, names_that_are_not_answered_hold_up_neither_others_nor_the_end, .timeout = 60)
{
	struct resolve *mute[20];
	char got[100] = "";

	for (int i = 0; i < 20; i++)
		mute[i] = resolve_start(uv_default_loop(), "mute.test", 0, on_addresses, got);
	cr_assert_not_null(resolve_start(uv_default_loop(), "two.test", 1, on_addresses, got));
	while (!*got)
		uv_run(uv_default_loop(), UV_RUN_ONCE);
	cr_assert_str_eq(got, "127.0.0.2 ::1");
	for (int i = 0; i < 20; i++)
		resolve_cancel(mute[i]);
	uv_run(uv_default_loop(), UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(uv_default_loop()), 0);
}
