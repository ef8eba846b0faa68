/* report.c collects what a listener reports about itself at each check-in. store/checkin.c stores the report, and
 * commands/fleet_state.c reads it. */
#include "ops/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "ops/overdue.h"
#include "event/rejected.h"

#define PAUSE_MS 5000 /* least time between two reports */

/* Settings that may differ between listeners, beside the paths of credentials, which name the unit. */
static const char own[] = " instance-id admin admin-host config log-level log-format ingest ingest-http spool ";

static const char *name_redis(const struct report *r)
{
	const struct claim *claim = pipeline_claim(r->parts->pipeline);

	if (!claim_is_used(claim))
		return "none";
	if (claim_is_foreign(claim))
		return "foreign";
	if (claim_is_refused(claim))
		return "refuses";
	return claim_is_ready(claim) ? "up" : "down";
}

/* --- sources --- */

static uint64_t count_frames(const struct source_view *view)
{
	uint64_t n = view->messages;

	for (size_t i = 0; view->profile && i <= view->profile->rule_count; i++)
		n += view->rules[i].frames;
	return n;
}

static json_t *describe_source(const struct source_view *view, uint64_t told, int64_t now_ms)
{
	json_t *source = json_pack("{s:o, s:s, s:b, s:o, s:I}", "name", json_of_text(view->name), "state", view->state,
				   "is_ready", view->is_ready, "error", json_of_text(view->error), "messages",
				   (json_int_t)(count_frames(view) - told));

	if (view->barren >= REJECTED_RUN)
		json_object_set_new(source, "barren", json_integer((json_int_t)view->barren));
	if (view->strange >= REJECTED_RUN)
		json_object_set_new(source, "strange", json_integer((json_int_t)view->strange));
	if (*view->list && view->is_ready)
		json_object_set_new(source, "list", json_of_text(view->list));
	if (view->silence)
		json_object_set_new(source, "heard_by_others", json_integer((json_int_t)view->silence->heard));
	if (view->data_ms)
		json_object_set_new(source, "silent_s", json_integer((json_int_t)(now_ms - view->data_ms) / 1000));
	json_object_set_new(source, "id", json_integer((json_int_t)view->id));
	return source;
}

static json_t *describe_sources(const struct report *r)
{
	json_t *all = json_array();

	for (size_t i = 0; r->parts->sources && i < sources_count(r->parts->sources); i++) {
		struct source_view view = sources_view(r->parts->sources, i);
		uint64_t told = r->messages ? r->messages[view.place] : 0;

		json_array_append_new(all, describe_source(&view, told, (int64_t)uv_now(r->loop)));
	}
	return all;
}

/* The next report's messages begin here. */
static void keep_messages(struct report *r)
{
	if (!r->messages && r->parts->sources)
		r->messages = memory_calloc(sources_places(r->parts->sources), sizeof(*r->messages));
	for (size_t i = 0; r->parts->sources && i < sources_count(r->parts->sources); i++) {
		struct source_view view = sources_view(r->parts->sources, i);

		r->messages[view.place] = count_frames(&view);
	}
}

/* Returns a sentence for each webhook that fails. Paused ones are in the database. */
static json_t *describe_failing_webhooks(const struct relay *r, int64_t now_ms)
{
	json_t *all = json_array();
	char text[400];

	for (size_t i = 0; r && i < relay_targets(r); i++)
		if (!relay_pause(r, i) && admin_describe_webhook(r, i, now_ms, text, sizeof(text)))
			json_array_append_new(all, json_of_text(text));
	return all;
}

/* Returns why deliveries cannot be made; "" if they can, or if events cannot be stored either. */
static const char *describe_relay(const struct admin_parts *p)
{
	return p->relay && !*storing_trouble(pipeline_storing(p->pipeline)) ? relay_error(p->relay) : "";
}

static uint64_t hash_states(const struct report *r)
{
	AUTO_BYTES states = {NULL, 0, 0};
	int64_t limit_s = r->parts->config->unsettled_warning_s;
	const char *why;
	char text[260];

	bytes_add_text(&states, name_redis(r));
	bytes_add_text(&states, pipeline_is_full(r->parts->pipeline) ? "+" : "-");
	bytes_add_text(&states,
		       overdue_ms(pipeline_events(r->parts->pipeline), (int64_t)uv_now(r->loop), limit_s) ? "+" : "-");
	bytes_add_text(&states, *admin_describe_spool(r->parts->pipeline, text, sizeof(text)) ? "+" : "-");
	bytes_add_text(&states, storing_is_slow(pipeline_storing(r->parts->pipeline), &why) ? "+" : "-");
	bytes_add_text(&states, *admin_describe_holder(pipeline_storing(r->parts->pipeline)) ? "+" : "-");
	bytes_add_text(&states, rejected_run(&why) >= REJECTED_RUN ? "+" : "-");
	for (size_t i = 0; r->parts->sources && i < sources_count(r->parts->sources); i++) {
		struct source_view view = sources_view(r->parts->sources, i);

		bytes_add_text(&states, view.is_ready ? "+" : *view.error ? view.error : "-");
		bytes_add_text(&states, view.barren >= REJECTED_RUN || view.strange >= REJECTED_RUN ? "r" : "");
		bytes_add_text(&states, view.silence ? "s" : "");
		bytes_add_text(&states, *view.list ? "l" : "");
		bytes_add_text(&states, view.is_open ? "o" : "");
	}
	for (size_t i = 0; r->parts->relay && i < relay_targets(r->parts->relay); i++)
		bytes_add_text(&states, target_failing(relay_target(r->parts->relay, i)) ? "-" : "+");
	bytes_add_text(&states, *storing_trouble(pipeline_storing(r->parts->pipeline)) ? "+" : "-");
	bytes_add_text(&states, *describe_relay(r->parts) ? "+" : "-");
	return hash_text(states.at, states.len);
}

