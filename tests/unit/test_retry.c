/* Redis, Postgres and feeds that cannot be reached are tried again, after waits that grow up to a cap. */
#include "loop.h"
#include "unit.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <uv.h>

#include "clock.h"
#include "intake/source.h"
#include "net/ws.h"
#include "postgres/connection.h"
#include "redis/connection.h"

#define TRIES 60 /* without a cap the waits would have grown to months by then */

static uv_loop_t loop;

static void set_up(void)
{
	clock_stop();
	uv_loop_init(&loop);
}

TestSuite(retry, .init = set_up);

static void finish_loop(void)
{
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0, "a handle is left");
}

/* Returns a port on which nothing listens, reserved for this process. */
static int refusing_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	return ntohs(address.sin_port);
}

static int others; /* handles that existed before, such as libwebsockets' timers */

static void count_handle(uv_handle_t *handle, void *n)
{
	++*(int *)n;
}

struct longest {
	int at;
	uint64_t ms;
};

/* libuv walks handles in order of creation. */
static void note_longest(uv_handle_t *handle, void *arg)
{
	struct longest *l = arg;

	if (l->at++ < others || handle->type != UV_TIMER || !uv_is_active(handle))
		return;
	if (uv_timer_get_due_in((uv_timer_t *)handle) > l->ms)
		l->ms = uv_timer_get_due_in((uv_timer_t *)handle);
}

/* Lets it fail repeatedly, each time as soon as its wait is over. */
static void expect_waits_up_to(uint64_t cap_ms, bool (*is_waiting)(void *arg), void *arg)
{
	uint64_t most = 0;

	for (int i = 0; i < TRIES; i++) {
		struct longest longest = {0};

		while (!is_waiting(arg))
			uv_run(&loop, UV_RUN_ONCE);
		uv_walk(&loop, note_longest, &longest);
		uint64_t wait = longest.ms;
		cr_assert_leq(wait, cap_ms, "try %d: %lu ms", i, (unsigned long)wait);
		most = wait > most ? wait : most;
		clock_pass((int64_t)wait + 1); /* a timer of libwebsockets may be due in a part of a millisecond */
		do
			uv_run(&loop, UV_RUN_NOWAIT);
		while (is_waiting(arg) && uv_backend_timeout(&loop) == 0);
	}
	cr_assert_gt(most, cap_ms / 2, "no wait is long: %lu ms", (unsigned long)most);
}

static void on_redis_state(void *owner, enum redis_state state)
{
}

static bool is_redis_down(void *r)
{
	return redis_state(r) == REDIS_DOWN;
}

Test(retry, of_redis_comes_within_two_seconds)
{
	char url[60];
	struct redis_settings settings = {.url = url, .timeout_ms = 1000, .on_state = on_redis_state};

	snprintf(url, sizeof(url), "redis://127.0.0.1:%d/0", refusing_port());
	struct redis *r = redis_open(&loop, &settings);
	expect_waits_up_to(2000, is_redis_down, r);
	redis_close(r, loop_on_closed, NULL);
	finish_loop();
}

static void on_postgres_state(void *owner, enum postgres_state state)
{
}

static bool is_postgres_down(void *p)
{
	return postgres_state(p) == POSTGRES_DOWN;
}

Test(retry, of_postgres_comes_within_two_seconds)
{
	struct postgres_settings settings = {
		.conninfo = "host=/nonexistent", .timeout_ms = 1000, .on_state = on_postgres_state};
	struct postgres *p = postgres_open(&loop, &settings);

	expect_waits_up_to(2000, is_postgres_down, p);
	postgres_close(p, loop_on_closed, NULL);
	finish_loop();
}

static void charge(void *owner, long bytes)
{
}

static bool is_never_full(const void *owner)
{
	return false;
}

static bool is_source_down(void *sources)
{
	return strcmp(sources_view(sources, 0).state, "down") == 0;
}

Test(retry, of_a_feed_comes_within_ten_seconds)
{
	char url[60], error[200];
	char *urls[] = {url};
	struct config config = {.sources = {urls, 1}, .handshake_timeout_s = 10, .idle_timeout_s = 60, .consumer = ""};

	snprintf(url, sizeof(url), "ws://127.0.0.1:%d/", refusing_port());
	struct ws *ws = ws_open(&loop, &config, &(struct ws_budget){NULL, charge, is_never_full, is_never_full});
	uv_walk(&loop, count_handle, &others);
	struct sources *sources = sources_open(ws, NULL, &config, error, sizeof(error));
	cr_assert(sources, "%s", error);
	expect_waits_up_to(10000, is_source_down, sources);
	sources_close(sources);
}
