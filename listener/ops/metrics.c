/* metrics.c owns /metrics, in the Prometheus text format, version 0.0.4. The list of counters is in base/counters.h. */
#include "ops/metrics.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "ops/overdue.h"
#include "event/line_minutes.h"
#include "event/rejected.h"

static int64_t started_s; /* Unix time */

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
	fprintf(out, "wsonce_%s %.15g\n", name, value);
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

static void put_label(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc((unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text, out);
}

/* Begins a line: a metric, its source, the number of the source's line unless it is the first, and one more label or
 * NULL. */
static void put_source(FILE *out, const char *name, const struct source_view *view, const char *label,
		       const char *value)
{
	fprintf(out, "wsonce_%s{source=\"", name);
	put_label(out, view->source);
	if (view->number)
		fprintf(out, "\",line=\"%u", view->number + 1);
	if (label) {
		fprintf(out, "\",%s=\"", label);
		put_label(out, value);
	}
	fprintf(out, "\"} ");
}

/* Writes a line for each rule of a profile, and one with rule "" for frames that matched none. which: as in put_rules.
 */
static void put_rules_of(FILE *out, const char *name, const struct source_view *view, size_t which)
{
	for (size_t r = 0; r <= view->profile->rule_count; r++) {
		const struct rule_count *n = &view->rules[r];
		const uint64_t values[] = {n->frames, n->events, n->nothing, n->rejected, n->sends};
		const char *rule = r == view->profile->rule_count ? "" : view->profile->rules[r].name;
		char number[24];

		snprintf(number, sizeof(number), "#%zu", r + 1);
		put_source(out, name, view, "rule", rule ? rule : number);
		fprintf(out, "%llu\n", (unsigned long long)values[which]);
	}
}

static void put_rules(FILE *out, const struct sources *s)
{
	static const char *const metrics[][2] = {
		{"feed_frames_total", "Frames that matched this rule; rule \"\": frames that matched none."},
		{"feed_events_total", "Events in these frames."},
		{"feed_frames_without_events_total", "Frames that matched this rule and had no event."},
		{"feed_rejected_total", "Dead letters made from these frames or parts of them."},
		{"feed_replies_total", "Replies to these frames."},
	};

	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
		put_type(out, metrics[m][0], "counter", metrics[m][1]);
		for (size_t i = 0; i < sources_count(s); i++) {
			struct source_view view = sources_view(s, i);

			if (view.profile)
				put_rules_of(out, metrics[m][0], &view, m);
		}
	}
}

/* Which sources have a metric: each, the first connection of a list, those with contiguous numbers, or those that send
 * every listener the same. */
enum metric_of { OF_EACH, OF_LIST, OF_NUMBERED, OF_SHARED };

static const struct source_metric {
	const char *name, *meaning;
	enum metric_of of;
} source_metrics[] = {
	{"source_up", "1 while this source is connected.", OF_EACH},
	{"source_silent", "1 while this source sends nothing here, but other listeners hear it.", OF_EACH},
	{"source_standby", "1 while this source is left to other listeners.", OF_EACH},
	{"source_last_message_timestamp_seconds", "Unix time of this source's last message; 0 if there was none.",
	 OF_EACH},
	{"source_list_unused", "1 while the newest list of this source is not in use.", OF_LIST},
	{"feed_gaps_total", "Gaps in the source's sequence numbers.", OF_NUMBERED},
	{"feed_missing_total", "Numbers missing in these gaps.", OF_NUMBERED},
	{"feed_filled_total", "Missing numbers that the profile's `fill` fetched.", OF_NUMBERED},
	{"line_missing_total",
	 "Events that other lines got from this source and this one did not; counted eight minutes later.", OF_SHARED},
	{"source_open_seconds_total",
	 "Time without any listener connected to this source; counted eight minutes later.", OF_SHARED},
	{"line_disagree_total", "Events whose bytes on this line differed from another line's.", OF_SHARED},
};

/* Writes metric m of a source, if the source has it. */
static void put_metric_of(FILE *out, size_t m, const struct source_view *v, int64_t now_ms)
{
	static const struct line none;
	const struct line *line = v->line ? v->line : &none;
	int64_t last_s = clock_shown_ms(v->last_message_ms, now_ms) / 1000;
	const double values[] = {v->is_open,
				 v->silence != NULL,
				 v->is_ready && !v->is_open,
				 (double)last_s,
				 *v->list != '\0',
				 (double)v->gaps.gaps,
				 (double)v->gaps.missing,
				 (double)v->filled,
				 (double)line->missing,
				 (double)line->open_ms / 1000,
				 (double)line->disagree};
	enum metric_of of = source_metrics[m].of;
	struct source_view named = *v;

	if ((of == OF_NUMBERED && !(v->profile && v->profile->gap.contiguous)) || (of == OF_SHARED && !v->line) ||
	    (of == OF_LIST && !(v->profile && v->profile->shard.number == 1)))
		return;
	if (of == OF_SHARED && v->profile && v->profile->shard.number)
		named.source = profile_row_source(v->profile); /* its shards are one line */
	put_source(out, source_metrics[m].name, &named, of == OF_NUMBERED ? NULL : "url", v->url);
	fprintf(out, "%.15g\n", values[m]);
}

