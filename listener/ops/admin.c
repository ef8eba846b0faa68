/* admin.c owns the pages for operators. It reads the other parts and changes nothing; no page holds
 * a password, a token or an event, but the id of the oldest that is unsettled. */
#include "ops/admin.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/counters.h"
#include "base/memory.h"
#include "net/http.h"
#include "ops/overdue.h"
#include "base/url.h"
#include "base/text.h"

enum status {
	STATUS_OK = 200,
	STATUS_NOT_FOUND = 404,
	STATUS_FAILED = 500,
	STATUS_UNAVAILABLE = 503,
};

struct admin {
	const struct admin_parts *parts;
	int64_t started_ms;
	uv_loop_t *loop;
	struct http_site site;
	struct http *http;
};

/* --- readiness --- */

/* Ready is: what comes in can be stored. Redis is not needed for that, the unique key carries on;
 * 503 tells a balancer or compose to wait. */
static unsigned int write_ready(const struct admin *a, FILE *out)
{
	const struct admin_parts *p = a->parts;
	const struct claim *claim = pipeline_claim(p->pipeline);
	const char *why;

	if (p->is_draining) {
		fprintf(out, "not ready: draining\n");
		return STATUS_UNAVAILABLE;
	}
	if (!pipeline_can_store(p->pipeline, &why)) {
		fprintf(out, "not ready: postgres: %s\n", *why ? "cannot store; the log says why" : "connecting");
		return STATUS_UNAVAILABLE;
	}
	for (size_t i = 0; p->sources && i < sources_count(p->sources); i++) {
		struct source_view s = sources_view(p->sources, i);

		if (!s.is_ready) {
			fprintf(out, "not ready: source %zu: %s\n", i + 1, s.state);
			return STATUS_UNAVAILABLE;
		}
	}
	if (p->config->ingest && !p->ingest) {
		fprintf(out, "not ready: ingest: the port is not open\n");
		return STATUS_UNAVAILABLE;
	}
	if (claim_is_used(claim) && !claim_is_ready(claim))
		fprintf(out, "degraded: redis is down, the unique key decides\n");
	else if (claim_is_refused(claim))
		fprintf(out, "degraded: redis rejects claims, the unique key decides\n");
	else
		fprintf(out, "ready\n");
	return STATUS_OK;
}

/* --- metrics: the Prometheus text format, version 0.0.4 --- */

static void put_type(FILE *out, const char *name, const char *type, const char *meaning)
{
	fprintf(out, "# HELP wsonce_%s %s\n# TYPE wsonce_%s %s\n", name, meaning, name, type);
}

static void put_counter(void *arg, const char *name, const char *meaning, uint64_t value)
{
	fprintf(arg, "# HELP wsonce_%s_total %s\n# TYPE wsonce_%s_total counter\nwsonce_%s_total %llu\n", name, meaning,
		name, name, (unsigned long long)value);
}

static void put_gauge(FILE *out, const char *name, const char *meaning, double value)
{
	put_type(out, name, "gauge", meaning);
	fprintf(out, "wsonce_%s %.17g\n", name, value);
}