/* --- settings --- */

static void add_setting(void *arg, const struct config_redacted *setting)
{
	char word[60];

	snprintf(word, sizeof(word), " %s ", setting->flag);
	if (!setting->is_secret && setting->origin != FROM_CREDENTIAL && !strstr(own, word))
		json_object_set_new(arg, setting->flag, json_of_text(setting->value ? setting->value : "not set"));
}

static json_t *describe_settings(const struct config *c)
{
	json_t *settings = json_object();

	config_each(c, add_setting, settings);
	for (size_t i = 0; i < c->feed_count; i++) { /* files of one name may differ */
		AUTO_FREE char *text = json_dumps(c->feeds[i]->root, JSON_SORT_KEYS);
		AUTO_FREE char *key = memory_printf("feed %s", c->feeds[i]->name);

		json_object_set_new(settings, key,
				    json_sprintf("%04x", (unsigned int)(hash_text(text, strlen(text)) & 0xffff)));
	}
	return settings;
}

/* --- the whole --- */

json_t *report_describe(const struct report *r)
{
	const struct admin_parts *p = r->parts;
	const struct counters told = r->told;
	int64_t now = (int64_t)uv_now(r->loop);
	const struct storing *storing = pipeline_storing(p->pipeline);
	const char *slow;
	char text[260];
	const struct events *events = pipeline_events(p->pipeline);
	json_t *report = json_pack(
		"{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:I}", "version", WSONCE_VERSION,
		"owner", json_of_text(claim_owner(pipeline_claim(p->pipeline))), "period_ms",
		(json_int_t)(now - r->told_ms), "uptime_s", (json_int_t)((now - r->began_ms) / 1000), "received",
		(json_int_t)(counters.received - told.received), "stored",
		(json_int_t)(counters.persisted - told.persisted), "duplicates",
		(json_int_t)(counters.duplicates - told.duplicates), "dead_lettered",
		(json_int_t)(counters.dead_lettered - told.dead_lettered), "in_flight", (json_int_t)events->messages,
		"held", (json_int_t)events->counts[EV_HELD], "oldest_ms", (json_int_t)overdue_oldest_ms(events, now),
		"is_paused", pipeline_is_full(p->pipeline), "redis", name_redis(r), "producers",
		p->ingest ? (json_int_t)ingest_connections(p->ingest) : 0);

	if (storing_is_slow(storing, &slow))
		json_object_set_new(report, "slow", json_string(slow));
	json_object_set_new(report, "rejected", json_of_text(admin_describe_rejected(text, sizeof(text))));
	json_object_set_new(report, "spool", json_of_text(admin_describe_spool(p->pipeline, text, sizeof(text))));
	json_object_set_new(report, "holder", json_of_text(admin_describe_holder(storing)));
	json_object_set_new(report, "trouble", json_of_text(storing_trouble(storing)));
	json_object_set_new(report, "sources", describe_sources(r));
	json_object_set_new(report, "deliveries", json_of_text(describe_relay(p)));
	json_object_set_new(report, "webhooks_trouble", describe_failing_webhooks(p->relay, now));
	return report;
}

json_t *report_take(void *arg)
{
	struct report *r = arg;
	json_t *report = report_describe(r);

	json_object_set_new(report, "settled_us", json_integer((json_int_t)pipeline_settled_us(r->parts->pipeline)));
	json_object_set_new(report, "whole_minutes_are_null", json_true()); /* as sql/queries/checkin.sql writes them */
	/* In trouble, the report must be short: see store/checkin.c. */
	if (!*storing_trouble(pipeline_storing(r->parts->pipeline))) {
		json_object_set_new(report, "hour", hour_describe(r->parts->hour));
		json_object_set_new(report, "settings", describe_settings(r->parts->config));
	} else { /* by this, wsonce status finds the heartbeat */
		json_object_set_new(report, "settings",
				    json_pack("{s:o}", "claim-prefix", json_of_text(r->parts->config->claim_prefix)));
	}
	keep_messages(r);
	/* The rates of the first moment say little: another report follows. */
	r->states = (int64_t)uv_now(r->loop) - r->told_ms >= PAUSE_MS ? hash_states(r) : ~hash_states(r);
	r->told = counters;
	r->told_ms = (int64_t)uv_now(r->loop);
	return report;
}

bool report_is_due(const struct report *r)
{
	return (int64_t)uv_now(r->loop) - r->told_ms >= PAUSE_MS && hash_states(r) != r->states;
}

void report_init(struct report *r, uv_loop_t *loop, const struct admin_parts *parts)
{
	*r = (struct report){.parts = parts, .loop = loop};
	r->began_ms = r->told_ms = (int64_t)uv_now(loop);
}

void report_free(struct report *r)
{
	free(r->messages);
	r->messages = NULL;
}
