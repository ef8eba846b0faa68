/* check_feeds.c owns the checks of feeds, which try.c connects to, and of the ports for producers and operators. */
#include "commands/findings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "commands/try.h"
#include "net/acceptor.h"

#define LOOK_S 5
#define ALL_MS 60000 /* further feeds are not tried after this */

/* --- feeds --- */

/* Prints why nothing more is known about a feed: no connection, a connection that ended, or no message. False: there is
 * more to say. */
static bool tell_failure(struct findings *f, const struct try_seen *seen, const char *name)
{
	if (!seen->connects)
		finding(f, FINDING_WRONG, "feed", "%s cannot be connected to: %s", name,
			*seen->error ? seen->error : "no answer within 5 s");
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

/* Names the settings that do not fit a message that would be a dead letter. */
static const char *find_hint(const struct profile *p, const char *why)
{
	if (!p->redacted_url)
		return "the profile may not fit";
	return strncmp(why, "no time: ", 9) == 0 || strncmp(why, "stale: ", 7) == 0
		       ? "--time-pointer or --time-unit may not fit, or it needs a profile"
		       : "--id-pointer may not fit, or it needs a profile";
}

static void tell_messages(struct findings *f, const struct config *c, const struct profile *p,
			  const struct try_seen *seen, const char *name)
{
	if (*seen->rejected)
		finding(f, FINDING_WARNING, "feed", "%s sent a message that would be a dead letter: %s: %s", name,
			seen->rejected, find_hint(p, seen->rejected));
	else if (p->redacted_url && c->time_pointer && !seen->has_time)
		finding(f, FINDING_WARNING, "feed",
			"%s sent an event whose time cannot be read, so it would be stored without event_time: "
			"--time-pointer or --time-unit may not fit",
			name);
	else if (seen->events && seen->messages == 1)
		finding(f, FINDING_OK, "feed", "%s was connected to; its first message is an event", name);
	else
		finding(f, FINDING_OK, "feed", "%s was connected to; %s among its first %" PRIu64 " messages", name,
			seen->events ? "an event is" : "no event is", seen->messages);
}

static void look_at(struct findings *f, const struct config *c, const struct profile *p, const char *name)
{
	struct try_seen seen;

	if (try_look(c, p, LOOK_S, &seen))
		finding(f, FINDING_WRONG, "feed", "%s cannot be tried: %s", name, seen.error);
	else if (!tell_failure(f, &seen, name))
		tell_messages(f, c, p, &seen, name);
}

static void check_profile(struct findings *f, const struct config *c, const struct profile *p)
{
	if (p->fleet != FLEET_SHARED && p->fleet != FLEET_EXCLUSIVE)
		look_at(f, c, p, p->name);
	else
		finding(f, FINDING_OK, "feed",
			"%s was not connected to, since that would take events from the fleet: wsonce try does",
			p->name);
}

static void check_source(struct findings *f, const struct config *c, size_t i)
{
	struct profile *p = profile_of_url(config_source_url(c, i), "source", "source", c->idle_timeout_s);
	AUTO_FREE char *own = config_source_name(c, i), *name = memory_printf("%s (%s)", own, p->redacted_url);

	look_at(f, c, p, name);
	profile_free(p);
}

/* One after the other. A feed that is quiet or does not answer takes five seconds, and there may be a thousand. */
void findings_of_feeds(struct findings *f, const struct config *c)
{
	int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + ALL_MS;
	size_t i = 0, n = c->sources.count + c->feed_count;

	if (c->sources.count && !c->idle_timeout_s)
		finding(f, FINDING_WARNING, "idle timeout",
			"none: a source that stays open and brings nothing is noticed only if another listener hears "
			"it; set --idle-timeout");
	for (; i < n && clock_ms(CLOCK_MONOTONIC) < until_ms; i++) {
		if (i < c->sources.count)
			check_source(f, c, i);
		else
			check_profile(f, c, c->feeds[i - c->sources.count]);
	}
	if (i < n)
		finding(f, FINDING_WARNING, "feed", "%zu more were not tried, because the others took a minute", n - i);
}

/* --- ports --- */

/* Skips unix: addresses: binding one would replace a socket that is in use. */
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

void findings_of_doors(struct findings *f, const struct config *c)
{
	check_door(f, "ingest", c->ingest);
	check_door(f, "ingest-http", c->ingest_http);
	check_door(f, "admin", c->admin);
}
