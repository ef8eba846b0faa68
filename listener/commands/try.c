/* try.c owns `wsonce try` and `wsonce record`: they show what a profile makes of a feed or of a recording, and make a
 * recording, without Redis or Postgres. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands/dispatch.h"
#include "commands/examples.h"
#include "commands/json_out.h"
#include "commands/live.h"
#include "commands/ndjson.h"
#include "config/profile.h"
#include "feed/gap.h"
#include "feed/session.h"

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
	int64_t expect_us;
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
	{"expect", TRY_OPTION(SPAN, expect_us), "TIME", 1000000, 0, NULL,
	 "listen for TIME, and print nothing if the feed fits its profile; else exit with 1"},
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
	if (o->expect_us && (o->frames || o->seconds != NOT_GIVEN))
		return "--expect does not go with --frames or --seconds";
	if (o->frames && o->seconds != NOT_GIVEN)
		return "--seconds does not go with --frames, which are read at once";
	if (!o->frames && (o->connections || o->now_s != NOT_GIVEN))
		return "--connections and --now go with --frames";
	return NULL;
}

/* --- a recording: an event counts as durable once it was read, and no clock runs --- */

enum list { IDS, CONNECTIONS, SENDS, ACKS, ACTIONS, GAPS, EVENTS, LISTS };

static const char *const list_names[LISTS] = {"event_ids", "connections", "sends", "acks", "actions", "gaps", "events"};

struct account {
	const struct profile *profile;
	struct session *session;
	struct gaps *gaps;
	int64_t now_s;
	const char *starts; /* lines with which further connections begin: 9,12 */
	long line;
	json_t *seen; /* ids, the names of an object */
	long event_frames, ignored_frames, rejected_frames;
	long events_seen, duplicate_events, filtered_events;
	long events_of_line, rejects_of_line;
	struct bytes lists[LISTS]; /* the items, in JSON */
	struct examples examples;
};

/* Returns the list, ready for its next item. */
static struct bytes *next_item(struct account *a, enum list list)
{
	if (a->lists[list].len)
		bytes_add_text(&a->lists[list], ",\n  ");
	return &a->lists[list];
}

static bool is_new(struct account *a, struct slice id)
{
	if (json_object_getn(a->seen, id.at, id.len))
		return false;
	json_object_setn_new_nocheck(a->seen, id.at, id.len, json_true());
	return true;
}

/* Returns the SHA-256 of the payload in canonical form; or NULL if other libraries would print a number in it another
 * way. */
static const char *digest_payload(struct slice payload, char hex[2 * SHA256_BYTES + 1])
{
	struct bytes canonical = {NULL, 0, 0};
	struct json_written written;
	uint8_t digest[SHA256_BYTES];

	if (!payload.at)
		return NULL;
	written = json_write_canonical(&canonical, payload);
	sha256(bytes_text(&canonical), canonical.len, digest);
	write_hex(hex, digest, SHA256_BYTES);
	bytes_free(&canonical);
	return written.has_odd_number || written.is_cut ? NULL : hex;
}

static void add_event(struct account *a, const struct session_event *event)
{
	char hex[2 * SHA256_BYTES + 1], first[GAP_NUMBER_BYTES], last[GAP_NUMBER_BYTES];
	struct gap gap;

	json_out_format(next_item(a, IDS), "%s", event->id);
	json_out_format(next_item(a, EVENTS),
			"{\"id\": %s, \"line\": %d, \"type\": %s, \"time\": %s, \"payload_sha256\": %s}", event->id,
			a->line, event->type, event->time, slice_of(digest_payload(event->payload, hex)));
	if (a->profile->gap.seq && gaps_note(a->gaps, event->gap_key, event->gap_seq, &gap) &&
	    a->profile->gap.contiguous)
		json_out_format(next_item(a, GAPS), "{\"line\": %d, \"key\": %s, \"first\": %j, \"last\": %j}", a->line,
				event->gap_key, slice_of(gap_write(gap.first, first)),
				slice_of(gap_write(gap.last, last)));
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct account *a = ctx;

	a->events_seen++;
	a->events_of_line++;
	examples_add(&a->examples, event);
	if (is_new(a, event->id))
		add_event(a, event);
	else
		a->duplicate_events++;
	if (event->cursor.at)
		session_advance(a->session, event->cursor, a->now_s);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	struct account *a = ctx;

	a->rejects_of_line++;
	examples_reject(&a->examples, bytes, why);
}

