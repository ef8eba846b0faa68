/* recording.c owns the account of a recording: counts, events, replies, acks, cursors. Durable is what was seen, and no
 * clock runs. */
#include "commands/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands/dispatch.h"
#include "feed/gap.h"
#include "feed/session.h"

struct account {
	const struct profile *profile;
	struct session *session;
	struct gaps *gaps;
	int64_t now_s;
	long line;
	json_t *seen; /* ids, the names of an object */
	long frames, event_frames, ignored_frames, rejected_frames;
	long events_seen, duplicate_events, filtered_events;
	long events_of_line, rejects_of_line;
	/* JSON, the items of arrays. */
	struct bytes ids, connections, sends, acks, actions, gap_list, events;
};

/* --- JSON --- */

static void add_comma(struct bytes *list)
{
	if (list->len)
		bytes_add_text(list, ",\n  ");
}

static void add_number(struct bytes *out, const char *name, long number)
{
	char text[80];

	snprintf(text, sizeof(text), "\"%s\": %ld", name, number);
	bytes_add_text(out, text);
}

static void add_name(struct bytes *out, const char *name)
{
	bytes_add_text(out, ", \"");
	bytes_add_text(out, name);
	bytes_add_text(out, "\": ");
}

/* JSON as it is; null if there is none. */
static void add_json(struct bytes *out, const char *name, struct slice json)
{
	add_name(out, name);
	bytes_add(out, json.at ? json.at : "null", json.at ? json.len : 4);
}

static void add_text(struct bytes *out, const char *name, struct slice text)
{
	add_name(out, name);
	if (text.at)
		json_write_string(out, text.at, text.len);
	else
		bytes_add_text(out, "null");
}

static struct slice slice_of(const char *text)
{
	return (struct slice){text, text ? strlen(text) : 0};
}

/* {"line": 7, "frame": ...} */
static void add_frame(struct bytes *list, const char *where, long line, struct slice frame)
{
	add_comma(list);
	bytes_add_byte(list, '{');
	add_number(list, where, line);
	add_json(list, "frame", frame);
	bytes_add_byte(list, '}');
}

/* --- what the session calls for --- */

static bool is_new(struct account *a, struct slice id)
{
	if (json_object_getn(a->seen, id.at, id.len))
		return false;
	json_object_setn_new_nocheck(a->seen, id.at, id.len, json_true());
	return true;
}

/* The SHA-256 of the payload in canonical form, but not if other libraries would print a number in it another way. */
static void add_digest(struct bytes *out, struct slice payload)
{
	struct bytes canonical = {NULL, 0, 0};
	uint8_t digest[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];
	struct json_written written = {false, false};

	if (payload.at)
		written = json_write_canonical(&canonical, payload);
	if (!payload.at || written.has_odd_number || written.is_cut) {
		add_text(out, "payload_sha256", slice_of(NULL));
	} else {
		sha256(bytes_text(&canonical), canonical.len, digest);
		write_hex(hex, digest, SHA256_BYTES);
		add_text(out, "payload_sha256", slice_of(hex));
	}
	bytes_free(&canonical);
}

static void add_event(struct account *a, const struct session_event *event)
{
	struct bytes *out = &a->events;

	add_comma(&a->ids);
	json_write_string(&a->ids, event->id.at, event->id.len);
	add_comma(out);
	bytes_add_text(out, "{\"id\": ");
	json_write_string(out, event->id.at, event->id.len);
	bytes_add_text(out, ", ");
	add_number(out, "line", a->line);
	add_text(out, "type", event->type);
	add_text(out, "time", event->time);
	add_digest(out, event->payload);
	bytes_add_byte(out, '}');
}

