/* live.c connects to a feed for `wsonce try`, `wsonce record` and `wsonce check`: it owns a loop, and the callbacks
 * that count messages or write them to a file. Nothing is stored, so cursors advance as soon as an event is seen. */
#include "commands/live.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "commands/examples.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/ndjson.h"
#include "commands/progress.h"
#include "intake/feed_client.h"
#include "event/age_limit.h"
#include "event/envelope.h"
#include "feed/shard.h"

#define SAMPLES      3
#define SAMPLE_BYTES 80
#define IDS_MOST     1000000 /* ids remembered to find duplicates */
#define GOODBYE_MS   300
#define TICK_MS      50

struct live {
	uv_loop_t loop;
	const struct profile *profile;
	struct profile *shard; /* owned; if not NULL, profile points to it */
	struct ws *ws;
	struct dialler *dialler;
	struct requests *requests;
	struct session *session;
	struct feed_client *client;
	uv_timer_t end;
	uv_timer_t tick;
	FILE *lines; /* of a recording, or NULL */
	struct segments *segments;
	int64_t messages_left; /* 0: any number */
	bool is_look;          /* for live_look(): ends with the first event or dead letter */
	struct age_limit age;
	struct envelope *envelope; /* of a plain source; NULL: rules read the messages */
	bool is_ending;
	struct live_seen seen;
	uint64_t duplicates, acks, too_long;
	json_t *ids;               /* the names of an object */
	json_t *samples;           /* the first ids */
	struct examples *examples; /* NULL: none are wanted */
};

/* --- callbacks of the feed --- */

static void *on_open(void *arg, struct feed_connection *conn)
{
	(void)conn;
	return arg;
}

static void end_soon(struct live *l);

static void record(struct live *l, const char *message, size_t len)
{
	bool is_written = l->lines ? ndjson_write(l->lines, message, len) : segments_add(l->segments, message, len);

	if (!is_written || (l->messages_left && !--l->messages_left))
		end_soon(l);
}

static void note_id(struct live *l, struct slice id)
{
	if (json_object_getn(l->ids, id.at, id.len)) {
		l->duplicates++;
		return;
	}
	if (json_object_size(l->ids) < IDS_MOST)
		json_object_setn_new_nocheck(l->ids, id.at, id.len, json_true());
	if (json_array_size(l->samples) < SAMPLES)
		json_array_append_new(l->samples, make_json(id.at, id.len < SAMPLE_BYTES ? id.len : SAMPLE_BYTES));
}

static void on_reject(void *of, struct slice bytes, const char *why)
{
	struct live *l = of;

	if (l->examples)
		examples_reject(l->examples, bytes, why);
	snprintf(l->seen.rejected, sizeof(l->seen.rejected), "%s", why);
	if (l->is_look)
		end_soon(l);
}

static void on_event(void *of, const struct session_event *event)
{
	struct live *l = of;
	const char *stale = age_limit_reason(&l->age, event->time, event->time_unit, clock_us(CLOCK_REALTIME));
	int64_t us;

	l->seen.has_time = event->time.at && timestamp_parse(event->time.at, event->time.len, event->time_unit, &us);
	if (stale) {
		on_reject(of, event->payload, stale);
		return;
	}
	l->seen.events++;
	if (l->examples)
		examples_add(l->examples, event);
	if (l->is_look)
		end_soon(l);
	note_id(l, event->id);
	if (event->cursor.at)
		session_advance(l->session, event->cursor, time(NULL));
}

/* Reads a message of a plain source as the pipeline does. */
static bool read_envelope(struct live *l, const char *message, size_t len)
{
	struct envelope_view view;
	const char *fault = envelope_read(l->envelope, message, len, &view);

	if (fault)
		on_reject(l, (struct slice){message, len}, fault);
	else
		on_event(l, &(struct session_event){.id = view.id,
						    .payload = view.payload,
						    .time = envelope_time(l->envelope),
						    .time_unit = l->age.unit});
	return !fault;
}

static bool on_message(void *of, const char *message, size_t len)
{
	struct live *l = of;

	if (l->is_ending)
		return false;
	l->seen.messages++;
	if (l->lines || l->segments)
		record(l, message, len);
	return l->envelope && read_envelope(l, message, len);
}