static void on_send(void *ctx, struct slice frame)
{
	struct account *a = ctx;

	json_out_format(next_item(a, SENDS), "{\"after_line\": %d, \"frame\": %j}", a->line, frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct account *a = ctx;
	struct bytes *out = next_item(a, ACTIONS);

	(void)frame;
	json_out_format(out, "{\"after_line\": %d, \"action\": %s, \"rule\": %s", a->line,
			slice_of(rule->action == ACTION_FATAL ? "fatal" : "reconnect"), slice_of(rule->name));
	if (rule->url && *rule->url)
		json_out_format(out, ", \"url\": %j", session_redirect(a->session));
	json_out_format(out, "}");
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct account *a = ctx;

	session_advance(a->session, cursor, a->now_s);
}

static void on_ack(void *ctx, struct slice frame)
{
	struct account *a = ctx;

	json_out_format(next_item(a, ACKS), "{\"line\": %d, \"frame\": %j}", a->line, frame);
}

static void on_filtered(void *ctx)
{
	((struct account *)ctx)->filtered_events++;
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_action,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_filtered = on_filtered,
};

static void begin_connection(struct account *a)
{
	struct bytes *out = next_item(a, CONNECTIONS);
	struct session_dial dial;

	session_connect(a->session, a->now_s * 1000, 0, 0, &dial);
	json_out_format(out, "{\"first_line\": %d, \"how\": %s, \"url\": %j, \"on_open\": [", a->line,
			slice_of(session_how_names[dial.how]), dial.url_json);
	for (size_t i = 0; i < dial.on_open_count; i++)
		json_out_format(out, i ? ", %j" : "%j", dial.on_open[i]);
	json_out_format(out, "]}");
}

static void read_line(struct account *a, const char *text, size_t len)
{
	char *end;

	a->line++;
	if (strtol(a->starts, &end, 10) == a->line) {
		a->starts = *end ? end + 1 : end;
		begin_connection(a);
	}
	a->events_of_line = a->rejects_of_line = 0;
	session_read(a->session, text, len, &handler, a);
	if (a->events_of_line)
		a->event_frames++;
	else if (a->rejects_of_line)
		a->rejected_frames++;
	else
		a->ignored_frames++;
}

/* Empty lines at the end are left out; an empty file is one empty line. */
static enum ndjson_result read_lines(struct account *a, struct ndjson *lines)
{
	enum ndjson_result result;
	struct ndjson_line line;

	while ((result = ndjson_wait(lines, &line)) == NDJSON_LINE) {
		while ((uint64_t)a->line + 1 < line.number)
			read_line(a, "", 0);
		read_line(a, line.bytes, line.len);
	}
	if (!a->line && result == NDJSON_END)
		read_line(a, "", 0);
	return result;
}

static void print(struct account *a)
{
	struct bytes out = {NULL, 0, 0};

	json_out_format(&out,
			"{\n \"frames\": %d, \"event_frames\": %d, \"ignored_frames\": %d, \"rejected_frames\": %d",
			a->line, a->event_frames, a->ignored_frames, a->rejected_frames);
	json_out_format(
		&out,
		",\n \"events_seen\": %d, \"unique_events\": %d, \"duplicate_events\": %d, \"filtered_events\": %d",
		a->events_seen, (long)json_object_size(a->seen), a->duplicate_events, a->filtered_events);
	json_out_format(&out, ",\n \"eval_now\": %d, \"cursor_next\": %j, \"ack_mode\": %s", (long)a->now_s,
			session_cursor(a->session),
			slice_of(json_string_value(json_object_get(a->profile->root, "ack_mode"))));
	for (int i = 0; i < LISTS; i++) {
		json_out_format(&out, ",\n %s: [", slice_of(list_names[i]));
		json_out_format(&out, a->lists[i].len ? "\n  %j\n ]" : "]", bytes_slice(&a->lists[i]));
	}
	json_out_format(&out, ",\n \"examples\": %j,\n \"rejected\": %j\n}\n", examples_array(&a->examples.events),
			examples_array(&a->examples.rejected));
	fwrite(bytes_text(&out), 1, out.len, stdout);
	bytes_free(&out);
}

static void close_account(struct account *a)
{
	for (int i = 0; i < LISTS; i++)
		bytes_free(&a->lists[i]);
	json_decref(a->seen);
	examples_free(&a->examples);
	gaps_free(a->gaps);
	session_free(a->session);
}

/* Prints what the profile makes of a file (-: standard input), a frame per line or record, as one JSON object. starts
 * are the numbers of the lines with which connections begin, ascending, with commas between. */
static int try_recording(const struct profile *p, const char *path, const char *starts, int64_t now_s)
{
	struct account a = {.profile = p, .now_s = now_s, .starts = starts, .examples.profile = p};
	struct ndjson *lines = ndjson_open(path, NDJSON_UNLIMITED);
	enum ndjson_result result;

	if (!lines)
		return STATUS_FAILED;
	a.session = session_new(p, true);
	a.gaps = gaps_new();
	a.seen = json_object();
	result = read_lines(&a, lines);
	if (result != NDJSON_FAILED)
		print(&a);
	ndjson_close(lines);
	close_account(&a);
	return result == NDJSON_END ? STATUS_FINE : STATUS_FAILED;
}

/* --- the commands --- */

static int run_try(const struct invocation *in)
{
	const struct try_options *o = in->options;
	struct profile *p = live_profile(o->profile, o->feed);
	int result;

	if (!p)
		return STATUS_USAGE;
	if (o->frames)
		result = try_recording(p, o->frames, o->connections ? o->connections : "1",
				       o->now_s == NOT_GIVEN ? NOW_S : o->now_s);
	else if (o->expect_us)
		result = live_try(in, p, o->expect_us / 1000000, o->is_json, true);
	else
		result = live_try(in, p, o->seconds == NOT_GIVEN ? SECONDS : o->seconds, o->is_json, false);
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

/* Opens a new file, no link, that nobody else may read: messages may hold secrets. NULL: it has printed why. */
static FILE *open_new(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		dispatch_fail("%s is there already: give the name of a new file", path);
	else if (fd < 0)
		dispatch_fail("%s cannot be created: %s", path, strerror(errno));
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
	COMMAND_OPTIONS(try_options, struct try_options),
	.defaults = &try_defaults,
	.check = check_try,
	.settings = "max-message log-level log-format config",
	.run = run_try,
};

const struct subcommand record_command = {
	.name = "record",
	.arguments = "FILE",
	COMMAND_OPTIONS(record_options, struct try_options),
	.check = check_record,
	.settings = "max-message log-level log-format config",
	.run = run_record,
};