static void put_histogram(FILE *out, const char *name, const char *meaning, const struct histogram *h)
{
	static const double bounds[] = HISTOGRAM_BOUNDS_MS;
	uint64_t sum = 0;

	fprintf(out, "# HELP wsonce_%s_seconds %s\n# TYPE wsonce_%s_seconds histogram\n", name, meaning, name);
	for (int i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		sum += h->buckets[i];
		fprintf(out, "wsonce_%s_seconds_bucket{le=\"%g\"} %llu\n", name, bounds[i] / 1000,
			(unsigned long long)sum);
	}
	fprintf(out, "wsonce_%s_seconds_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)h->count);
	fprintf(out, "wsonce_%s_seconds_sum %.6f\nwsonce_%s_seconds_count %llu\n", name, h->sum_ms / 1000, name,
		(unsigned long long)h->count);
}

/* Resident memory as the kernel counts it (proc(5), statm). */
static double resident_bytes(void)
{
	char line[128], *resident = NULL;
	FILE *in = fopen("/proc/self/statm", "r");

	if (!in)
		return 0;
	if (fgets(line, sizeof(line), in))
		resident = strchr(line, ' ');
	fclose(in);
	return resident ? (double)strtol(resident, NULL, 10) * (double)sysconf(_SC_PAGESIZE) : 0;
}

static size_t sources_open_count(const struct sources *s)
{
	size_t n = 0;

	for (size_t i = 0; s && i < sources_count(s); i++)
		n += sources_view(s, i).is_open;
	return n;
}

static void put_label(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc((unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text, out);
}

/* A source's own labels: its number, as two may have the same URL, and the URL. */
static void put_source(FILE *out, const char *name, size_t i, const char *url, int64_t value)
{
	fprintf(out, "wsonce_%s{source=\"%zu\",url=\"", name, i + 1);
	put_label(out, url);
	fprintf(out, "\"} %lld\n", (long long)value);
}

/* A line for each rule of each profile, and one for what matched none: their number is the profiles'. */
static void put_rules(FILE *out, const struct sources *s, const char *name, const char *meaning, size_t offset)
{
	bool has_type = false;

	for (size_t i = 0; s && i < sources_count(s); i++) {
		struct source_view view = sources_view(s, i);

		for (size_t r = 0; view.profile && r <= view.profile->rule_count; r++) {
			const char *rule = r == view.profile->rule_count ? "" : view.profile->rules[r].name;
			char number[24];

			snprintf(number, sizeof(number), "#%zu", r + 1);

			if (!has_type)
				put_type(out, name, "counter", meaning);
			has_type = true;
			fprintf(out, "wsonce_%s{source=\"", name);
			put_label(out, view.profile->name);
			fprintf(out, "\",rule=\"");
			put_label(out, rule ? rule : number);
			fprintf(out, "\"} %llu\n",
				(unsigned long long)*(const uint64_t *)(const void *)((const char *)&view.rules[r] +
										      offset));
		}
	}
}

/* A line for each profile that says where its numbers are. */
static void put_numbering(FILE *out, const struct sources *s, const char *name, const char *meaning, size_t offset)
{
	bool has_type = false;

	for (size_t i = 0; s && i < sources_count(s); i++) {
		struct source_view view = sources_view(s, i);

		if (!view.profile || !view.profile->gap.contiguous)
			continue;
		if (!has_type)
			put_type(out, name, "counter", meaning);
		has_type = true;
		fprintf(out, "wsonce_%s{source=\"", name);
		put_label(out, view.profile->name);
		fprintf(out, "\"} %llu\n",
			(unsigned long long)*(const uint64_t *)(const void *)((const char *)&view.numbering + offset));
	}
}

static void put_all_rules(FILE *out, const struct sources *s)
{
	put_rules(out, s, "feed_frames_total", "Frames that matched this rule; rule \"\": none.",
		  offsetof(struct rule_count, frames));
	put_rules(out, s, "feed_events_total", "Events in them.", offsetof(struct rule_count, events));
	put_rules(out, s, "feed_frames_without_events_total", "Those of them that held no event.",
		  offsetof(struct rule_count, nothing));
	put_rules(out, s, "feed_rejected_total", "Dead letters that they became, whole or in part.",
		  offsetof(struct rule_count, rejected));
	put_rules(out, s, "feed_replies_total", "Replies to them.", offsetof(struct rule_count, sends));
	put_numbering(out, s, "feed_gaps_total", "Holes in the source's numbering.",
		      offsetof(struct numbering_count, gaps));
	put_numbering(out, s, "feed_missing_total", "Numbers in those holes.",
		      offsetof(struct numbering_count, missing));
}

static void put_sources(FILE *out, const struct sources *s)
{
	size_t count = s ? sources_count(s) : 0;

	put_gauge(out, "sources", "Sources configured.", (double)count);
	put_gauge(out, "sources_open", "Sources connected.", (double)sources_open_count(s));
	put_type(out, "source_up", "gauge", "1 while this source is connected.");
	for (size_t i = 0; i < count; i++)
		put_source(out, "source_up", i, sources_view(s, i).url, sources_view(s, i).is_open);
	put_type(out, "source_last_message_timestamp_seconds", "gauge",
		 "Unix time of this source's last message; 0 if there was none.");
	for (size_t i = 0; i < count; i++)
		put_source(out, "source_last_message_timestamp_seconds", i, sources_view(s, i).url,
			   sources_view(s, i).last_message_s);
	put_all_rules(out, s);
}

/* Of the events here, and of the deliveries wherever they are. */
static int64_t oldest_ms(const struct admin *a)
{
	int64_t here = overdue_oldest_ms(pipeline_events(a->parts->pipeline), (int64_t)uv_now(a->loop));
	int64_t pending = a->parts->relay ? relay_backlog(a->parts->relay)->oldest_ms : 0;

	return here > pending ? here : pending;
}

static void put_targets(FILE *out, const struct relay *r)
{
	put_type(out, "deliveries_total", "counter", "Webhook delivery attempts by outcome.");
	for (size_t i = 0; i < relay_targets(r); i++)
		for (int o = 0; o < TARGET_OUTCOMES; o++)
			fprintf(out, "wsonce_deliveries_total{target=\"%s\",outcome=\"%s\"} %llu\n",
				relay_target(r, i)->webhook->name, target_outcome_name((enum target_outcome)o),
				(unsigned long long)relay_target(r, i)->ended[o]);
	put_type(out, "deliveries_in_flight", "gauge", "Webhook requests in flight.");
	for (size_t i = 0; i < relay_targets(r); i++)
		fprintf(out, "wsonce_deliveries_in_flight{target=\"%s\"} %zu\n", relay_target(r, i)->webhook->name,
			relay_target(r, i)->at_work);
	put_type(out, "webhook_paused", "gauge", "1 while a webhook is paused because it fails.");
	for (size_t i = 0; i < relay_targets(r); i++)
		fprintf(out, "wsonce_webhook_paused{target=\"%s\"} %d\n", relay_target(r, i)->webhook->name,
			relay_target(r, i)->state != TARGET_OPEN);
	put_gauge(out, "outbox_pending", "Pending deliveries of the whole fleet; counted up to 20000.",
		  (double)relay_backlog(r)->pending);
	put_gauge(out, "outbox_oldest_seconds", "How long the oldest delivery has been pending; 0 if there is none.",
		  (double)relay_backlog(r)->oldest_ms / 1000);
}

struct token_sums {
	uint64_t connections, messages, rejected;
};

/* Of all tokens with this name, of which there are two while one is replaced by the next. */
static struct token_sums sum_tokens(const struct token *t, const char *name)
{
	struct token_sums sums = {0, 0, 0};

	for (; t; t = t->next) {
		if (strcmp(t->name, name) != 0)
			continue;
		sums.connections += t->connections;
		sums.messages += t->messages;
		sums.rejected += t->rejected;
	}
	return sums;
}

static bool is_first_of_name(const struct token *first, const struct token *t)
{
	while (strcmp(first->name, t->name) != 0)
		first = first->next;
	return first == t;
}

static void put_tokens(FILE *out, const struct token *first)
{
	static const char *const names[] = {"token_connections", "token_messages_total", "token_rejected_total"};
	static const char *const meanings[] = {"Connected producers by token name.",
					       "Messages received from producers, by token name.",
					       "Messages of producers that became dead letters, by token name."};

	for (int i = 0; first && i < 3; i++) {
		put_type(out, names[i], i ? "counter" : "gauge", meanings[i]);
		for (const struct token *t = first; t; t = t->next) {
			struct token_sums sums = sum_tokens(t, t->name);
			uint64_t values[] = {sums.connections, sums.messages, sums.rejected};

			if (is_first_of_name(first, t))
				fprintf(out, "wsonce_%s{token=\"%s\"} %llu\n", names[i], t->name,
					(unsigned long long)values[i]);
		}
	}
}

static unsigned int write_metrics(const struct admin *a, FILE *out)
{
	const struct admin_parts *p = a->parts;
	const struct events *events = pipeline_events(p->pipeline);
	const struct claim *claim = pipeline_claim(p->pipeline);
	const char *why;

	counters_each(put_counter, out);
	put_gauge(out, "in_flight", "Messages received and not settled.", (double)events->messages);
	put_gauge(out, "oldest_unsettled_seconds",
		  "Age of the oldest unsettled event or pending delivery; 0 if there is none.",
		  (double)oldest_ms(a) / 1000);
	put_gauge(out, "in_flight_bytes", "Bytes of the budget in use.", (double)pipeline_bytes(p->pipeline));
	put_gauge(out, "in_flight_bytes_limit", "The budget.", (double)p->config->inflight_bytes);
	put_gauge(out, "paused", "1 while reading is paused at the memory limit.", pipeline_is_full(p->pipeline));
	put_gauge(out, "ingest_paused", "1 while producers are not read because they use up their share of memory.",
		  pipeline_is_full_for_producers(p->pipeline));
	if (claim_is_used(claim))
		put_gauge(out, "redis_up", "1 while claims can be made; absent with --redis none.",
			  claim_is_ready(claim) && !claim_is_refused(claim));
	put_gauge(out, "postgres_up", "1 while rows can be stored.", pipeline_can_store(p->pipeline, &why));
	put_sources(out, p->sources);
	put_gauge(out, "ingest_connections", "Producers connected.",
		  p->ingest ? (double)ingest_connections(p->ingest) : 0);
	if (p->ingest)
		put_tokens(out, ingest_tokens(p->ingest));
	put_gauge(out, "resident_bytes", "Resident memory of the process.", resident_bytes());
	put_type(out, "events", "gauge", "Events in memory by state.");
	for (int i = 0; i < EVENT_STATES - 1; i++)
		fprintf(out, "wsonce_events{state=\"%s\"} %zu\n", event_state_name((enum event_state)i),
			events->counts[i]);
	if (p->relay)
		put_targets(out, p->relay);
	put_histogram(out, "commit_latency", "Time from receiving a message to its commit.", &commit_latency);
	put_histogram(out, "duplicate_delay", "Time from an event's claim to the arrival of a further copy.",
		      &duplicate_delay);
	return STATUS_OK;
}

/* --- status --- */

static void put_json_counter(void *arg, const char *name, const char *meaning, uint64_t value)
{
	(void)meaning;
	json_object_set_new(arg, name, json_integer((json_int_t)value));
}

/* What servers say may be cut off inside a character, or be in another encoding. */
static json_t *describe_text(const char *text)
{
	return make_json(text, strlen(text));
}

/* In UTC; null for never. */
static json_t *describe_time(int64_t s)
{
	time_t at = (time_t)s;
	struct tm tm;
	char text[40];

	if (!s)
		return json_null();
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
	return json_string(text);
}

/* There is nothing to be up or down with --redis none. */
static json_t *describe_redis(const struct claim *claim)
{
	if (!claim_is_used(claim))
		return json_pack("{s:b}", "used", 0);
	return json_pack("{s:b, s:b, s:b}", "used", 1, "up", claim_is_ready(claim), "refuses", claim_is_refused(claim));
}

/* null: the source's numbers need not follow each other. */
static json_t *describe_gaps(const struct source_view *view)
{
	if (!view->profile || !view->profile->gap.contiguous)
		return json_null();
	return json_pack("{s:I, s:I}", "count", (json_int_t)view->numbering.gaps, "missing",
			 (json_int_t)view->numbering.missing);
}

static json_t *describe_sources(const struct sources *s)
{
	json_t *all = json_array();

	for (size_t i = 0; s && i < sources_count(s); i++) {
		struct source_view view = sources_view(s, i);

		json_array_append_new(all, json_pack("{s:o, s:o, s:s, s:o, s:o, s:o}", "name",
						     view.profile ? describe_text(view.profile->name) : json_null(),
						     "url", describe_text(view.url), "state", view.state, "error",
						     describe_text(view.error), "last_message_at",
						     describe_time(view.last_message_s), "gaps", describe_gaps(&view)));
	}
	return all;
}

static json_t *describe_states(const struct events *events)
{
	json_t *states = json_object();

	for (int i = 0; i < EVENT_STATES - 1; i++)
		json_object_set_new(states, event_state_name((enum event_state)i),
				    json_integer((json_int_t)events->counts[i]));
	return states;
}

static json_t *describe_unsettled(const struct admin *a)
{
	int64_t limit_s = a->parts->config->unsettled_warning_s;
	struct overdue u;

	overdue_check(&u, pipeline_events(a->parts->pipeline), (int64_t)uv_now(a->loop), limit_s * 1000);
	return json_pack("{s:I, s:b, s:I, s:f, s:o, s:s?}", "limit_s", (json_int_t)limit_s, "warning",
			 limit_s && u.oldest_ms > limit_s * 1000, "events", (json_int_t)(limit_s ? u.count : 0),
			 "oldest_s", (double)u.oldest_ms / 1000, "oldest_id",
			 *u.oldest_id ? describe_text(u.oldest_id) : json_null(), "oldest_state", u.state);
}

static json_t *describe_targets(const struct admin *a)
{
	const struct relay *r = a->parts->relay;
	json_t *all = json_array();

	for (size_t i = 0; r && i < relay_targets(r); i++) {
		const struct target *t = relay_target(r, i);
		int64_t left_ms = t->state == TARGET_PAUSED ? t->resume_ms - (int64_t)uv_now(a->loop) : 0;
		json_t *one =
			json_pack("{s:s, s:s, s:I, s:I, s:f}", "name", t->webhook->name, "state",
				  target_state_name(t->state), "in_flight", (json_int_t)t->at_work, "failures_in_a_row",
				  (json_int_t)t->failures, "pause_left_s", left_ms > 0 ? (double)left_ms / 1000 : 0.0);

		for (int o = 0; o < TARGET_OUTCOMES; o++)
			json_object_set_new(one, target_outcome_name((enum target_outcome)o),
					    json_integer((json_int_t)t->ended[o]));
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *describe_name(const char *text)
{
	return *text ? describe_text(text) : json_null();
}

static json_t *describe_backlog(const struct admin *a)
{
	const struct backlog *b = relay_backlog(a->parts->relay);

	return json_pack("{s:b, s:I, s:I, s:f, s:o, s:o, s:o, s:o}", "warning", b->overdue > 0, "pending",
			 (json_int_t)b->pending, "overdue", (json_int_t)b->overdue, "oldest_s",
			 (double)b->oldest_ms / 1000, "oldest_id", describe_name(b->oldest_id), "oldest_target",
			 describe_name(b->oldest_target), "targets_of_nobody", describe_name(b->strays),
			 "targets_with_another_url", describe_name(b->disputed));
}

static unsigned int write_status(const struct admin *a, FILE *out)
{
	const struct admin_parts *p = a->parts;
	const struct events *events = pipeline_events(p->pipeline);
	const struct claim *claim = pipeline_claim(p->pipeline);
	json_t *root, *counts = json_object();
	const char *why;
	bool is_stored = pipeline_can_store(p->pipeline, &why);

	counters_each(put_json_counter, counts);
	root = json_pack("{s:s, s:o, s:I, s:b, s:{s:b, s:o}, s:o, s:I, s:I, s:I, s:b, s:o, s:I, s:o, s:o}", "version",
			 WSONCE_VERSION, "instance_id", describe_text(p->config->instance_id), "uptime_s",
			 (json_int_t)(((int64_t)uv_now(a->loop) - a->started_ms) / 1000), "draining", p->is_draining,
			 "postgres", "up", is_stored, "error", describe_text(why), "redis", describe_redis(claim),
			 "in_flight", (json_int_t)events->messages, "in_flight_bytes",
			 (json_int_t)pipeline_bytes(p->pipeline), "in_flight_bytes_limit",
			 (json_int_t)p->config->inflight_bytes, "paused", pipeline_is_full(p->pipeline), "sources",
			 describe_sources(p->sources), "ingest_connections",
			 (json_int_t)(p->ingest ? ingest_connections(p->ingest) : 0), "events", describe_states(events),
			 "counters", counts);
	json_object_set_new(root, "unsettled", describe_unsettled(a));
	if (p->relay) {
		json_object_set_new(root, "webhooks", describe_targets(a));
		json_object_set_new(root, "outbox", describe_backlog(a));
	}
	json_dumpf(root, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(root);
	return STATUS_OK;
}

/* --- pages --- */

static unsigned int write_health(const struct admin *a, FILE *out)
{
	(void)a;
	fprintf(out, "alive\n");
	return STATUS_OK;
}

static unsigned int write_index(const struct admin *a, FILE *out)
{
	fprintf(out,
		"<!doctype html><title>wsonce</title><h1>wsonce</h1><p>%s, version %s</p><ul>"
		"<li><a href=\"/readyz\">readiness</a><li><a href=\"/healthz\">health</a>"
		"<li><a href=\"/api/status\">status</a><li><a href=\"/metrics\">metrics</a></ul>\n",
		"listener", WSONCE_VERSION);
	(void)a;
	return STATUS_OK;
}

static const struct route {
	const char *path;
	const char *type;
	unsigned int (*write)(const struct admin *a, FILE *out); /* returns the HTTP status */
} routes[] = {
	{"/", "text/html; charset=utf-8", write_index},
	{"/healthz", "text/plain; charset=utf-8", write_health},
	{"/readyz", "text/plain; charset=utf-8", write_ready},
	{"/metrics", "text/plain; version=0.0.4; charset=utf-8", write_metrics},
	{"/api/status", "application/json", write_status},
};

static const struct route *find_route(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		if (strcmp(routes[i].path, path) == 0)
			return &routes[i];
	return NULL;
}

static unsigned int write_page(void *arg, const char *path, FILE *out, const char **type)
{
	const struct route *route = find_route(path);

	if (!route) {
		fprintf(out, "no such page; / lists them\n");
		return STATUS_NOT_FOUND;
	}
	*type = route->type;
	return route->write(arg, out);
}

struct admin *admin_open(uv_loop_t *loop, const struct admin_parts *parts, char *error, size_t size)
{
	struct admin *a = memory_calloc(1, sizeof(*a));

	a->parts = parts;
	a->loop = loop;
	a->started_ms = (int64_t)uv_now(loop);
	a->site = (struct http_site){parts->config->admin, parts->config->admin_hosts.items,
				     parts->config->admin_hosts.count, write_page, a};
	a->http = http_open(loop, &a->site, error, size);
	if (!a->http) {
		free(a);
		return NULL;
	}
	log_info("admin is open", "address=%s port=%d", parts->config->admin, http_port(a->http));
	return a;
}

void admin_close(struct admin *a)
{
	http_close(a->http);
}

void admin_free(struct admin *a)
{
	if (!a)
		return;
	http_free(a->http);
	free(a);
}
