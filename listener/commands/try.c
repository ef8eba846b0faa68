/* try.c owns the command that shows what a profile makes of a feed, without Redis or Postgres: of a recording, or live.
 */
#include <stdlib.h>
#include <string.h>

#include "commands/dispatch.h"
#include "commands/live.h"
#include "commands/recording.h"
#include "config/profile.h"

#define CONNECTIONS_MAX 1000

struct try_options {
	const char *profile;
	const char *feed;
	const char *frames;
	const char *connections;
	int64_t now_s;
	int64_t seconds;
	bool is_json;
};

static const struct option options[] = {
	{"profile", OPTION_TEXT, offsetof(struct try_options, profile), "FILE", 0, 0, NULL,
	 "a profile: a file, or the name of a shipped one"},
	{"feed", OPTION_TEXT, offsetof(struct try_options, feed), "NAME", 0, 0, NULL,
	 "a shipped profile, NAME or NAME?var=value&...; wsonce profile list"},
	{"frames", OPTION_TEXT, offsetof(struct try_options, frames), "FILE", 0, 0, NULL,
	 "a recording, a frame a line, instead of the feed"},
	{"connections", OPTION_TEXT, offsetof(struct try_options, connections), "LINES", 0, 0, NULL,
	 "with --frames: the lines with which connections begin, such as 1,9"},
	{"now", OPTION_NUMBER, offsetof(struct try_options, now_s), "SECONDS", 0, INT64_C(1) << 40, NULL,
	 "with --frames: the time, in seconds since 1970"},
	{"seconds", OPTION_NUMBER, offsetof(struct try_options, seconds), "S", 0, 86400, NULL,
	 "without --frames: how long to listen; 0: until Ctrl-C"},
	{"json", OPTION_SWITCH, offsetof(struct try_options, is_json), "", 0, 0, NULL, "without --frames: print JSON"},
};

#define NOT_GIVEN (-1)
#define NOW_S     1790000000
#define SECONDS   20

static const struct try_options defaults = {.now_s = NOT_GIVEN, .seconds = NOT_GIVEN};

/* Returns how many numbers a list such as 1,9 has; -1 if it is not one, or they do not ascend. NULL is 1. */
static int read_starts(const char *text, int64_t *starts)
{
	int count = 0;
	char *end;

	for (text = text ? text : "1";; text = end + 1) {
		if (count == CONNECTIONS_MAX || *text < '0' || *text > '9')
			return -1;
		starts[count] = strtoll(text, &end, 10);
		if (starts[count] <= (count ? starts[count - 1] : 0))
			return -1;
		count++;
		if (!*end)
			return count;
		if (*end != ',')
			return -1;
	}
}

static const char *check(const struct invocation *in)
{
	const struct try_options *o = in->options;
	int64_t starts[CONNECTIONS_MAX];

	if (!o->profile == !o->feed)
		return "try needs --profile FILE or --feed NAME, one of the two";
	if (read_starts(o->connections, starts) < 0)
		return "--connections: must be line numbers, ascending, with commas between, such as 1,9";
	if (o->frames && o->seconds != NOT_GIVEN)
		return "--seconds does not go with --frames, which are read at once";
	if (!o->frames && (o->connections || o->now_s != NOT_GIVEN))
		return "--connections and --now go with --frames";
	return NULL;
}

static int run_try(const struct invocation *in)
{
	const struct try_options *o = in->options;
	struct profile *p = live_profile(o->profile, o->feed);
	int64_t starts[CONNECTIONS_MAX];
	int count = read_starts(o->connections, starts), result;

	if (!p)
		return STATUS_USAGE;
	if (o->frames)
		result = recording_try(p, o->frames, starts, (size_t)count, o->now_s == NOT_GIVEN ? NOW_S : o->now_s);
	else
		result = live_try(in, p, o->seconds == NOT_GIVEN ? SECONDS : o->seconds, o->is_json);
	profile_free(p);
	return result;
}

const struct subcommand try_command = {
	.name = "try",
	.arguments = "",
	.summary = "show what a profile makes of a feed, without storing anything",
	.help = "Connects to a feed as its profile says, for --seconds, and shows what came of each rule. Nothing is "
		"acked. With --frames it reads a recording instead, a frame a line, and prints as JSON what the "
		"profile makes of it: frames, events with their ids, duplicates, replies, acks, cursors, gaps. Needs "
		"neither Redis nor Postgres.",
	COMMAND_OPTIONS(options, struct try_options),
	.defaults = &defaults,
	.check = check,
	.settings = "max-message log-level log-format config",
	.run = run_try,
};
