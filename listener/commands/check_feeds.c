/* check_feeds.c owns what wsonce check asks of feeds, by a conversation of live.c's, and of the ports of producers and
 * operators. */
#include "commands/check_feeds.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "commands/live.h"
#include "feed/secrets.h"
#include "net/bound_socket.h"
#include "road/age_limit.h"
#include "road/envelope.h"

#define CONNECT_MS   5000
#define LOOK_S       5
#define ALL_MS       60000 /* further feeds are not tried after this */
#define UNREAD_BYTES 200

/* --- connections alone --- */

/* NULL, or why there is no connection. */
static const char *connect_to(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
	struct pollfd ready = {fd, POLLOUT, 0};
	socklen_t size = sizeof(error);

	if (fd < 0)
		return strerror(errno);
	if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
		error = errno;
	else if (poll(&ready, 1, CONNECT_MS) != 1)
		error = ETIMEDOUT;
	else
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	close(fd);
	return error ? strerror(error) : NULL;
}

/* NULL, or why the host of a URL cannot be reached. */
static const char *find_obstacle(const char *text)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	const char *why = "the URL cannot be read";
	char port[8];
	struct url url;
	int failed;

	if (!url_parse(&url, text)) {
		snprintf(port, sizeof(port), "%d", url.has_port ? url.port : strcmp(url.scheme, "wss") == 0 ? 443 : 80);
		failed = getaddrinfo(url.host, port, &hints, &found);
		why = failed ? gai_strerror(failed) : "it has no address";
		for (const struct addrinfo *a = found; a && why; a = a->ai_next)
			why = connect_to(a);
		if (found)
			freeaddrinfo(found);
	}
	url_clear(&url);
	return why;
}

/* True if it was said that it cannot. What is behind a proxy, or whose host variables say, is not looked for. */
static bool is_out_of_reach(struct findings *f, const struct config *c, const char *text, const char *name)
{
	const char *why = c->source_proxy || strstr(text, "${") ? NULL : find_obstacle(text);

	if (why)
		finding(f, FINDING_WRONG, "feed", "%s cannot be reached: %s", name, why);
	return why;
}

/* --- a feed without a profile --- */

struct first {
	struct envelope *envelope;
	struct age_limit age;
	uint64_t messages; /* that are no events */
	bool has_event;
	bool has_time;   /* one that can be read */
	char fault[200]; /* of the first of them */
};

/* True ends the conversation: it is an event. */
static bool on_message(void *arg, const char *message, size_t len)
{
	struct first *first = arg;
	struct envelope_view view;
	const char *fault = envelope_read(first->envelope, message, len, &view);
	struct slice time = envelope_time(first->envelope);
	int64_t us;

	if (!fault)
		fault = age_limit_reason(&first->age, time, first->age.unit, clock_us(CLOCK_REALTIME));
	first->has_event = !fault;
	first->has_time = !fault && time.at && timestamp_parse(time.at, time.len, first->age.unit, &us);
	if (fault && !first->messages++)
		snprintf(first->fault, sizeof(first->fault), "%s", fault);
	return !fault;
}

/* Whether nothing more can be said of it, since there was no connection, or it ended. */
static bool tell_failure(struct findings *f, const struct live_seen *seen, const char *name)
{
	if (!seen->connects)
		finding(f, FINDING_WRONG, "feed", "%s cannot be connected to: %s", name,
			*seen->error ? seen->error : "nothing came of it within 5 s");
	else if (seen->is_stopped)
		finding(f, FINDING_WRONG, "feed", "%s refused to go on: %s", name, seen->error);
	else if (!seen->messages && *seen->error)
		finding(f, FINDING_WARNING, "feed", "%s was connected to, and then: %s", name, seen->error);
	else if (!seen->messages)
		finding(f, FINDING_OK, "feed", "%s was connected to; it sent nothing within 5 s", name);
	else
		return false;
	return true;
}

static void tell_source(struct findings *f, const struct config *c, const struct first *first, const char *name)
{
	if (!first->messages && c->time_pointer && !first->has_time)
		finding(f, FINDING_WARNING, "feed",
			"%s sent an event whose time cannot be read, so it would be stored without event_time: "
			"--time-pointer or --time-unit may not fit",
			name);
	else if (!first->messages)
		finding(f, FINDING_OK, "feed", "%s was connected to; its first message is an event", name);
	else
		finding(f, FINDING_WARNING, "feed",
			"%s sent %" PRIu64 " that would be a dead letter%s: %s: %s may not fit, or it needs a profile",
			name, first->messages, first->has_event ? " before its first event" : "", first->fault,
			strncmp(first->fault, "no time: ", 9) == 0 || strncmp(first->fault, "stale: ", 7) == 0
				? "--time-pointer or --time-unit"
				: "--id-pointer");
}