static void put_sources(FILE *out, const struct sources *s, int64_t now_ms)
{
	size_t count = s ? sources_count(s) : 0, open = 0;

	for (size_t i = 0; i < count; i++)
		open += sources_view(s, i).is_open;
	put_gauge(out, "sources", "Configured sources, counting each line.", (double)count);
	put_gauge(out, "sources_open", "Sources connected.", (double)open);
	for (size_t m = 0; m < sizeof(source_metrics) / sizeof(*source_metrics); m++) {
		const struct source_metric *metric = &source_metrics[m];

		put_type(out, metric->name, metric->of <= OF_LIST ? "gauge" : "counter", metric->meaning);
		for (size_t i = 0; i < count; i++) {
			struct source_view view = sources_view(s, i);

			put_metric_of(out, m, &view, now_ms);
		}
	}
	if (count)
		put_rules(out, s);
}

static void put_targets(FILE *out, const struct relay *r)
{
	put_type(out, "deliveries_total", "counter", "Webhook delivery attempts by outcome.");
	for (size_t i = 0; i < relay_targets(r); i++)
		for (int o = 0; o < TARGET_OUTCOMES; o++)
			fprintf(out, "wsonce_deliveries_total{target=\"%s\",outcome=\"%s\"} %llu\n",
				relay_target(r, i)->webhook->name, target_outcome_name((enum target_outcome)o),
				(unsigned long long)target_ended(relay_target(r, i), (enum target_outcome)o));
	put_type(out, "deliveries_in_flight", "gauge", "Webhook requests in flight.");
	for (size_t i = 0; i < relay_targets(r); i++)
		fprintf(out, "wsonce_deliveries_in_flight{target=\"%s\"} %zu\n", relay_target(r, i)->webhook->name,
			target_at_work(relay_target(r, i)));
	put_type(out, "webhook_paused", "gauge", "1 while a webhook fails or is paused.");
	for (size_t i = 0; i < relay_targets(r); i++)
		fprintf(out, "wsonce_webhook_paused{target=\"%s\"} %d\n", relay_target(r, i)->webhook->name,
			target_failing(relay_target(r, i)) || relay_pause(r, i));
	put_gauge(out, "outbox_pending", "Pending deliveries of the whole fleet; counted up to 20000.",
		  (double)relay_backlog(r)->pending);
	put_gauge(out, "outbox_oldest_seconds", "How long the oldest delivery has been pending; 0 if there is none.",
		  (double)relay_backlog(r)->oldest_ms / 1000);
}

struct token_sums {
	uint64_t connections, messages, rejected;
};

/* Sums over all tokens with this name: there are two while a token is being replaced. */
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

