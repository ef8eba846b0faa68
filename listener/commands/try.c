/* try.c owns `wsonce try` and `wsonce record`: they show what a profile makes of a feed or of a recording, and make a
 * recording, without Redis or Postgres. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/dispatch.h"
#include "commands/live.h"
#include "commands/recording.h"
#include "config/profile.h"

#define NOT_GIVEN (-1)
#define NOW_S     1790000000
#define SECONDS   20

struct try_options {
	const char *profile;
	const char *feed;
	const char *frames;
	const char *connections;
	int64_t now_s;
	int64_t seconds;
	int64_t messages;
	int64_t rotate_us;
	bool is_segments;
	bool is_json;
};

/* clang-format off */
#define TRY_OPTION(type, member) OPTION_##type, offsetof(struct try_options, member)
#define TRY_PROFILE \
	{"profile", TRY_OPTION(TEXT, profile), "FILE", 0, 0, NULL, "a profile: a file, or the name of a shipped one"}, \
	{"feed", TRY_OPTION(TEXT, feed), "NAME", 0, 0, NULL, \
	 "a shipped profile, NAME or NAME?var=value&...; wsonce profile list"}
/* clang-format on */

static const struct option try_options[] = {
	TRY_PROFILE,
	{"frames", TRY_OPTION(TEXT, frames), "FILE", 0, 0, NULL, "read a recording, not the feed; -: standard input"},
	{"connections", TRY_OPTION(TEXT, connections), "LINES", 0, 0, NULL,
	 "with --frames: the lines with which connections begin, such as 1,9"},
	{"now", TRY_OPTION(NUMBER, now_s), "SECONDS", 0, INT64_C(1) << 40, NULL,
	 "with --frames: the time, in seconds since 1970"},
	{"seconds", TRY_OPTION(NUMBER, seconds), "S", 0, 86400, NULL,
	 "without --frames: listen for S seconds (20); 0: until Ctrl-C"},
	{"json", TRY_OPTION(SWITCH, is_json), "", 0, 0, NULL, "without --frames: print JSON"},
};

static const struct option record_options[] = {
	TRY_PROFILE,
	{"seconds", TRY_OPTION(NUMBER, seconds), "S", 0, 86400, NULL, "stop after S seconds; 0 (default): on Ctrl-C"},
	{"messages", TRY_OPTION(NUMBER, messages), "N", 0, INT64_C(1) << 40, NULL,
	 "stop after N messages; 0 (default): on Ctrl-C"},
	{"segments", TRY_OPTION(SWITCH, is_segments), NULL, 0, 0, NULL,
	 "write segments (docs/spool.md), which have times of arrival, into the directory FILE"},
	{"rotate", TRY_OPTION(SPAN, rotate_us), "TIME", 1, 0, NULL,
	 "with --segments: begin a new segment after TIME, as after 64 MiB"},
};

static const struct try_options try_defaults = {.now_s = NOT_GIVEN, .seconds = NOT_GIVEN, .connections = NULL};

/* Is it a list such as 1,9, of which each number is greater than the one before? */
static bool is_ascending(const char *list)
{
	int64_t last = 0, number;
	char *end;

	for (;; list = end + 1, last = number) {
		number = *list >= '0' && *list <= '9' ? strtoll(list, &end, 10) : 0;
		if (number <= last || (*end && *end != ','))
			return false;
		if (!*end)
			return true;
	}
}

static const char *check_try(const struct invocation *in)
{
	const struct try_options *o = in->options;

	if (!o->profile == !o->feed)
		return "try needs --profile FILE or --feed NAME, one of the two";
	if (o->connections && !is_ascending(o->connections))
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
	int result;

	if (!p)
		return STATUS_USAGE;
	if (o->frames)
		result = recording_try(p, o->frames, o->connections ? o->connections : "1",
				       o->now_s == NOT_GIVEN ? NOW_S : o->now_s);
	else
		result = live_try(in, p, o->seconds == NOT_GIVEN ? SECONDS : o->seconds, o->is_json);
	profile_free(p);
	return result;
}

static const char *check_record(const struct invocation *in)
{
	const struct try_options *o = in->options;

	if (o->rotate_us && !o->is_segments)
		return "--rotate goes with --segments";
	return !o->profile == !o->feed ? "record needs --profile FILE or --feed NAME, one of the two" : NULL;
}

/* Opens a new file that nobody else may read, since a message may hold secrets. Does not follow a link. Returns NULL
 * after printing why. */
static FILE *open_new(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		dispatch_fail("%s is there already: give the name of a new file", path);
	else if (fd < 0)
		dispatch_fail("%s: %s", path, strerror(errno));
	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Returns 0; or -1 if not all could be written, and errno. */
static int close_lines(FILE *lines, const char *path)
{
	if (lines != stdout && ftell(lines) == 0)
		unlink(path); /* so that the next attempt does not find it */
	return (ferror(lines) | (lines == stdout ? fflush(lines) : fclose(lines))) ? -1 : 0;
}

static int run_record(const struct invocation *in)
{
	const struct try_options *o = in->options;
	const char *path = in->words[0];
	struct profile *p = live_profile(o->profile, o->feed);
	struct segments *segments = NULL;
	FILE *lines = NULL;
	int status = STATUS_FAILED;

	if (!p)
		return STATUS_USAGE;
	if (o->is_segments)
		segments = segments_open(path, p->name, o->rotate_us ? o->rotate_us : INT64_MAX);
	else
		lines = strcmp(path, "-") == 0 ? stdout : open_new(path);
	if (lines || segments)
		status = live_record(in, p, lines, segments, o->messages, o->seconds);
	if ((lines && close_lines(lines, path)) || (segments && segments_close(segments)))
		status = dispatch_fail("%s: cannot be written: %s", path, strerror(errno));
	profile_free(p);
	return status;
}

const struct subcommand try_command = {
	.name = "try",
	.arguments = "",
	.summary = "show what a profile makes of a feed, without storing anything",
	.help = "Connects to a feed as its profile says, for --seconds, and counts what each rule matched. Acks "
		"nothing. With --frames it reads a recording instead, a frame per line or a segment, and prints as "
		"JSON what the profile makes of it: frames, events with their ids, duplicates, replies, acks, "
		"cursors, gaps. Needs neither Redis nor Postgres.",
	COMMAND_OPTIONS(try_options, struct try_options),
	.defaults = &try_defaults,
	.check = check_try,
	.settings = "max-message log-level log-format config",
	.run = run_try,
};

const struct subcommand record_command = {
	.name = "record",
	.arguments = "FILE",
	.summary = "write the messages of a feed into a file, one per line",
	.help = "Connects to a feed as its profile says, and writes each message into FILE, which must not exist (-: "
		"standard output), or with --segments into files of the directory FILE. wsonce try --frames and wsonce "
		"replay read them. Needs neither Redis nor Postgres.",
	COMMAND_OPTIONS(record_options, struct try_options),
	.check = check_record,
	.settings = "max-message log-level log-format config",
	.run = run_record,
};
