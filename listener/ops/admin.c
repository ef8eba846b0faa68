/* admin.c owns the pages for operators. It only reads the other parts. No page contains a password, a token or an
 * event, except the id of the oldest unsettled event. */
#include "ops/admin.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/counters.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "net/http.h"
#include "ops/metrics.h"
#include "ops/overdue.h"
#include "event/rejected.h"
#include "ops/report.h"
#include "spool/spool.h"
#include "base/url.h"
#include "base/text.h"
#include "base/timestamp.h"

struct admin {
	const struct admin_parts *parts;
	uv_loop_t *loop;
	struct http_site site;
	struct http *http;
};

/* --- readiness --- */

bool admin_describe_webhook(const struct relay *r, size_t i, int64_t now_ms, char *text, size_t size)
{
	const char *name = relay_target(r, i)->webhook->name;
	const struct target *failing = target_failing(relay_target(r, i));
	const json_t *pause = relay_pause(r, i);
	char since[TIMESTAMP_SIZE];

	if (pause)
		snprintf(text, size, "webhook %s has been paused since %s: %s", name,
			 json_string_value(json_object_get(pause, "since")),
			 json_string_value(json_object_get(pause, "reason")));
	else if (failing)
		snprintf(text, size, "webhook %s has failed since %s: %s", name,
			 timestamp_print_to(clock_shown_ms(failing->spell.began_ms, now_ms) * 1000, 0, since),
			 failing->why);
	return pause || failing;
}

/* Describes the first webhook that is paused or fails. */
static bool describe_webhooks(const struct relay *r, int64_t now_ms, char *text, size_t size)
{
	for (size_t i = 0; r && i < relay_targets(r); i++)
		if (admin_describe_webhook(r, i, now_ms, text, size))
			return true;
	return false;
}

const char *admin_describe_rejected(char *text, size_t size)
{
	const char *reason;
	uint64_t n = rejected_run(&reason);

	snprintf(text, n < REJECTED_RUN ? 1 : size, "the last %llu messages were refused: %s", (unsigned long long)n,
		 reason);
	return text;
}

const char *admin_describe_holder(const struct storing *s)
{
	const char *holder = store_view(storing_store(s)).holder;

	if (*storing_trouble(s))
		return "";
	return *holder ? holder : storing_kept(s);
}

const char *admin_describe_spool(const struct pipeline *p, char *text, size_t size)
{
	struct spool_view view = {0};
	int64_t age_s;
	char age[40];

	if (pipeline_spool(p))
		view = spool_view(pipeline_spool(p));
	age_s = (int64_t)metrics_spool_age(&view);
	age_s -= age_s < 120 ? 0 : age_s % 60;
	*text = '\0';
	if (view.reason)
		snprintf(text, size, "nothing is written to the spool: %s", view.reason);
	else if (view.away)
		snprintf(text, size, "%llu events on disk, the oldest %s", (unsigned long long)view.events,
			 quantity_print_seconds(age_s, age, sizeof(age)));
	return text;
}

/* Describes the first source that does not work, though its listener is ready. */
static bool describe_source(const struct sources *s, char *text, size_t size)
{
	for (size_t i = 0; s && i < sources_count(s); i++) {
		const struct source_view v = sources_view(s, i);

		if (v.silence)
			snprintf(text, size, "source %s is silent, while others hear it", v.name);
		else if (!v.is_ready && sources_are_ready(s, i))
			snprintf(text, size, "line %s is not ready, but another line of the source is", v.name);
		else if (*v.list)
			snprintf(text, size, "source %s: its new list is not in use: %s", v.name, v.list);
		else if (v.barren >= REJECTED_RUN)
			snprintf(text, size, "source %s: the last %llu messages became dead letters", v.name,
				 (unsigned long long)v.barren);
		else if (v.strange >= REJECTED_RUN)
			snprintf(text, size, "source %s: %llu messages match no rule, and no event came", v.name,
				 (unsigned long long)v.strange);
		else
			continue;
		return true;
	}
	return false;
}

/* Writes what does not work although events are stored. Returns false if everything works. */
static bool describe_degraded(const struct admin *a, char *text, size_t size)
{
	const struct admin_parts *p = a->parts;
	const struct claim *claim = pipeline_claim(p->pipeline);
	int64_t overdue =
		overdue_ms(pipeline_events(p->pipeline), (int64_t)uv_now(a->loop), p->config->unsettled_warning_s);

	if (claim_is_foreign(claim))
		snprintf(text, size, "redis is not used, because another database has the claim prefix");
	else if (claim_is_used(claim) && !claim_is_ready(claim))
		snprintf(text, size, "redis is down, the unique key decides");
	else if (claim_is_refused(claim))
		snprintf(text, size, "redis does not take every command; the log says why");
	else if (describe_source(p->sources, text, size) || *admin_describe_spool(p->pipeline, text, size) ||
		 *admin_describe_rejected(text, size))
		return true;
	else if (*admin_describe_holder(pipeline_storing(p->pipeline)))
		snprintf(text, size, "%s", admin_describe_holder(pipeline_storing(p->pipeline)));
	else if (overdue)
		snprintf(text, size, "an event has been unsettled for %lld s", (long long)overdue / 1000);
	else if (p->relay && *relay_error(p->relay))
		snprintf(text, size, "deliveries to webhooks wait for postgres; the log says why");
	else
		return describe_webhooks(p->relay, (int64_t)uv_now(a->loop), text, size);
	return true;
}

/* Ready means that received events can be stored. That does not need Redis, because the unique key finds duplicates.
 * 503 tells a load balancer to wait. */