static void on_cursor(void *of, struct slice cursor)
{
	struct live *l = of;

	session_advance(l->session, cursor, time(NULL));
}

/* Counts acks and sends none, because nothing is stored: the feed keeps the events for the fleet. */
static void on_ack(void *of, struct slice frame)
{
	struct live *l = of;

	(void)frame;
	l->acks++;
}

static void on_too_long(void *of, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct live *l = of;

	(void)head, (void)len, (void)digest, (void)total;
	l->too_long++;
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

/* --- output --- */

static const char *rule_name(const struct live *l, size_t i)
{
	if (i == l->profile->rule_count)
		return "(no rule)";
	return l->profile->rules[i].name ? l->profile->rules[i].name : "(without a name)";
}

static json_t *describe_rule(const struct live *l, const struct rule_count *count, size_t i)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "rule", json_out_string(rule_name(l, i)), "frames",
			 (json_int_t)count->frames, "events", (json_int_t)count->events, "ignored",
			 (json_int_t)count->nothing, "rejected", (json_int_t)count->rejected, "filtered",
			 (json_int_t)count->filtered, "replies", (json_int_t)count->sends);
}

static void print_json(struct live *l, const struct feed_client_view *v)
{
	struct slice cursor = session_cursor(l->session);
	char *text = cursor.at ? memory_strndup(cursor.at, cursor.len) : NULL;
	json_t *rules = json_array();
	struct json_out o;

	for (size_t i = 0; i <= l->profile->rule_count; i++)
		json_array_append_new(rules, describe_rule(l, &v->rules[i], i));
	json_out_open(&o);
	json_out_members(&o, json_pack("{so so sI so? sI sI sI sI sI sI sI sI sO so?}", "source",
				       json_out_string(l->profile->name), "url", json_out_string(v->url), "connections",
				       (json_int_t)v->connects, "error", json_out_string(*v->error ? v->error : NULL),
				       "messages", (json_int_t)l->seen.messages, "events", (json_int_t)l->seen.events,
				       "duplicates", (json_int_t)l->duplicates, "too_long", (json_int_t)l->too_long,
				       "replies", (json_int_t)v->replies, "acks_owed", (json_int_t)l->acks, "gaps",
				       (json_int_t)v->gaps.gaps, "missing", (json_int_t)v->gaps.missing, "sample_ids",
				       l->samples, "rejected_because",
				       json_out_string(*l->seen.rejected ? l->seen.rejected : NULL)));
	json_out_member_text(&o, "cursor", text ? text : "null");
	json_out_member_text(&o, "examples", examples_array(&l->examples->events).at);
	json_out_member_text(&o, "rejected", examples_array(&l->examples->rejected).at);
	json_out_member(&o, "rules", rules);
	json_out_close(&o);
	free(text);
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

static void print_text(struct live *l, const struct feed_client_view *v)
{
	struct slice cursor = session_cursor(l->session);

	print_line("source", l->profile->name, strlen(l->profile->name));
	print_line("url", v->url, strlen(v->url));
	print_line("error", v->error, strlen(v->error));
	printf("connections %" PRIu64 ", messages %" PRIu64 ", events %" PRIu64 ", duplicates %" PRIu64
	       ", replies %" PRIu64 ", acks owed %" PRIu64 "\n\n",
	       v->connects, l->seen.messages, l->seen.events, l->duplicates, v->replies, l->acks);
	printf("%-20s %10s %10s %10s %10s %10s %10s\n", "rule", "frames", "events", "ignored", "rejected", "filtered",
	       "replies");
	for (size_t i = 0; i <= l->profile->rule_count; i++) {
		const struct rule_count *n = &v->rules[i];

		json_out_column(rule_name(l, i), 20);
		printf(" %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
		       n->frames, n->events, n->nothing, n->rejected, n->filtered, n->sends);
	}
	putchar('\n');
	print_lines("event", &l->examples->events);
	print_lines("rejected", &l->examples->rejected);
	if (v->gaps.gaps)
		printf("%-12s%" PRIu64 ", with %" PRIu64 " numbers\n", "gaps", v->gaps.gaps, v->gaps.missing);
	print_line("cursor", cursor.at, cursor.len);
}

/* --- the loop --- */

static void close_all(uv_timer_t *timer)
{
	struct live *l = timer->data;

	feed_client_close(l->client);
	requests_close(l->requests);
	ws_close(l->ws);
	uv_close((uv_handle_t *)&l->end, NULL);
	uv_close((uv_handle_t *)&l->tick, NULL);
}

/* Sends a close frame, and leaves it some time before everything is closed. */
static void on_end(uv_timer_t *timer)
{
	struct live *l = timer->data;

	feed_client_stop(l->client, (unsigned int)l->profile->close_code_on_stop);
	uv_timer_start(timer, close_all, GOODBYE_MS, 0);
}

static void end_soon(struct live *l)
{
	if (l->is_ending)
		return;
	l->is_ending = true;
	uv_timer_start(&l->end, on_end, 0, 0);
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

static int open_parts(struct live *l, const struct config *config, char *error, size_t size)
{
	const struct ws_budget budget = {l, charge, is_never_full, is_never_full};

	l->ws = ws_open(&l->loop, config, &budget);
	if (!l->ws) {
		snprintf(error, size,
			 "libwebsockets cannot start: is its libuv plugin (libwebsockets-evlib-uv) installed?");
		return -1;
	}
	l->dialler = dialler_open(l->ws, config, strncmp(l->profile->url, "wss:", 4) == 0, error, size);
	if (!l->dialler)
		return -1;
	l->requests = requests_open(&l->loop, config);
	l->session = session_new(l->profile, false);
	l->ids = json_object();
	l->samples = json_array();
	l->client = feed_client_new(&(struct feed_client_parts){&l->loop, config, l->dialler, l->requests, l->profile,
								l->session, &callbacks, l, NULL});
	return 0;
}

/* Ends when the feed has stopped for good. live_look() also ends after an error, which would only repeat. */
static void on_tick(uv_timer_t *timer)
{
	struct live *l = timer->data;
	struct feed_client_view v = feed_client_view(l->client);

	if (interrupt_has_come() || v.is_stopped || (l->is_look && *v.error && !v.is_open))
		end_soon(l);
	if (!l->is_look)
		progress_show("%s %s: %" PRIu64 " messages, %" PRIu64 " events, %" PRIu64 " duplicates%s%s", v.state,
			      v.url, l->seen.messages, l->seen.events, l->duplicates, *v.error ? ": " : "", v.error);
}

static void start_timers(struct live *l, int64_t seconds)
{
	uv_timer_init(&l->loop, &l->end);
	uv_timer_init(&l->loop, &l->tick);
	l->end.data = l->tick.data = l;
	if (seconds)
		uv_timer_start(&l->end, on_end, (uint64_t)seconds * 1000, 0);
	uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
	interrupt_watch();
}

static void forget(struct live *l)
{
	json_decref(l->ids);
	json_decref(l->samples);
	feed_client_free(l->client);
	session_free(l->session);
	shard_free(l->shard);
	dialler_free(l->dialler);
	ws_free(l->ws);
	uv_loop_close(&l->loop);
}

/* If the profile has a shard, uses only the items of the first connection. */
static int open_shard(struct live *l, char *error, size_t size)
{
	char why[SHARD_REASON];
	json_t *parts = l->profile->shard.var ? shard_load(l->profile, why) : NULL;

	if (l->profile->shard.var && !parts) {
		snprintf(error, size, "its list cannot be used: %.250s",
			 *why ? why : "it comes by HTTP, which only a listener asks for; give vars one, too");
		return -1;
	}
	if (parts) {
		l->profile = l->shard = shard_profile(l->profile, 1);
		shard_set(l->shard, json_array_get(parts, 0));
	}
	json_decref(parts);
	return 0;
}

/* Returns 0; or -1 and a sentence in seen.error. */
static int talk(struct live *l, const struct config *config, int64_t seconds)
{
	char *error = l->seen.error;
	size_t size = sizeof(l->seen.error);
	struct feed_client_view v;

	signal(SIGPIPE, SIG_IGN);
	if (open_shard(l, error, size))
		return -1;
	snprintf(error, size, "the event loop cannot start");
	if (uv_loop_init(&l->loop) || open_parts(l, config, error, size))
		return -1;
	start_timers(l, seconds);
	feed_client_start(l->client);
	uv_run(&l->loop, UV_RUN_DEFAULT);
	progress_clear();
	v = feed_client_view(l->client);
	l->seen.connects = v.connects;
	l->seen.is_stopped = v.is_stopped;
	snprintf(l->seen.error, sizeof(l->seen.error), "%s", v.error);
	return 0;
}

struct profile *live_profile(const char *file, const char *feed)
{
	struct profile_fault fault;
	struct profile *p = file ? profile_read_any(file, &fault) : profile_read_named(feed, &fault);

	if (!p || *p->doubt.text)
		dispatch_fail("%s", p ? p->doubt.text : fault.text);
	return p;
}

/* Returns true after writing to what why the feed does not fit its profile; false if it fits. */
static bool find_misfit(const struct live *l, const struct feed_client_view *v, char *what, size_t size)
{
	const struct profile *p = l->profile;
	uint64_t frames = 0, rejected = 0, unknown = 0;

	for (size_t i = 0; i <= p->rule_count; i++) {
		frames += v->rules[i].frames;
		rejected += v->rules[i].rejected;
	}
	if (p->fallback.action != ACTION_EVENT)
		unknown = v->rules[p->rule_count].frames;
	if (!l->seen.events)
		snprintf(what, size, "no event came%s%s", *v->error ? ": " : "", v->error);
	else if (unknown * 100 > frames)
		snprintf(what, size, "%" PRIu64 " of %" PRIu64 " messages match no rule", unknown, frames);
	else if (rejected * 100 > l->seen.events + rejected)
		snprintf(what, size, "%" PRIu64 " dead letters would come with %" PRIu64 " events", rejected,
			 l->seen.events);
	else
		return false;
	return true;
}

int live_try(const struct invocation *in, const struct profile *p, int64_t seconds, bool is_json, bool is_expecting)
{
	struct examples examples = {.profile = p};
	struct live l = {.profile = p, .examples = &examples};
	struct feed_client_view v;
	char what[400] = "";
	bool is_misfit;

	if (talk(&l, in->config, seconds))
		return dispatch_fail("%s", l.seen.error);
	v = feed_client_view(l.client);
	is_misfit = is_expecting && find_misfit(&l, &v, what, sizeof(what));
	if (!is_expecting || is_misfit || l.seen.is_stopped)
		(is_json ? print_json : print_text)(&l, &v);
	if (is_misfit)
		dispatch_fail("%s does not fit its profile: %s", p->name, what);
	forget(&l);
	examples_free(&examples);
	return l.seen.connects && !l.seen.is_stopped && !is_misfit ? STATUS_FINE : STATUS_FAILED;
}

int live_record(const struct invocation *in, const struct profile *p, FILE *lines, struct segments *segments,
		int64_t messages, int64_t seconds)
{
	struct live l = {.profile = p, .lines = lines, .segments = segments, .messages_left = messages};

	if (talk(&l, in->config, seconds))
		return dispatch_fail("%s", l.seen.error);
	forget(&l);
	if (l.seen.messages)
		return STATUS_FINE;
	return dispatch_fail("nothing was recorded: %s", *l.seen.error ? l.seen.error : "no message came");
}

/* Reads envelopes and their times as a listener with these settings does. */
static void read_as_listener(struct live *l, const struct config *config)
{
	if (!l->profile->redacted_url) {
		age_limit_init_feeds(&l->age, config);
		return;
	}
	age_limit_init(&l->age, config);
	l->age.unit = timestamp_unit_named(config->time_unit);
	l->envelope = envelope_new(&config->id_pointers, config->type_pointer, config->payload_pointer);
	if (config->time_pointer)
		envelope_add_time(l->envelope, config->time_pointer, false);
}

int live_look(const struct config *config, const struct profile *p, int64_t seconds, struct live_seen *seen)
{
	struct live l = {.profile = p, .is_look = true};
	int failed;

	read_as_listener(&l, config);
	failed = talk(&l, config, seconds);
	*seen = l.seen;
	if (failed)
		return -1;
	envelope_free(l.envelope);
	forget(&l);
	return 0;
}