static void check_source(struct findings *f, const struct config *c, const char *url, const char *name)
{
	struct first first = {.envelope = envelope_new(&c->id_pointers, c->type_pointer, c->payload_pointer)};
	struct profile *p = profile_of_url(url, "source", true, c->idle_timeout_s);
	struct live_seen seen;

	age_limit_init(&first.age, c);
	first.age.unit = timestamp_unit_named(c->time_unit);
	if (c->time_pointer)
		envelope_add_time(first.envelope, c->time_pointer);
	if (live_look(c, p, LOOK_S, on_message, &first, &seen))
		finding(f, FINDING_WRONG, "feed", "%s cannot be tried: %s", name, seen.error);
	else if (!tell_failure(f, &seen, name))
		tell_source(f, c, &first, name);
	profile_free(p);
	envelope_free(first.envelope);
}

/* --- feeds with a profile --- */

/* arg gets the last secret that cannot be read. */
static void find_unread(void *arg, const char *name, size_t len)
{
	bool is_env = strncmp(name, "env:", 4) == 0;
	char *key = memory_strndup(name, len), *text = is_env ? secret_named(key + 4) : secret_read(key + 5);

	if (!text)
		snprintf(arg, UNREAD_BYTES, is_env ? "the variable %s is not set" : "the file %s cannot be read",
			 strchr(key, ':') + 1);
	free(text);
	free(key);
}

static void check_profile(struct findings *f, const struct config *c, const struct profile *p)
{
	bool is_divided = p->fleet == FLEET_SHARED || p->fleet == FLEET_EXCLUSIVE;
	char unread[UNREAD_BYTES] = "";
	struct live_seen seen;

	if (is_out_of_reach(f, c, p->url, p->name))
		return;
	if (is_divided)
		secrets_each(p->root, find_unread, unread);
	if (*unread)
		finding(f, FINDING_WRONG, "feed", "%s: %s", p->name, unread);
	else if (is_divided)
		finding(f, FINDING_OK, "feed",
			"%s was not connected to, since that would take events from the fleet: wsonce try does",
			p->name);
	else if (live_look(c, p, LOOK_S, NULL, NULL, &seen))
		finding(f, FINDING_WRONG, "feed", "%s cannot be tried: %s", p->name, seen.error);
	else if (tell_failure(f, &seen, p->name))
		return;
	else if (*seen.rejected)
		finding(f, FINDING_WARNING, "feed", "%s sent what would be a dead letter: %s: the profile may not fit",
			p->name, seen.rejected);
	else
		finding(f, FINDING_OK, "feed", "%s was connected to; %s among its first %" PRIu64 " messages", p->name,
			seen.events ? "an event is" : "no event is", seen.messages);
}

static void check_one(struct findings *f, const struct config *c, size_t i)
{
	const char *url = config_source_url(c, i);
	char *own = config_source_name(c, i), *shown = url_redact(url), *name = memory_printf("%s (%s)", own, shown);

	if (!is_out_of_reach(f, c, url, name))
		check_source(f, c, url, name);
	free(own);
	free(shown);
	free(name);
}

/* One after the other: a feed that is quiet or does not answer takes five seconds, and there may be a thousand. */
void check_feeds(struct findings *f, const struct config *c)
{
	int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + ALL_MS;
	size_t i = 0, n = c->sources.count + c->feed_count;

	fflush(stdout);
	log_setup(LOG_ERROR, LOG_TEXT, NULL); /* what there is to say is in the findings */
	for (; i < n && clock_ms(CLOCK_MONOTONIC) < until_ms; i++) {
		if (i < c->sources.count)
			check_one(f, c, i);
		else
			check_profile(f, c, c->feeds[i - c->sources.count]);
	}
	if (i < n)
		finding(f, FINDING_WARNING, "feed", "%zu more were not tried, since the others took a minute", n - i);
}

/* --- ports --- */

/* A socket with a name in the file system is not tried, since that would take the place of one that is in use. */
static void check_door(struct findings *f, const char *flag, const char *address)
{
	int fd = address && strncmp(address, "unix:", 5) != 0 ? bound_socket(address) : -1;

	if (!address || (fd < 0 && strncmp(address, "unix:", 5) == 0))
		return;
	if (fd < 0 && errno == EADDRINUSE)
		finding(f, FINDING_WARNING, flag, "%s is in use: fine if that is the running listener", address);
	else if (fd < 0)
		finding(f, FINDING_WRONG, flag, "%s cannot be listened on: %s", address, bound_socket_error(errno));
	else
		finding(f, FINDING_OK, flag, "%s can be listened on", address);
	if (fd >= 0)
		close(fd);
}

void check_doors(struct findings *f, const struct config *c)
{
	check_door(f, "ingest", c->ingest);
	check_door(f, "ingest-http", c->ingest_http);
	check_door(f, "admin", c->admin);
}
