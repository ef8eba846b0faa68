/* checkin.c owns what a listener reports to the database: its settings and its counts of duplicates. The store sends
 * the text.
 *
 * A listener checks in before its first batch. If rows were deleted by age, a listener without --max-age would store
 * late copies of those events again, so it must not start. */
#include "store/checkin.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "event/duplicates.h"
#include "base/clock.h"
#include "base/counters.h"
#include "event/line_minutes.h"
#include "base/text.h"
#include "base/quantity.h"

#define EARLY_MS 1000 /* a check-in that comes this much too early still counts as the one due */

void checkin_init(struct checkin *n, const struct config *config)
{
	uint64_t nonce = 0;

	uv_random(NULL, NULL, &nonce, sizeof(nonce), 0, NULL);
	*n = (struct checkin){.config = config, .wait_ms = 2000 + (int64_t)(nonce % 8000)};
	snprintf(n->listener, sizeof(n->listener), "%.200s.%016llx", config->instance_id, (unsigned long long)nonce);
	if (!is_utf8(n->listener, strlen(n->listener)))
		make_ascii(n->listener);
	snprintf(n->lines.instance, sizeof(n->lines.instance), "%.*s", (int)strlen(n->listener) - 17, n->listener);
}

/* Adds the settings that say what happens to an event, for commands/guards.c. */
static void describe_effects(json_t *object, const struct config *c)
{
	json_t *targets = json_array(), *urls = json_object();

	json_object_set_new(object, "consumer", json_string(c->consumer));
	for (size_t i = 0; i < c->webhooks.count; i++) {
		const struct webhook *w = &c->webhooks.items[i];

		json_array_append_new(targets, json_string(w->name));
		json_object_set_new(urls, w->name, json_string(w->digest));
	}
	json_object_set_new(object, "targets", targets);
	json_object_set_new(object, "target_urls", urls);
	if (c->handler)
		json_object_set_new(object, "handler", make_json(c->handler, strlen(c->handler)));
}

int64_t checkin_wait_ms(const struct checkin *n)
{
	int64_t past_ms = clock_ms(CLOCK_REALTIME) + EARLY_MS + LINE_MINUTE_MS - n->wait_ms;

	return EARLY_MS + LINE_MINUTE_MS - past_ms % LINE_MINUTE_MS;
}

static void add_counts(struct checkin *n, json_t *object, bool is_leaving, int64_t settled_ms, int64_t now_ms)
{
	int64_t wall_ms = clock_ms(CLOCK_REALTIME);

	json_object_set_new(object, "events", json_integer((json_int_t)(counters.persisted - n->told_events)));
	n->told_events = counters.persisted;
	duplicates_describe(object, now_ms);
	duplicates_clear();
	json_object_set_new(object, "lines",
			    line_minutes_describe(&line_minutes, is_leaving, settled_ms, wall_ms, now_ms));
	json_object_set_new(object, "lines_keep_s", json_integer((json_int_t)n->config->lines_keep_s));
	json_object_set_new(object, "judged", line_counts_ask(&n->lines, wall_ms));
}

char *checkin_write(struct checkin *n, bool is_leaving, int64_t now_ms)
{
	const struct config *c = n->config;
	json_t *object = json_pack("{s:s, s:I, s:b}", "listener", n->listener, "dedup_window_s",
				   (json_int_t)c->dedup_window_s, "is_leaving", is_leaving);
	json_t *report = n->describe && !is_leaving ? n->describe(n->arg) : NULL;
	/* With a full disk, Postgres can still update a short row, so send the counts later. */
	bool is_short = json_string_length(json_object_get(report, "trouble"));
	int64_t settled_ms = json_integer_value(json_object_get(report, "settled_us")) / 1000;
	char *text;

	if (c->max_age_s)
		json_object_set_new(object, "max_age_s", json_integer((json_int_t)c->max_age_s));
	describe_effects(object, c);
	if (report)
		json_object_set_new(object, "report", report);
	if (is_leaving)
		line_minutes_end_gaps(&line_minutes);
	if (!is_short)
		add_counts(n, object, is_leaving, settled_ms, now_ms);
	text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(object);
	return text;
}

bool checkin_is_guarded(int64_t max_age_s, int64_t rows_deleted_s)
{
	return max_age_s && max_age_s <= rows_deleted_s - CHECKIN_MARGIN_S;
}

const char *checkin_read(const struct checkin *n, const char *answer)
{
	static char sentence[300];
	int64_t deleted_s = answer ? strtoll(answer, NULL, 10) : 0;
	char deleted[30], greatest[30];

	if (!answer || checkin_is_guarded(n->config->max_age_s, deleted_s))
		return NULL;
	snprintf(sentence, sizeof(sentence),
		 "rows of events older than %s were deleted from this database (wsonce purge), so late copies of them "
		 "would be taken for new ones: start with --time-pointer and a --max-age of at most %s",
		 quantity_print_seconds(deleted_s, deleted, sizeof(deleted)),
		 quantity_print_seconds(deleted_s - CHECKIN_MARGIN_S, greatest, sizeof(greatest)));
	return sentence;
}
