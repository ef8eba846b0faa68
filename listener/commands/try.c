/* try.c owns `wsonce try` and `wsonce record`: they show what a profile makes of a feed or of a recording, and make a
 * recording, without Redis or Postgres. Nothing is stored, so cursors advance as soon as an event is seen. */
#include "commands/try.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands/table.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/ndjson.h"
#include "commands/progress.h"
#include "commands/segments.h"
#include "event/age_limit.h"
#include "event/envelope.h"
#include "feed/gap.h"
#include "feed/shard.h"
#include "intake/feed_client.h"

#define NOW_S         1790000000
#define SECONDS       20
#define SAMPLES       3
#define SAMPLE_BYTES  80
#define IDS_MOST      1000000 /* ids of a feed that are remembered to find duplicates */
#define GOODBYE_MS    300
#define NEXT_MS       1000 /* for the second event of a plain feed */
#define TICK_MS       50
#define REJECTED_MOST 5
#define MESSAGE_BYTES 300 /* most bytes shown of a rejected message */

/* True if list is a list of ascending numbers, such as 1,9. */
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

const char *try_check(const struct invocation *in)
{
	const struct given *o = in->options;

	if (!o->profile == !o->feed)
		return "try needs either --profile FILE or --feed NAME";
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

/* --- what came, from a feed or a recording --- */

enum listing { IDS, CONNECTIONS, SENDS, ACKS, ACTIONS, GAPS, EVENTS, LISTS };

static const char *const list_names[LISTS] = {"event_ids", "connections", "sends", "acks", "actions", "gaps", "events"};

struct trial {
	const struct profile *profile;
	struct session *session;
	struct try_seen seen;
	uint64_t acks, rejects;
	json_t *ids;                           /* the names of an object */
	bool has_event[PROFILE_RULES_MAX + 1]; /* of each rule, by profile_rule_index: examples has one */
	struct bytes examples;                 /* events, in JSON, one a line */
	struct bytes rejected;                 /* the first few, each with another reason, likewise */
	size_t rejected_count;

	/* Only for a feed: */
	uv_loop_t loop;
	struct profile *shard; /* owned; if not NULL, profile points to it */
	struct ws *ws;
	struct dialler *dialler;
	struct requests *requests;
	struct feed_client *client;
	uv_timer_t end;
	uv_timer_t tick;
	FILE *lines; /* the recording to write, or NULL */
	struct segments *segments;
	int64_t messages_left; /* 0: any number */
	bool is_look;          /* for try_look() */
	bool is_quiet;         /* print only what is wrong */
	struct age_limit age;
	struct envelope *envelope; /* of a plain source; NULL: rules read the messages */
	bool is_ending;
	uint64_t too_long;
	json_t *samples; /* the first ids */

	/* Only for a recording, in which no clock runs: */
	struct gaps *gaps; /* NULL: it is a feed */
	int64_t now_s;
	const char *starts; /* lines with which further connections begin: 9,12 */
	long line;
	long event_frames, ignored_frames, rejected_frames, filtered_events;
	struct bytes lists[LISTS]; /* the items, in JSON */
};

/* Begins a line of examples. Returns where. */
static size_t begin_line(struct bytes *list)
{
	if (list->len)
		bytes_add_byte(list, '\n');
	return list->len;
}

/* JSON of a feed may have newlines between its values. */
static void join_lines(struct bytes *list, size_t from)
{
	for (; from < list->len; from++)
		if ((unsigned char)list->at[from] < ' ')
			list->at[from] = ' ';
}

/* Keeps one event of each rule. */
static void add_example(struct trial *t, const struct session_event *event)
{
	bool *has = &t->has_event[profile_rule_index(t->profile, event->rule)];
	size_t from;

	if (*has)
		return;
	*has = true;
	from = begin_line(&t->examples);
	json_out_format(
		&t->examples, "{\"rule\": %s, \"id\": %s, \"type\": %s, \"time\": %s, \"cursor\": %j, \"payload\": %j}",
		slice_of(event->rule->name), event->id, event->type, event->time, event->cursor, event->payload);
	join_lines(&t->examples, from);
}

static void add_rejected(struct trial *t, struct slice message, const char *why)
{
	char *text;

	if (t->rejected_count >= REJECTED_MOST || strstr(bytes_text(&t->rejected), why))
		return;
	t->rejected_count++;
	text = quote_json(message.at, message.len < MESSAGE_BYTES ? message.len : MESSAGE_BYTES);
	begin_line(&t->rejected);
	json_out_format(&t->rejected, "{\"why\": %s, \"message\": %j}", slice_of(why), slice_of(text));
	free(text);
}

/* Turns a list of lines into a JSON array and returns it. No line can be added afterwards. */
static struct slice make_array(struct bytes *list)
{
	struct bytes array = {NULL, 0, 0};

	for (size_t i = 0; i < list->len; i++)
		if (list->at[i] == '\n')
			list->at[i] = ',';
	json_out_format(&array, "[%j]", list->len ? bytes_slice(list) : slice_of(""));
	bytes_free(list);
	*list = array;
	return bytes_slice(list);
}

static void on_end(uv_timer_t *timer);
static void end_soon(struct trial *t);

/* Returns the list, ready for its next item. */
static struct bytes *next_item(struct trial *t, enum listing list)
{
	if (t->lists[list].len)
		bytes_add_text(&t->lists[list], ",\n  ");
	return &t->lists[list];
}

static bool is_new(struct trial *t, struct slice id)
{
	if (json_object_getn(t->ids, id.at, id.len))
		return false;
	if (t->gaps || json_object_size(t->ids) < IDS_MOST)
		json_object_setn_new_nocheck(t->ids, id.at, id.len, json_true());
	if (json_array_size(t->samples) < SAMPLES)
		json_array_append_new(t->samples, make_json(id.at, id.len < SAMPLE_BYTES ? id.len : SAMPLE_BYTES));
	return true;
}

/* Returns the SHA-256 of the payload in canonical form; or NULL if it has a number that other libraries may print
 * differently. */
static const char *digest_payload(struct slice payload, char hex[2 * SHA256_BYTES + 1])
{
	AUTO_BYTES canonical = {NULL, 0, 0};
	struct json_written written;
	uint8_t digest[SHA256_BYTES];

	if (!payload.at)
		return NULL;
	written = json_write_canonical(&canonical, payload);
	sha256(bytes_text(&canonical), canonical.len, digest);
	write_hex(hex, digest, SHA256_BYTES);
	return written.has_odd_number || written.is_cut ? NULL : hex;
}

static void add_event(struct trial *t, const struct session_event *event)
{
	char hex[2 * SHA256_BYTES + 1], first[GAP_NUMBER_BYTES], last[GAP_NUMBER_BYTES];
	struct gap gap;

	json_out_format(next_item(t, IDS), "%s", event->id);
	json_out_format(next_item(t, EVENTS),
			"{\"id\": %s, \"line\": %d, \"type\": %s, \"time\": %s, \"payload_sha256\": %s}", event->id,
			t->line, event->type, event->time, slice_of(digest_payload(event->payload, hex)));
	if (t->profile->gap.seq && gaps_note(t->gaps, event->gap_key, event->gap_seq, &gap) &&
	    t->profile->gap.contiguous)
		json_out_format(next_item(t, GAPS), "{\"line\": %d, \"key\": %s, \"first\": %j, \"last\": %j}", t->line,
				event->gap_key, slice_of(gap_write(gap.first, first)),
				slice_of(gap_write(gap.last, last)));
}

static void advance(struct trial *t, struct slice cursor)
{
	if (cursor.at)
		session_advance(t->session, cursor, t->gaps ? t->now_s : time(NULL));
}

static void on_reject(void *of, struct slice bytes, const char *why)
{
	struct trial *t = of;

	t->rejects++;
	add_rejected(t, bytes, why);
	snprintf(t->seen.rejected, sizeof(t->seen.rejected), "%s", why);
	if (t->is_look)
		end_soon(t);
}

static void on_event(void *of, const struct session_event *event)
{
	struct trial *t = of;
	const char *stale = age_limit_reason(&t->age, event->time, event->time_unit, clock_us(CLOCK_REALTIME));

	if (!event->time.at || !timestamp_parse(event->time.at, event->time.len, event->time_unit, &t->seen.time_us))
		t->seen.time_us = 0;
	if (stale) {
		on_reject(of, event->payload, stale);
		return;
	}
	t->seen.events++;
	if (event->rule) {
		t->seen.has_payload = event->payload.at;
		add_example(t, event);
	}
	if (t->is_look && (!t->envelope || t->seen.events > 1))
		end_soon(t);
	else if (t->is_look)
		uv_timer_start(&t->end, on_end, NEXT_MS, 0);
	if (!is_new(t, event->id))
		t->seen.repeated++;
	else if (t->gaps)
		add_event(t, event);
	advance(t, event->cursor);
}

static void on_cursor(void *of, struct slice cursor)
{
	advance(of, cursor);
}

/* On a feed, counts acks but sends none: nothing is stored, so the feed must keep the events for the fleet. */
static void on_ack(void *of, struct slice frame)
{
	struct trial *t = of;

	t->acks++;
	if (t->gaps)
		json_out_format(next_item(t, ACKS), "{\"line\": %d, \"frame\": %j}", t->line, frame);
}

static void trial_free(struct trial *t)
{
	for (int i = 0; i < LISTS; i++)
		bytes_free(&t->lists[i]);
	bytes_free(&t->examples);
	bytes_free(&t->rejected);
	json_decref(t->ids);
	json_decref(t->samples);
	if (t->gaps)
		gaps_free(t->gaps);
	session_free(t->session);
	envelope_free(t->envelope);
	shard_free(t->shard);
}

/* --- a recording: an event counts as durable once it was read --- */

static void on_send(void *ctx, struct slice frame)
{
	struct trial *t = ctx;

	json_out_format(next_item(t, SENDS), "{\"after_line\": %d, \"frame\": %j}", t->line, frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct trial *t = ctx;
	struct bytes *out = next_item(t, ACTIONS);

	(void)frame;
	json_out_format(out, "{\"after_line\": %d, \"action\": %s, \"rule\": %s", t->line,
			slice_of(rule->action == ACTION_FATAL ? "fatal" : "reconnect"), slice_of(rule->name));
	if (rule->url && *rule->url)
		json_out_format(out, ", \"url\": %j", session_redirect(t->session));
	json_out_format(out, "}");
}

static void on_filtered(void *ctx)
{
	((struct trial *)ctx)->filtered_events++;
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

static void begin_connection(struct trial *t)
{
	struct bytes *out = next_item(t, CONNECTIONS);
	struct session_dial dial;

	session_connect(t->session, t->now_s * 1000, 0, 0, &dial);
	json_out_format(out, "{\"first_line\": %d, \"how\": %s, \"url\": %j, \"on_open\": [", t->line,
			slice_of(session_how_names[dial.how]), dial.url_json);
	for (size_t i = 0; i < dial.on_open_count; i++)
		json_out_format(out, i ? ", %j" : "%j", dial.on_open[i]);
	json_out_format(out, "]}");
}

static void read_line(struct trial *t, const char *text, size_t len)
{
	uint64_t events = t->seen.events, rejects = t->rejects;
	char *end;

	t->line++;
	if (strtol(t->starts, &end, 10) == t->line) {
		t->starts = *end ? end + 1 : end;
		begin_connection(t);
	}
	session_read(t->session, text, len, &handler, t);
	if (t->seen.events > events)
		t->event_frames++;
	else if (t->rejects > rejects)
		t->rejected_frames++;
	else
		t->ignored_frames++;
}

/* Empty lines at the end are left out; an empty file is one empty line. */
static enum ndjson_result read_lines(struct trial *t, struct ndjson *lines)
{
	enum ndjson_result result;
	struct ndjson_line line;

	while ((result = ndjson_wait(lines, &line)) == NDJSON_LINE) {
		while ((uint64_t)t->line + 1 < line.number)
			read_line(t, "", 0);
		read_line(t, line.bytes, line.len);
	}
	if (!t->line && result == NDJSON_END)
		read_line(t, "", 0);
	return result;
}

static void print_recording(struct trial *t)
{
	AUTO_BYTES out = {NULL, 0, 0};

	json_out_format(&out,
			"{\n \"frames\": %d, \"event_frames\": %d, \"ignored_frames\": %d, \"rejected_frames\": %d",
			t->line, t->event_frames, t->ignored_frames, t->rejected_frames);
	json_out_format(
		&out,
		",\n \"events_seen\": %d, \"unique_events\": %d, \"duplicate_events\": %d, \"filtered_events\": %d",
		(long)t->seen.events, (long)json_object_size(t->ids), (long)t->seen.repeated, t->filtered_events);
	json_out_format(&out, ",\n \"eval_now\": %d, \"cursor_next\": %j, \"ack_mode\": %s", (long)t->now_s,
			session_cursor(t->session),
			slice_of(json_string_value(json_object_get(t->profile->root, "ack_mode"))));
	for (int i = 0; i < LISTS; i++) {
		json_out_format(&out, ",\n %s: [", slice_of(list_names[i]));
		json_out_format(&out, t->lists[i].len ? "\n  %j\n ]" : "]", bytes_slice(&t->lists[i]));
	}
	json_out_format(&out, ",\n \"examples\": %j,\n \"rejected\": %j\n}\n", make_array(&t->examples),
			make_array(&t->rejected));
	json_out_safe(bytes_text(&out));
}

/* Prints what the profile makes of a file (-: standard input), a frame per line or record, as one JSON object. starts
 * are the numbers of the lines with which connections begin, ascending, with commas between. */
static int try_recording(const struct profile *p, const char *path, const char *starts, int64_t now_s)
{
	struct trial t = {.profile = p, .now_s = now_s, .starts = starts};
	struct ndjson *lines = ndjson_open(path, NDJSON_UNLIMITED);
	enum ndjson_result result;

	if (!lines)
		return STATUS_FAILED;
	t.session = session_new(p, true);
	t.gaps = gaps_new();
	t.ids = json_object();
	result = read_lines(&t, lines);
	if (result != NDJSON_FAILED)
		print_recording(&t);
	ndjson_close(lines);
	trial_free(&t);
	return result == NDJSON_END ? STATUS_FINE : STATUS_FAILED;
}

/* --- a feed --- */

static void *on_open(void *arg, struct feed_connection *conn)
{
	(void)conn;
	return arg;
}

static void record(struct trial *t, const char *message, size_t len)
{
	bool is_written =
		t->lines ? ndjson_write(t->lines, message, len, false) : segments_add(t->segments, message, len);

	if (!is_written || (t->messages_left && !--t->messages_left))
		end_soon(t);
}

/* Reads a message of a plain source as the pipeline does. */
static bool read_envelope(struct trial *t, const char *message, size_t len)
{
	struct envelope_view view;
	const char *fault = envelope_read(t->envelope, message, len, &view);

	t->seen.has_payload = view.has_payload;
	t->seen.has_type = view.type.len;
	if (fault)
		on_reject(t, (struct slice){message, len}, fault);
	else
		on_event(t, &(struct session_event){.id = view.id,
						    .payload = view.payload,
						    .time = envelope_time(t->envelope),
						    .time_unit = t->age.unit});
	return !fault;
}

static bool on_message(void *of, const char *message, size_t len)
{
	struct trial *t = of;

	if (t->is_ending)
		return false;
	t->seen.messages++;
	if (t->lines || t->segments)
		record(t, message, len);
	return t->envelope && read_envelope(t, message, len);
}

static void on_too_long(void *of, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct trial *t = of;

	(void)digest, (void)total;
	t->too_long++;
	if (t->is_look) {
		t->seen.messages++;
		on_reject(of, (struct slice){head, len},
			  "it is longer than --max-message, or the profile's max_message_bytes, allows");
	}
}

static const struct feed_callbacks callbacks = {
	.on_open = on_open,
	.on_message = on_message,
	.on_event = on_event,
	.on_reject = on_reject,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_too_long = on_too_long,
};

/* --- what a feed brought --- */

static const char *rule_name(const struct trial *t, size_t i)
{
	if (i == t->profile->rule_count)
		return "(no rule)";
	return t->profile->rules[i].name ? t->profile->rules[i].name : "(without a name)";
}

static json_t *describe_rule(const struct trial *t, const struct rule_count *count, size_t i)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "rule", json_out_string(rule_name(t, i)), "frames",
			 (json_int_t)count->frames, "events", (json_int_t)count->events, "ignored",
			 (json_int_t)count->nothing, "rejected", (json_int_t)count->rejected, "filtered",
			 (json_int_t)count->filtered, "replies", (json_int_t)count->sends);
}

static void print_feed_json(struct trial *t, const struct source_view *v)
{
	struct slice cursor = session_cursor(t->session);
	AUTO_FREE char *text = cursor.at ? memory_strndup(cursor.at, cursor.len) : NULL;
	json_t *rules = json_array();
	struct json_out o;

	for (size_t i = 0; i <= t->profile->rule_count; i++)
		json_array_append_new(rules, describe_rule(t, &v->rules[i], i));
	json_out_open(&o);
	json_out_members(&o, json_pack("{so so sI so? sI sI sI sI sI sI sI sI sO so?}", "source",
				       json_out_string(t->profile->name), "url", json_out_string(v->url), "connections",
				       (json_int_t)v->connects, "error", json_out_string(*v->error ? v->error : NULL),
				       "messages", (json_int_t)t->seen.messages, "events", (json_int_t)t->seen.events,
				       "duplicates", (json_int_t)t->seen.repeated, "too_long", (json_int_t)t->too_long,
				       "replies", (json_int_t)v->replies, "acks_owed", (json_int_t)t->acks, "gaps",
				       (json_int_t)v->gaps.gaps, "missing", (json_int_t)v->gaps.missing, "sample_ids",
				       t->samples, "rejected_because",
				       json_out_string(*t->seen.rejected ? t->seen.rejected : NULL)));
	json_out_member_text(&o, "cursor", text ? text : "null");
	json_out_member_text(&o, "examples", make_array(&t->examples).at);
	json_out_member_text(&o, "rejected", make_array(&t->rejected).at);
	json_out_member(&o, "rules", rules);
	json_out_close(&o);
}

static void print_line(const char *name, const char *text, size_t len)
{
	if (len)
		json_out_line("%-12s%.*s", name, (int)len, text);
}

static void print_lines(const char *name, struct bytes *list)
{
	char *text = (char *)bytes_text(list);

	for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n"))
		print_line(name, line, strlen(line));
}

static void print_feed_text(struct trial *t, const struct source_view *v)
{
	struct slice cursor = session_cursor(t->session);

	print_line("source", t->profile->name, strlen(t->profile->name));
	print_line("url", v->url, strlen(v->url));
	print_line("error", v->error, strlen(v->error));
	printf("connections %" PRIu64 ", messages %" PRIu64 ", events %" PRIu64 ", duplicates %" PRIu64
	       ", replies %" PRIu64 ", acks owed %" PRIu64 "\n\n",
	       v->connects, t->seen.messages, t->seen.events, t->seen.repeated, v->replies, t->acks);
	printf("%-20s %10s %10s %10s %10s %10s %10s\n", "rule", "frames", "events", "ignored", "rejected", "filtered",
	       "replies");
	for (size_t i = 0; i <= t->profile->rule_count; i++) {
		const struct rule_count *n = &v->rules[i];

		json_out_column(rule_name(t, i), 20);
		printf(" %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
		       n->frames, n->events, n->nothing, n->rejected, n->filtered, n->sends);
	}
	putchar('\n');
	print_lines("event", &t->examples);
	print_lines("rejected", &t->rejected);
	if (v->gaps.gaps)
		printf("%-12s%" PRIu64 ", with %" PRIu64 " numbers\n", "gaps", v->gaps.gaps, v->gaps.missing);
	print_line("cursor", cursor.at, cursor.len);
}

static void close_all(uv_timer_t *timer)
{
	struct trial *t = timer->data;

	feed_client_close(t->client);
	requests_close(t->requests);
	ws_close(t->ws);
	uv_close((uv_handle_t *)&t->end, NULL);
	uv_close((uv_handle_t *)&t->tick, NULL);
}

/* Sends a close frame, and allows it some time before everything is closed. */
static void on_end(uv_timer_t *timer)
{
	struct trial *t = timer->data;

	feed_client_stop(t->client, (unsigned int)t->profile->close_code_on_stop);
	uv_timer_start(timer, close_all, GOODBYE_MS, 0);
}

static void end_soon(struct trial *t)
{
	if (t->is_ending)
		return;
	t->is_ending = true;
	uv_timer_start(&t->end, on_end, 0, 0);
}

static void charge(void *owner, long bytes)
{
	(void)owner, (void)bytes;
}

static bool is_never_full(const void *owner)
{
	(void)owner;
	return false;
}

static int open_parts(struct trial *t, const struct config *config, char *error, size_t size)
{
	const struct ws_budget budget = {t, charge, is_never_full, is_never_full};

	t->ws = ws_open(&t->loop, config, &budget);
	if (!t->ws) {
		snprintf(error, size,
			 "libwebsockets cannot start: is its libuv plugin (libwebsockets-evlib-uv) installed?");
		return -1;
	}
	t->dialler = dialler_open(t->ws, config, strncmp(t->profile->url, "wss:", 4) == 0, error, size);
	if (!t->dialler)
		return -1;
	t->requests = requests_open(&t->loop, config);
	t->session = session_new(t->profile, false);
	t->ids = json_object();
	t->samples = json_array();
	t->client = feed_client_new(&(struct feed_client_parts){&t->loop, config, t->dialler, t->requests, t->profile,
								t->session, &callbacks, t, NULL});
	return 0;
}

/* Ends when the feed has stopped. try_look() also ends after an error, which would only repeat. */
static void on_tick(uv_timer_t *timer)
{
	struct trial *t = timer->data;
	struct source_view v = feed_client_view(t->client);

	if (interrupt_has_come() || v.is_stopped || (t->is_look && *v.error && !v.is_open))
		end_soon(t);
	if (!t->is_look)
		progress_show("%s %s: %" PRIu64 " messages, %" PRIu64 " events, %" PRIu64 " duplicates%s%s", v.state,
			      v.url, t->seen.messages, t->seen.events, t->seen.repeated, *v.error ? ": " : "", v.error);
}

static void start_timers(struct trial *t, int64_t seconds)
{
	uv_timer_init(&t->loop, &t->end);
	uv_timer_init(&t->loop, &t->tick);
	t->end.data = t->tick.data = t;
	if (seconds)
		uv_timer_start(&t->end, on_end, (uint64_t)seconds * 1000, 0);
	uv_timer_start(&t->tick, on_tick, TICK_MS, TICK_MS);
	interrupt_watch();
}

static void forget(struct trial *t)
{
	feed_client_free(t->client);
	dialler_free(t->dialler);
	ws_free(t->ws);
	uv_loop_close(&t->loop);
	trial_free(t);
}

/* If the profile has a shard, uses only the items of the first connection. */
static int open_shard(struct trial *t, char *error, size_t size)
{
	char why[SHARD_REASON];
	json_auto_t *parts = t->profile->shard.var ? shard_load(t->profile, why) : NULL;

	if (t->profile->shard.var && !parts) {
		snprintf(error, size, "its list cannot be used: %.250s",
			 *why ? why : "it comes by HTTP, which only a listener asks for; give vars one, too");
		return -1;
	}
	if (parts) {
		if (json_array_size(parts) > 1 && !t->is_quiet)
			dispatch_fail("%s needs %zu connections; this is only the first, with the items of %s/1",
				      t->profile->name, json_array_size(parts), t->profile->name);
		t->profile = t->shard = shard_profile(t->profile, 1);
		shard_set(t->shard, json_array_get(parts, 0));
	}
	return 0;
}

/* Returns 0; or -1 and a sentence in seen.error. */
static int talk(struct trial *t, const struct config *config, int64_t seconds)
{
	char *error = t->seen.error;
	size_t size = sizeof(t->seen.error);
	struct source_view v;

	signal(SIGPIPE, SIG_IGN);
	if (open_shard(t, error, size))
		return -1;
	snprintf(error, size, "the event loop cannot start");
	if (uv_loop_init(&t->loop) || open_parts(t, config, error, size))
		return -1;
	start_timers(t, seconds);
	feed_client_start(t->client);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	progress_clear();
	if (t->too_long && !t->is_quiet)
		dispatch_fail("%" PRIu64 " messages are left out: they are longer than --max-message, or the profile's "
			      "max_message_bytes, allows",
			      t->too_long);
	v = feed_client_view(t->client);
	t->seen.connects = v.connects;
	t->seen.is_stopped = v.is_stopped;
	snprintf(t->seen.error, sizeof(t->seen.error), "%s", v.error);
	return 0;
}

/* If the feed does not fit its profile, writes why to what and returns true. */
static bool find_misfit(const struct trial *t, const struct source_view *v, char *what, size_t size)
{
	const struct profile *p = t->profile;
	uint64_t frames = 0, rejected = t->too_long, unknown = 0;

	for (size_t i = 0; i <= p->rule_count; i++) {
		frames += v->rules[i].frames;
		rejected += v->rules[i].rejected;
	}
	if (p->fallback.action != ACTION_EVENT)
		unknown = v->rules[p->rule_count].frames;
	if (!t->seen.events)
		snprintf(what, size, "no event came%s%s", *v->error ? ": " : "", v->error);
	else if (unknown * 100 > frames)
		snprintf(what, size, "%" PRIu64 " of %" PRIu64 " messages match no rule", unknown, frames);
	else if (rejected * 100 > t->seen.events + rejected)
		snprintf(what, size, "%" PRIu64 " dead letters would come with %" PRIu64 " events", rejected,
			 t->seen.events);
	else
		return false;
	return true;
}

/* Connects to the feed for some seconds (0: until Ctrl-C), then prints what each rule did. Returns STATUS_FAILED if no
 * connection was made, or if a rule or a close code ended the feed for good; with --expect also if no event came, or
 * more than 1 % of what came is unknown or rejected, and prints nothing if all is well. */
static int try_feed(const struct invocation *in, const struct profile *p, int64_t seconds)
{
	const struct given *o = in->options;
	struct trial t = {.profile = p, .is_quiet = o->expect_us};
	struct source_view v;
	char what[400] = "";
	bool is_misfit;

	if (talk(&t, in->config, seconds))
		return dispatch_fail("%s", t.seen.error);
	v = feed_client_view(t.client);
	is_misfit = o->expect_us && find_misfit(&t, &v, what, sizeof(what));
	if (!o->expect_us || is_misfit || t.seen.is_stopped)
		(o->is_json ? print_feed_json : print_feed_text)(&t, &v);
	if (is_misfit)
		dispatch_fail("%s does not fit its profile: %s%s", p->name, what,
			      t.too_long ? "; some messages are longer than --max-message or max_message_bytes" : "");
	forget(&t);
	return t.seen.connects && !t.seen.is_stopped && !is_misfit ? STATUS_FINE : STATUS_FAILED;
}

/* Writes messages until there are enough (0: any number), the time is over, a write fails, or Ctrl-C. */
static int record_feed(const struct invocation *in, const struct profile *p, FILE *lines, struct segments *segments)
{
	const struct given *o = in->options;
	struct trial t = {.profile = p, .lines = lines, .segments = segments, .messages_left = o->messages};

	if (talk(&t, in->config, o->seconds))
		return dispatch_fail("%s", t.seen.error);
	forget(&t);
	if (t.seen.messages || t.too_long)
		return t.too_long ? STATUS_FAILED : STATUS_FINE;
	return dispatch_fail("nothing was recorded: %s", *t.seen.error ? t.seen.error : "no message came");
}

/* Reads envelopes and their times as a listener with these settings does. */
static void read_as_listener(struct trial *t, const struct config *config)
{
	if (!t->profile->redacted_url) {
		age_limit_init_feeds(&t->age, config);
		return;
	}
	age_limit_init(&t->age, config);
	t->age.unit = timestamp_unit_named(config->time_unit);
	t->envelope = envelope_new(&config->id_pointers, config->type_pointer, config->payload_pointer);
	if (config->time_pointer)
		envelope_add_time(t->envelope, config->time_pointer, false);
}

int try_look(const struct config *config, const struct profile *p, int64_t seconds, struct try_seen *seen)
{
	struct trial t = {.profile = p, .is_look = true, .is_quiet = true};
	int failed;

	read_as_listener(&t, config);
	failed = talk(&t, config, seconds);
	*seen = t.seen;
	if (failed)
		return -1;
	forget(&t);
	return 0;
}

/* --- the commands --- */

/* Returns the profile of --profile or --feed, after printing what is doubtful in it; NULL after printing why. */
static struct profile *read_profile(const struct given *o)
{
	struct profile_fault fault;
	struct profile *p = o->profile ? profile_read_any(o->profile, &fault) : profile_read_named(o->feed, &fault);

	if (!p || *p->doubt.text)
		dispatch_fail("%s", p ? p->doubt.text : fault.text);
	return p;
}

int try_command(const struct invocation *in)
{
	const struct given *o = in->options;
	struct profile *p = read_profile(o);
	int result;

	if (!p)
		return STATUS_USAGE;
	if (o->frames)
		result = try_recording(p, o->frames, o->connections ? o->connections : "1",
				       o->now_s == NOT_GIVEN ? NOW_S : o->now_s);
	else if (o->expect_us)
		result = try_feed(in, p, o->expect_us / 1000000);
	else
		result = try_feed(in, p, o->seconds == NOT_GIVEN ? SECONDS : o->seconds);
	profile_free(p);
	return result;
}

const char *record_check(const struct invocation *in)
{
	const struct given *o = in->options;

	if (o->rotate_us && !o->is_segments)
		return "--rotate goes with --segments";
	return !o->profile == !o->feed ? "record needs either --profile FILE or --feed NAME" : NULL;
}

/* Opens a new file, no link, that nobody else may read: messages may hold secrets. Returns NULL after printing why. */
static FILE *open_new(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		dispatch_fail("%s is there already: give the name of a new file", path);
	else if (fd < 0)
		dispatch_fail("%s cannot be created: %s", path, strerror(errno));
	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Returns 0; or -1 with errno if not all could be written. */
static int close_lines(FILE *lines, const char *path)
{
	if (lines != stdout && ftell(lines) == 0)
		unlink(path); /* so that the next attempt does not find it */
	return (ferror(lines) | (lines == stdout ? fflush(lines) : fclose(lines))) ? -1 : 0;
}

int record_command(const struct invocation *in)
{
	const struct given *o = in->options;
	const char *path = in->words[0];
	struct profile *p = read_profile(o);
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
		status = record_feed(in, p, lines, segments);
	if ((lines && close_lines(lines, path)) || (segments && segments_close(segments)))
		status = dispatch_fail("%s: cannot be written: %s", path, strerror(errno));
	profile_free(p);
	return status;
}