/* Writes a metric with the standard name that all programs use. */
static void put_process(FILE *out, const char *name, const char *type, const char *meaning, double value)
{
	fprintf(out, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.15g\n", name, meaning, name, type, name,
		value);
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Counts the entries of /proc/self/fd, except the descriptor that reads them. */
static size_t open_files(void)
{
	DIR *files = opendir("/proc/self/fd");
	const struct dirent *entry;
	size_t n = 0;

	while (files && (entry = readdir(files)))
		n += *entry->d_name != '.';
	if (files)
		closedir(files);
	return n ? n - 1 : 0;
}

/* The standard process metrics (Prometheus documentation, "Writing client libraries"). Memory as in proc(5), statm. */
static void put_processes(FILE *out)
{
	double pages[2] = {0, 0}, page = (double)sysconf(_SC_PAGESIZE);
	FILE *in = fopen("/proc/self/statm", "r");
	struct rlimit files = {0, 0};
	char line[128], *resident;

	if (in && fgets(line, sizeof(line), in)) {
		pages[0] = strtod(line, &resident);
		pages[1] = strtod(resident, NULL);
	}
	if (in)
		fclose(in);
	getrlimit(RLIMIT_NOFILE, &files);
	put_process(out, "cpu_seconds_total", "counter", "CPU time, user and system.", cpu_seconds());
	put_process(out, "resident_memory_bytes", "gauge", "Resident memory.", pages[1] * page);
	put_process(out, "virtual_memory_bytes", "gauge", "Virtual memory.", pages[0] * page);
	put_process(out, "open_fds", "gauge", "Open files.", (double)open_files());
	put_process(out, "max_fds", "gauge", "Limit of open files.", (double)files.rlim_cur);
	put_process(out, "start_time_seconds", "gauge", "Unix time of the start.", (double)started_s);
}

/* Counts by class only, because there may be many reasons. `wsonce dead-letters list` groups by reason. */
static void put_dead_letters(FILE *out)
{
	static const char *const names[] = {REJECTED_CLASS_NAMES};

	put_type(out, "dead_letters_total", "counter",
		 "Messages recorded as dead letters: not an event (message), refused by a profile (profile), or an "
		 "event that is too old or that Postgres refused (event).");
	for (int i = 0; i < REJECTED_CLASSES; i++)
		fprintf(out, "wsonce_dead_letters_total{class=\"%s\"} %llu\n", names[i],
			(unsigned long long)rejected_count((enum rejected_class)i));
}

void metrics_start(void)
{
	started_s = (int64_t)time(NULL);
}

double metrics_spool_age(const struct spool_view *view)
{
	return view->oldest_us ? (double)(clock_us(CLOCK_REALTIME) - view->oldest_us) / 1e6 : 0;
}

static void put_spool(const struct spool *spool, FILE *out)
{
	struct spool_view view;

	if (!spool)
		return;
	view = spool_view(spool);
	put_gauge(out, "spool_events", "Unsettled events on disk; absent without --spool, like the other four.",
		  (double)view.events);
	put_gauge(out, "spool_away", "Unsettled events on disk that are not in memory.", (double)view.away);
	put_gauge(out, "spool_bytes", "Bytes of the spool's segments.", (double)view.bytes);
	put_gauge(out, "spool_oldest_seconds", "Age of the oldest of these events; 0 if there is none.",
		  metrics_spool_age(&view));
	put_gauge(out, "spool_up", "1 while the spool can be written, 0 while it is full or its disk fails.",
		  !view.reason);
}

void metrics_write(const struct admin_parts *p, int64_t now_ms, FILE *out)
{
	const struct events *events = pipeline_events(p->pipeline);
	const struct claim *claim = pipeline_claim(p->pipeline);
	const char *why;

	put_type(out, "build_info", "gauge", "1; the version is in the label.");
	fprintf(out, "wsonce_build_info{version=\"%s\"} 1\n", WSONCE_VERSION);
	put_processes(out);
	counters_each(put_counter, out);
	put_dead_letters(out);
	put_gauge(out, "reload_failed", "1 if the last reload failed.", has_reload_failed);
	put_gauge(out, "in_flight", "Messages received and not settled.", (double)events->messages);
	put_gauge(out, "oldest_unsettled_seconds", "Age of the oldest unsettled event; 0 if there is none.",
		  (double)overdue_oldest_ms(events, now_ms) / 1000);
	put_gauge(out, "in_flight_bytes", "Bytes of the memory budget in use.", (double)pipeline_bytes(p->pipeline));
	put_gauge(out, "in_flight_bytes_limit", "Memory budget in bytes.", (double)p->config->inflight_bytes);
	put_gauge(out, "paused", "1 while reading is paused at the memory limit.", pipeline_is_full(p->pipeline));
	put_gauge(out, "ingest_paused",
		  "1 while senders that resend are not read because they use up their share of memory.",
		  pipeline_is_full_for_producers(p->pipeline));
	put_spool(pipeline_spool(p->pipeline), out);
	if (claim_is_used(claim))
		put_gauge(out, "redis_up",
			  "1 while claims can be made and no command is refused; absent with --redis none.",
			  claim_is_ready(claim) && !claim_is_refused(claim));
	put_gauge(out, "postgres_up", "1 while rows can be stored.", !*storing_trouble(pipeline_storing(p->pipeline)));
	put_gauge(out, "postgres_slow_seconds",
		  "How long the oldest event has waited while Postgres stores events more slowly than they arrive; "
		  "else 0.",
		  (double)storing_is_slow(pipeline_storing(p->pipeline), &why) / 1000);
	put_sources(out, p->sources, now_ms);
	put_gauge(out, "ingest_connections", "Producers connected.",
		  p->ingest ? (double)ingest_connections(p->ingest) : 0);
	if (p->ingest)
		put_tokens(out, ingest_tokens(p->ingest));
	put_type(out, "events", "gauge", "Events in memory by state.");
	for (int i = 0; i < EVENT_STATES - 1; i++)
		fprintf(out, "wsonce_events{state=\"%s\"} %zu\n", event_state_name((enum event_state)i),
			events->counts[i]);
	if (p->relay)
		put_targets(out, p->relay);
	put_histogram(out, "commit_latency", "Time from receiving a message to its commit.", &commit_latency);
	put_histogram(out, "duplicate_delay", "Time from an event's claim to the arrival of a further copy.",
		      &duplicate_delay);
}