static void add_gap(struct account *a, const struct session_event *event)
{
	struct bytes *out = &a->gap_list;
	struct gap gap;
	char number[GAP_NUMBER_BYTES];

	if (!gaps_note(a->gaps, event->gap_key, event->gap_seq, &gap) || !a->profile->gap.contiguous)
		return;
	add_comma(out);
	bytes_add_byte(out, '{');
	add_number(out, "line", a->line);
	add_text(out, "key", event->gap_key);
	add_json(out, "first", slice_of(gap_write(gap.first, number)));
	add_json(out, "last", slice_of(gap_write(gap.last, number)));
	bytes_add_byte(out, '}');
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct account *a = ctx;

	a->events_seen++;
	a->events_of_line++;
	if (is_new(a, event->id)) {
		add_event(a, event);
		if (a->profile->gap.seq)
			add_gap(a, event);
	} else {
		a->duplicate_events++;
	}
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

	add_frame(&a->sends, "after_line", a->line, frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct account *a = ctx;
	struct bytes *out = &a->actions;

	(void)frame;
	add_comma(out);
	bytes_add_byte(out, '{');
	add_number(out, "after_line", a->line);
	add_text(out, "action", slice_of(rule->action == ACTION_FATAL ? "fatal" : "reconnect"));
	add_text(out, "rule", slice_of(rule->name));
	if (rule->url && *rule->url)
		add_json(out, "url", session_redirect(a->session));
	bytes_add_byte(out, '}');
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct account *a = ctx;

	session_advance(a->session, cursor, a->now_s);
}

static void on_ack(void *ctx, struct slice frame)
{
	struct account *a = ctx;

	add_frame(&a->acks, "line", a->line, frame);
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
	struct bytes *out = &a->connections;
	struct session_dial dial;

	session_connect(a->session, a->now_s * 1000, 0, 0, &dial);
	add_comma(out);
	bytes_add_byte(out, '{');
	add_number(out, "first_line", a->line);
	add_text(out, "how", slice_of(session_how_names[dial.how]));
	add_json(out, "url", dial.url_json);
	add_name(out, "on_open");
	bytes_add_byte(out, '[');
	for (size_t i = 0; i < dial.on_open_count; i++) {
		bytes_add_text(out, i ? ", " : "");
		bytes_add(out, dial.on_open[i].at, dial.on_open[i].len);
	}
	bytes_add_text(out, "]}");
}

static void read_line(struct account *a, const char *text, size_t len)
{
	a->frames++;
	a->events_of_line = a->rejects_of_line = 0;
	session_read(a->session, text, len, &handler, a);
	if (a->events_of_line)
		a->event_frames++;
	else if (a->rejects_of_line)
		a->rejected_frames++;
	else
		a->ignored_frames++;
}

static bool begins_connection(const int64_t *starts, size_t count, long line)
{
	for (size_t i = 0; i < count; i++)
		if (starts[i] == line)
			return true;
	return false;
}

/* Empty lines at the end are none; an empty file is one empty line. */
static void read_lines(struct account *a, FILE *file, const int64_t *starts, size_t count)
{
	char *text = NULL;
	size_t size = 0;
	ssize_t len;
	long empty = 0;

	while ((len = getline(&text, &size, file)) >= 0 || (!a->line && !empty)) {
		if (len < 0)
			len = 0;
		if (len && text[len - 1] == '\n')
			len--;
		if (len && text[len - 1] == '\r')
			len--;
		if (!len && !feof(file)) {
			empty++;
			continue;
		}
		for (; empty >= 0; empty--) {
			a->line++;
			if (begins_connection(starts, count, a->line))
				begin_connection(a);
			read_line(a, empty ? "" : text, empty ? 0 : (size_t)len);
		}
		empty = 0;
	}
	free(text);
}

/* --- the result --- */

static void print_list(const char *name, struct bytes *items)
{
	printf(",\n \"%s\": [%s%s%s]", name, items->len ? "\n  " : "", bytes_text(items), items->len ? "\n " : "");
}

static void print(struct account *a)
{
	struct slice next = session_cursor(a->session);
	const json_t *mode = json_object_get(a->profile->root, "ack_mode");

	printf("{\n \"unique_events\": %zu", json_object_size(a->seen));
	print_list("event_ids", &a->ids);
	printf(",\n \"ignored_frames\": %ld,\n \"frames\": %ld,\n \"event_frames\": %ld,\n \"rejected_frames\": %ld",
	       a->ignored_frames, a->frames, a->event_frames, a->rejected_frames);
	printf(",\n \"events_seen\": %ld,\n \"duplicate_events\": %ld,\n \"filtered_events\": %ld", a->events_seen,
	       a->duplicate_events, a->filtered_events);
	printf(",\n \"eval_now\": %lld,\n \"cursor_next\": %.*s", (long long)a->now_s, next.at ? (int)next.len : 4,
	       next.at ? next.at : "null");
	printf(",\n \"ack_mode\": %s%s%s", mode ? "\"" : "", mode ? json_string_value(mode) : "null", mode ? "\"" : "");
	print_list("connections", &a->connections);
	print_list("sends", &a->sends);
	print_list("acks", &a->acks);
	print_list("actions", &a->actions);
	print_list("gaps", &a->gap_list);
	print_list("events", &a->events);
	printf("\n}\n");
}

static void close_account(struct account *a)
{
	struct bytes *lists[] = {&a->ids, &a->connections, &a->sends, &a->acks, &a->actions, &a->gap_list, &a->events};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		bytes_free(lists[i]);
	json_decref(a->seen);
	gaps_free(a->gaps);
	session_free(a->session);
}

int recording_try(const struct profile *p, const char *path, const int64_t *starts, size_t count, int64_t now_s)
{
	struct account a = {.profile = p, .now_s = now_s, .seen = json_object()};
	FILE *file = fopen(path, "re");
	int first = file ? getc(file) : EOF;

	if (!file || ferror(file)) { /* a folder can be opened */
		dispatch_fail("--frames: cannot read %.200s: %s", path, strerror(errno));
		if (file)
			fclose(file);
		return STATUS_FAILED;
	}
	ungetc(first, file);
	a.session = session_new(p, true);
	a.gaps = gaps_new();
	read_lines(&a, file, starts, count);
	fclose(file);
	print(&a);
	close_account(&a);
	return STATUS_FINE;
}