static unsigned int write_ready(const struct admin *a, FILE *out)
{
	const struct admin_parts *p = a->parts;
	const struct storing *storing = pipeline_storing(p->pipeline);
	const struct store_view store = store_view(storing_store(storing));
	const char *why = storing_trouble(storing);
	char degraded[300];

	if (p->is_draining) {
		fprintf(out, "not ready: draining\n");
		return 503;
	}
	if (*why) {
		if (*store.holder)
			why = store.holder;
		else if (strcmp(why, "connecting") != 0)
			why = "cannot store; the log says why";
		fprintf(out, "not ready: %s: %s\n", config_store_path(p->config) ? "sqlite" : "postgres", why);
		return 503;
	}
	for (size_t i = 0; p->sources && i < sources_count(p->sources); i++) {
		struct source_view s = sources_view(p->sources, i);

		if (!sources_are_ready(p->sources, i)) {
			fprintf(out, "not ready: source %s: %s%s%s\n", s.name, s.state, *s.error ? ": " : "", s.error);
			return 503;
		}
	}
	if (p->config->ingest && !p->ingest) {
		fprintf(out, "not ready: ingest: the port is not open\n");
		return 503;
	}
	if (describe_degraded(a, degraded, sizeof(degraded)))
		fprintf(out, "degraded: %s\n", degraded);
	else
		fprintf(out, "ready\n");
	if (*store.hazards)
		fprintf(out, "warning: postgres may lose commits when it crashes or fails over: %s\n", store.hazards);
	if (storing_is_slow(storing, &why))
		fprintf(out, "warning: %s\n", why);
	return 200;
}

static unsigned int write_metrics(const struct admin *a, FILE *out)
{
	metrics_write(a->parts, (int64_t)uv_now(a->loop), out);
	return 200;
}

/* --- status --- */

static void put_json_counter(void *arg, const char *name, const char *meaning, uint64_t value)
{
	(void)meaning;
	json_object_set_new(arg, name, json_integer((json_int_t)value));
}

static json_t *describe_states(const struct events *events)
{
	json_t *states = json_object();

	for (int i = 0; i < EVENT_STATES - 1; i++)
		json_object_set_new(states, event_state_name((enum event_state)i),
				    json_integer((json_int_t)events->counts[i]));
	return states;
}

static json_t *describe_targets(const struct admin *a)
{
	const struct relay *r = a->parts->relay;
	json_t *all = json_array();

	for (size_t i = 0; r && i < relay_targets(r); i++) {
		const struct target *t = relay_target(r, i);
		int64_t left_ms = t->state == TARGET_PAUSED ? t->resume_ms - (int64_t)uv_now(a->loop) : 0;
		json_t *one = json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:O?}", "name", t->webhook->name, "state",
					target_state_name(t->state), "retries", target_state_name(t->other->state),
					"in_flight", (json_int_t)target_at_work(t), "failures_in_a_row",
					(json_int_t)t->failures, "pause_left_s",
					left_ms > 0 ? (double)left_ms / 1000 : 0.0, "paused", relay_pause(r, i));

		for (int o = 0; o < TARGET_OUTCOMES; o++)
			json_object_set_new(one, target_outcome_name((enum target_outcome)o),
					    json_integer((json_int_t)target_ended(t, (enum target_outcome)o)));
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *describe_name(const char *text)
{
	return *text ? json_of_text(text) : json_null();
}

/* The report with counters since the start, and with what the fleet need not know. */
static json_t *describe_status(const struct admin *a)
{
	const struct admin_parts *p = a->parts;
	const struct store_view store = store_view(storing_store(pipeline_storing(p->pipeline)));
	json_t *root = report_describe(p->report), *counts = json_object();
	char degraded[300] = "";

	describe_degraded(a, degraded, sizeof(degraded));
	counters_each(put_json_counter, counts);
	json_object_update_new(root,
			       json_pack("{s:o, s:b, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "instance_id",
					 json_of_text(p->config->instance_id), "draining", p->is_draining, "degraded",
					 describe_name(degraded), "hazards", describe_name(store.hazards),
					 "in_flight_bytes", (json_int_t)pipeline_bytes(p->pipeline),
					 "in_flight_bytes_limit", (json_int_t)p->config->inflight_bytes, "events",
					 describe_states(pipeline_events(p->pipeline)), "hour", hour_describe(p->hour),
					 "counters", counts));
	if (p->relay)
		json_object_set_new(root, "webhooks", describe_targets(a));
	return root;
}

static unsigned int write_status(const struct admin *a, FILE *out)
{
	json_t *root = describe_status(a);

	json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	fputc('\n', out);
	json_decref(root);
	return 200;
}

/* --- pages --- */

static unsigned int write_health(const struct admin *a, FILE *out)
{
	(void)a;
	fprintf(out, "alive\n");
	return 200;
}

static const struct route {
	const char *path;
	const char *type;
	unsigned int (*write)(const struct admin *a, FILE *out); /* returns the HTTP status */
} routes[] = {
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
		fprintf(out, "no such page: there are /healthz, /readyz, /metrics and /api/status\n");
		return 404;
	}
	*type = route->type;
	return route->write(arg, out);
}

struct admin *admin_open(uv_loop_t *loop, const struct admin_parts *parts, char *error, size_t size)
{
	struct admin *a = memory_calloc(1, sizeof(*a));

	a->parts = parts;
	a->loop = loop;
	metrics_start();
	a->site = (struct http_site){
		.flag = "--admin",
		.address = parts->config->admin,
		.hosts = parts->config->admin_hosts.items,
		.host_count = parts->config->admin_hosts.count,
		.write = write_page,
		.arg = a,
	};
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
