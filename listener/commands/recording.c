/* recording.c owns what `wsonce try --frames` prints of a recording: counts, events, replies, acks, cursors. An event
 * counts as durable once it was read, and no clock runs. */
#include "commands/recording.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands/dispatch.h"
#include "commands/ndjson.h"
#include "feed/gap.h"
#include "feed/session.h"

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
};

/* --- JSON --- */

/* Adds a text with %d for a long, %s for a slice that becomes a string, and %j for a slice that is JSON. A slice
 * without bytes becomes null. Numbers in JSON stay as they were written. */
static void add(struct bytes *out, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	for (const char *percent; (percent = strchr(format, '%')); format = percent + 2) {
		char number[24];
		struct slice part = {number, 0};

		bytes_add(out, format, (size_t)(percent - format));
		if (percent[1] == 'd')
			part.len = (size_t)snprintf(number, sizeof(number), "%ld", va_arg(ap, long));
		else
			part = va_arg(ap, struct slice);
		if (!part.at)
			bytes_add_text(out, "null");
		else if (percent[1] == 's')
			json_write_string(out, part.at, part.len);
		else
			bytes_add(out, part.at, part.len);
	}
	va_end(ap);
	bytes_add_text(out, format);
}

/* Returns the list, ready for its next item. */
static struct bytes *next_item(struct account *a, enum list list)
{
	if (a->lists[list].len)
		bytes_add_text(&a->lists[list], ",\n  ");
	return &a->lists[list];
}

static struct slice slice_of(const char *text)
{
	return (struct slice){text, text ? strlen(text) : 0};
}

/* --- callbacks of the session --- */

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

	add(next_item(a, IDS), "%s", event->id);
	add(next_item(a, EVENTS), "{\"id\": %s, \"line\": %d, \"type\": %s, \"time\": %s, \"payload_sha256\": %s}",
	    event->id, a->line, event->type, event->time, slice_of(digest_payload(event->payload, hex)));
	if (a->profile->gap.seq && gaps_note(a->gaps, event->gap_key, event->gap_seq, &gap) &&
	    a->profile->gap.contiguous)
		add(next_item(a, GAPS), "{\"line\": %d, \"key\": %s, \"first\": %j, \"last\": %j}", a->line,
		    event->gap_key, slice_of(gap_write(gap.first, first)), slice_of(gap_write(gap.last, last)));
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct account *a = ctx;

	a->events_seen++;
	a->events_of_line++;
	if (is_new(a, event->id))
		add_event(a, event);
	else
		a->duplicate_events++;
	if (event->cursor.at)
		session_advance(a->session, event->cursor, a->now_s);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	(void)bytes, (void)why;
	((struct account *)ctx)->rejects_of_line++;
}

static void on_send(void *ctx, struct slice frame)
{
	struct account *a = ctx;

	add(next_item(a, SENDS), "{\"after_line\": %d, \"frame\": %j}", a->line, frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct account *a = ctx;
	struct bytes *out = next_item(a, ACTIONS);

	(void)frame;
	add(out, "{\"after_line\": %d, \"action\": %s, \"rule\": %s", a->line,
	    slice_of(rule->action == ACTION_FATAL ? "fatal" : "reconnect"), slice_of(rule->name));
	if (rule->url && *rule->url)
		add(out, ", \"url\": %j", session_redirect(a->session));
	add(out, "}");
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct account *a = ctx;

	session_advance(a->session, cursor, a->now_s);
}

static void on_ack(void *ctx, struct slice frame)
{
	struct account *a = ctx;

	add(next_item(a, ACKS), "{\"line\": %d, \"frame\": %j}", a->line, frame);
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	(void)ctx, (void)rule, (void)frame;
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
	.on_rule = on_rule,
	.on_filtered = on_filtered,
};

/* --- the recording --- */

static void begin_connection(struct account *a)
{
	struct bytes *out = next_item(a, CONNECTIONS);
	struct session_dial dial;

	session_connect(a->session, a->now_s * 1000, 0, 0, &dial);
	add(out, "{\"first_line\": %d, \"how\": %s, \"url\": %j, \"on_open\": [", a->line,
	    slice_of(session_how_names[dial.how]), dial.url_json);
	for (size_t i = 0; i < dial.on_open_count; i++)
		add(out, i ? ", %j" : "%j", dial.on_open[i]);
	add(out, "]}");
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

/* --- the result --- */

static void print(struct account *a)
{
	struct bytes out = {NULL, 0, 0};

	add(&out, "{\n \"frames\": %d, \"event_frames\": %d, \"ignored_frames\": %d, \"rejected_frames\": %d", a->line,
	    a->event_frames, a->ignored_frames, a->rejected_frames);
	add(&out, ",\n \"events_seen\": %d, \"unique_events\": %d, \"duplicate_events\": %d, \"filtered_events\": %d",
	    a->events_seen, (long)json_object_size(a->seen), a->duplicate_events, a->filtered_events);
	add(&out, ",\n \"eval_now\": %d, \"cursor_next\": %j, \"ack_mode\": %s", (long)a->now_s,
	    session_cursor(a->session), slice_of(json_string_value(json_object_get(a->profile->root, "ack_mode"))));
	for (int i = 0; i < LISTS; i++) {
		add(&out, ",\n %s: [", slice_of(list_names[i]));
		add(&out, a->lists[i].len ? "\n  %j\n ]" : "]", bytes_slice(&a->lists[i]));
	}
	add(&out, "\n}\n");
	fwrite(bytes_text(&out), 1, out.len, stdout);
	bytes_free(&out);
}

static void close_account(struct account *a)
{
	for (int i = 0; i < LISTS; i++)
		bytes_free(&a->lists[i]);
	json_decref(a->seen);
	gaps_free(a->gaps);
	session_free(a->session);
}

int recording_try(const struct profile *p, const char *path, const char *starts, int64_t now_s)
{
	struct account a = {.profile = p, .now_s = now_s, .starts = starts};
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
