/* producer.c is wsonce-producer: it owns the settings, the counts and the end of a run. script.c
 * decides what is sent when, link.c owns the connections, verify.c checks the table. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "hist.h"
#include "link.h"
#include "message.h"
#include "options.h"
#include "outcomes.h"
#include "progress.h"
#include "script.h"
#include "summary.h"
#include "verify.h"
#include "window.h"

enum {
	TICK_MS = 1,       /* resolution of the timetable */
	IDLE_TICK_MS = 20, /* without a rate, acks set the pace; this catches missed wake-ups */
	CHECK_MS = 100,    /* between checks for resends, the timeout and the end */
	BURST = 2000,      /* messages offered per turn of the loop */
	GOODBYE_S = 2,     /* timeout for the servers' close frames */
};

struct settings {
	struct option_texts to;
	uint64_t connections;
	bool connect_first;
	uint64_t count;
	double rate;
	uint64_t window;
	bool no_acks;
	uint64_t payload_bytes;
	double duplicates;
	double malformed;
	const char *token;
	const char *id_prefix;
	uint64_t seed;
	double retry_after_s;
	double timeout_s;
	const char *refused;
	const char *ledger;
	const char *verify;
	bool json;
};

/* The state of the run; only producer_move() changes it. */
enum state {
	PRODUCER_SENDING, /* messages left to send or unacked	-> PRODUCER_CLOSING */
	PRODUCER_CLOSING, /* close frames sent			-> PRODUCER_DONE */
	PRODUCER_DONE,    /* all handles are closing */
};

struct producer {
	struct settings settings;
	struct link_target targets[OPTION_TEXTS_MOST];
	struct message_form form;
	enum state state;
	int64_t state_ns; /* when the state was entered */
	uv_loop_t loop;
	uv_timer_t tick;
	uv_timer_t check;
	uv_signal_t signals[2]; /* SIGINT, SIGTERM */
	struct links *links;
	struct script *script;
	struct outcomes outcomes;
	struct hist latency;      /* in ns */
	FILE *refused;            /* or NULL */
	char *text;               /* room for one message */
	int64_t start_ns, end_ns; /* the first offer, the last ack */
	int64_t start_unix_us;    /* start_ns by the wall clock */
	int64_t moved_ns;         /* the last time an ack arrived or none was due */
	int64_t progress_ns;      /* when progress was last shown */
	uint64_t offered[3];      /* messages by enum script_kind, resends not counted */
	uint64_t acks[ACK_STATUSES];
	uint64_t events_refused;     /* well-formed, but acked as rejected */
	uint64_t malformed_accepted; /* malformed, but acked as stored */
	bool was_stopped;            /* by a signal */
	bool has_timed_out;
	bool has_failed; /* out of memory, or a file cannot be written */
};

static void on_closed(uv_handle_t *handle)
{
	(void)handle;
}

static void finish(struct producer *p)
{
	links_close(p->links);
	uv_close((uv_handle_t *)&p->tick, on_closed);
	uv_close((uv_handle_t *)&p->check, on_closed);
	for (int i = 0; i < 2; i++)
		uv_close((uv_handle_t *)&p->signals[i], on_closed);
}

static void producer_move(struct producer *p, enum state state)
{
	p->state = state;
	p->state_ns = (int64_t)uv_hrtime();
	switch (state) {
	case PRODUCER_SENDING:
		p->moved_ns = p->state_ns;
		return;
	case PRODUCER_CLOSING:
		script_stop(p->script);
		links_say_goodbye(p->links);
		return;
	case PRODUCER_DONE:
		finish(p);
		return;
	}
}

static void fail(struct producer *p, const char *why)
{
	if (!p->has_failed)
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
	p->has_failed = true;
	script_stop(p->script);
}

static void offer(struct producer *p, const struct script_step *step)
{
	uint64_t n = step->kind == SCRIPT_MALFORMED ? p->offered[SCRIPT_EVENT] : step->n;
	int64_t planned_ns = script_planned_ns(p->script, n);

	if (step->kind == SCRIPT_EVENT && outcomes_raise(&p->outcomes, step->n, OUTCOME_UNANSWERED))
		fail(p, "out of memory");
	if (links_offer(p->links, step, planned_ns))
		fail(p, "out of memory");
	p->offered[step->kind]++;
}

static void start(struct producer *p, int64_t now_ns)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	p->start_unix_us = (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
	p->start_ns = now_ns;
	script_start(p->script, now_ns);
}

static unsigned int connections_of(const struct settings *set)
{
	return (unsigned int)(set->connections > set->to.count ? set->connections : set->to.count);
}

/* True if the connections are up that the first message waits for. */
static bool may_start(const struct producer *p)
{
	return links_has_room(p->links) &&
	       (!p->settings.connect_first || links_ready(p->links) >= connections_of(&p->settings));
}

/* The timetable begins when the first connection (or all of them) is up, so that waiting for a server is not measured
 * as latency. */
static void offer_due(struct producer *p)
{
	int64_t now_ns = (int64_t)uv_hrtime();
	struct script_step step;

	if (p->state != PRODUCER_SENDING)
		return;
	if (!p->start_ns && !may_start(p))
		return;
	if (!p->start_ns)
		start(p, now_ns);
	for (int i = 0; i < BURST && links_has_room(p->links); i++) {
		if (!script_next(p->script, now_ns, &step))
			return;
		offer(p, &step);
	}
}

/* With a rate, only the tick offers messages, so that all that are due in a millisecond become one write. */
static void on_room(void *arg)
{
	struct producer *p = arg;

	if (p->settings.rate <= 0)
		offer_due(p);
}

static void on_tick(uv_timer_t *tick)
{
	offer_due(tick->data);
}

static void note_refused(struct producer *p, const struct sending *m, const struct ack *ack)
{
	bool is_event = m->step.kind != SCRIPT_MALFORMED;
	char id[MESSAGE_PREFIX_MOST + 24];
	size_t len;
	json_t *line;

	if (!p->refused)
		return;
	len = is_event ? message_event(&p->form, m->step.n, p->text) : message_malformed(&p->form, m->step.n, p->text);
	id[message_id(&p->form, m->step.n, id)] = '\0';
	line = json_pack("{s:s?, s:s?, s:s%}", "event_id", is_event ? id : NULL, "reason", ack->reason, "message",
			 p->text, len);
	if (!line || json_dumpf(line, p->refused, JSON_COMPACT) || fputc('\n', p->refused) == EOF)
		fail(p, "cannot write the file of refused messages");
	json_decref(line);
}

static void tally_event(struct producer *p, const struct sending *m, const struct ack *ack)
{
	switch (ack->status) {
	case ACK_PERSISTED:
		outcomes_raise(&p->outcomes, m->step.n, OUTCOME_PERSISTED);
		return;
	case ACK_DUPLICATE:
		outcomes_raise(&p->outcomes, m->step.n, OUTCOME_DUPLICATE);
		return;
	case ACK_REJECTED:
		outcomes_raise(&p->outcomes, m->step.n, OUTCOME_REJECTED);
		p->events_refused++;
		return;
	case ACK_STATUSES:
		return;
	}
}

static void on_acked(void *arg, const struct sending *m, const struct ack *ack, int64_t now_ns)
{
	struct producer *p = arg;

	p->moved_ns = p->end_ns = now_ns;
	if (!ack)
		return;
	p->acks[ack->status]++;
	hist_add(&p->latency, (uint64_t)(now_ns - (m->planned_ns ? m->planned_ns : m->first_ns)));
	if (m->step.kind != SCRIPT_MALFORMED)
		tally_event(p, m, ack);
	else if (ack->status != ACK_REJECTED)
		p->malformed_accepted++;
	if (ack->status == ACK_REJECTED)
		note_refused(p, m, ack);
}

static uint64_t acks_all(const struct producer *p)
{
	uint64_t all = 0;

	for (int i = 0; i < ACK_STATUSES; i++)
		all += p->acks[i];
	return all;
}

/* Timeout for the servers' close frames. Without acks, only a close frame shows that a server has read everything. */
static double goodbye_s(const struct producer *p)
{
	return p->settings.no_acks ? p->settings.timeout_s : GOODBYE_S;
}

static void show(struct producer *p, int64_t now_ns)
{
	if (now_ns - p->progress_ns < 500000000)
		return;
	p->progress_ns = now_ns;
	if (!p->start_ns)
		progress_show("connecting: %s", links_trouble(p->links));
	else
		progress_show("%llu acked, %llu pending, %u connected, %.0f/s", (unsigned long long)acks_all(p),
			      (unsigned long long)links_under_way(p->links), links_ready(p->links),
			      (double)acks_all(p) * 1e9 / (double)(now_ns - p->start_ns));
}

static void give_up_or_end(struct producer *p, int64_t now_ns)
{
	bool is_waiting = links_under_way(p->links) || !links_has_room(p->links) || !p->start_ns;

	if (!is_waiting && script_is_over(p->script)) {
		producer_move(p, PRODUCER_CLOSING);
		return;
	}
	if (!is_waiting)
		p->moved_ns = now_ns;
	if ((double)(now_ns - p->moved_ns) < p->settings.timeout_s * 1e9)
		return;
	p->has_timed_out = true;
	progress_end();
	fprintf(stderr, "%s: no ack for %g s, %llu messages unanswered%s%s\n", program_invocation_short_name,
		p->settings.timeout_s, (unsigned long long)links_under_way(p->links),
		*links_trouble(p->links) ? "; last error: " : "", links_trouble(p->links));
	producer_move(p, PRODUCER_CLOSING);
}

static void on_check(uv_timer_t *check)
{
	struct producer *p = check->data;
	int64_t now_ns = (int64_t)uv_hrtime();

	show(p, now_ns);
	switch (p->state) {
	case PRODUCER_SENDING:
		links_check(p->links, now_ns);
		give_up_or_end(p, now_ns);
		return;
	case PRODUCER_CLOSING:
		if (!links_ready(p->links) || (double)(now_ns - p->state_ns) > goodbye_s(p) * 1e9)
			producer_move(p, PRODUCER_DONE);
		return;
	case PRODUCER_DONE:
		return;
	}
}

/* The first signal stops sending and waits for acks; the second one stops waiting. */
static void on_signal(uv_signal_t *handle, int signum)
{
	struct producer *p = handle->data;

	(void)signum;
	script_stop(p->script);
	if (p->was_stopped && p->state == PRODUCER_SENDING)
		producer_move(p, PRODUCER_CLOSING);
	p->was_stopped = true;
}

static void handles_init(struct producer *p)
{
	static const int signums[] = {SIGINT, SIGTERM};
	unsigned int tick_ms = p->settings.rate > 0 ? TICK_MS : IDLE_TICK_MS;

	uv_timer_init(&p->loop, &p->tick);
	uv_timer_init(&p->loop, &p->check);
	p->tick.data = p->check.data = p;
	uv_timer_start(&p->tick, on_tick, tick_ms, tick_ms);
	uv_timer_start(&p->check, on_check, CHECK_MS, CHECK_MS);
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&p->loop, &p->signals[i]);
		p->signals[i].data = p;
		uv_signal_start(&p->signals[i], on_signal, signums[i]);
	}
	signal(SIGPIPE, SIG_IGN);
}

static void report_latency(struct summary *out, const struct hist *h)
{
	summary_number(out, "latency_p50_ms", (double)hist_percentile(h, 50) / 1e6);
	summary_number(out, "latency_p90_ms", (double)hist_percentile(h, 90) / 1e6);
	summary_number(out, "latency_p99_ms", (double)hist_percentile(h, 99) / 1e6);
	summary_number(out, "latency_max_ms", (double)h->largest / 1e6);
}

static void report_finding(struct summary *out, const char *name, const char *ids_name, const struct verify_finding *f)
{
	const char *ids[VERIFY_EXAMPLES];
	unsigned int count = f->count < VERIFY_EXAMPLES ? (unsigned int)f->count : VERIFY_EXAMPLES;

	summary_count(out, name, f->count);
	for (unsigned int i = 0; i < count; i++)
		ids[i] = f->examples[i];
	if (count)
		summary_texts(out, ids_name, ids, count);
}

static void report_verified(struct summary *out, const struct verify_result *v)
{
	summary_count(out, "rows", v->rows);
	report_finding(out, "lost", "lost_ids", &v->lost);
	report_finding(out, "doubled", "doubled_ids", &v->doubled);
	report_finding(out, "altered", "altered_ids", &v->altered);
	report_finding(out, "unexpected", "unexpected_ids", &v->unexpected);
}

static void report(struct producer *p, const struct verify_result *verified)
{
	const struct links_counts *counts = links_counts(p->links);
	double seconds = p->end_ns ? (double)(p->end_ns - p->start_ns) / 1e9 : 0;
	struct summary *out = summary_new();

	summary_count(out, "events", p->offered[SCRIPT_EVENT]);
	summary_count(out, "duplicates", p->offered[SCRIPT_DUPLICATE]);
	summary_count(out, "malformed", p->offered[SCRIPT_MALFORMED]);
	summary_count(out, "acks", acks_all(p));
	for (int i = 0; i < ACK_STATUSES; i++)
		summary_count(out, ack_name(i), p->acks[i]);
	summary_count(out, "unanswered", links_under_way(p->links));
	summary_count(out, "events_refused", p->events_refused);
	summary_count(out, "malformed_accepted", p->malformed_accepted);
	summary_count(out, "resends", counts->resends);
	summary_count(out, "moved", counts->moved);
	summary_count(out, "stray_acks", counts->stray_acks);
	summary_count(out, "bad_acks", counts->bad_acks);
	summary_count(out, "connects", counts->connects);
	summary_count(out, "reconnects", counts->reconnects);
	summary_count(out, "refusals", counts->refusals);
	summary_count(out, "start_unix_us", (uint64_t)p->start_unix_us);
	summary_number(out, "seconds", seconds);
	summary_number(out, "acks_per_s", seconds > 0 ? (double)acks_all(p) / seconds : 0);
	report_latency(out, &p->latency);
	if (verified)
		report_verified(out, verified);
	summary_text(out, "id_prefix", p->form.prefix);
	summary_count(out, "seed", p->settings.seed);
	summary_print(out, p->settings.json);
	summary_free(out);
}

/* One line per event: id, tab, outcome. */
static int write_ledger(const struct producer *p)
{
	FILE *file = fopen(p->settings.ledger, "w");
	bool has_failed = !file;

	for (uint64_t n = 1; !has_failed && n <= p->outcomes.last; n++)
		has_failed = fprintf(file, "%s-%llu\t%s\n", p->form.prefix, (unsigned long long)n,
				     outcome_name(outcomes_of(&p->outcomes, n))) < 0;
	if (file && fclose(file))
		has_failed = true;
	return has_failed ? -1 : 0;
}

/* The end of the run, after the loop. Returns the exit status. */
static int conclude(struct producer *p)
{
	struct verify_result verified;
	int unverified = 0;
	bool is_bad = p->has_timed_out || p->malformed_accepted || links_under_way(p->links);

	if (p->settings.ledger && write_ledger(p))
		fail(p, "cannot write the ledger");
	if (p->refused && fclose(p->refused))
		fail(p, "cannot write the file of refused messages");
	if (p->settings.verify) {
		unverified = verify_run(p->settings.verify, &p->form, &p->outcomes, &verified);
		is_bad |= unverified || !verify_is_clean(&verified);
	}
	report(p, p->settings.verify && !unverified ? &verified : NULL);
	return is_bad || p->has_failed;
}

static int read_targets(struct producer *p)
{
	const struct option_texts *to = &p->settings.to;

	if (!to->count)
		return options_complain("to", "is required, as in ws://127.0.0.1:9800/events");
	for (size_t i = 0; i < to->count; i++)
		if (link_read_url(to->items[i], &p->targets[i]))
			return options_complain("to", "is not a URL of the form ws://HOST:PORT/PATH");
	return 0;
}

/* Finds out before the run whether the files can be written. */
static int try_files(struct producer *p)
{
	FILE *ledger;

	if (p->settings.refused && !(p->refused = fopen(p->settings.refused, "w")))
		return options_complain("refused", strerror(errno));
	if (!p->settings.ledger)
		return 0;
	ledger = fopen(p->settings.ledger, "w");
	if (!ledger)
		return options_complain("ledger", strerror(errno));
	fclose(ledger);
	return 0;
}

static int producer_open(struct producer *p)
{
	const struct settings *set = &p->settings;
	struct script_form script = {
		.count = set->count,
		.rate = set->rate,
		.duplicates = set->duplicates,
		.malformed = set->malformed,
		.seed = set->seed,
	};
	struct links_settings links = {
		.targets = p->targets,
		.targets_count = (unsigned int)set->to.count,
		.connections = connections_of(set),
		.window = (unsigned int)set->window,
		.wants_acks = !set->no_acks,
		.token = set->token,
		.retry_after_s = set->retry_after_s,
		.form = p->form,
		.seed = ~set->seed,
	};

	p->script = script_new(&script);
	p->text = malloc(message_most(&p->form));
	if (!p->script || !p->text || uv_loop_init(&p->loop))
		return 1;
	p->links = links_open(&p->loop, &links, on_acked, on_room, p);
	if (p->links)
		return 0;
	fprintf(stderr, "%s: no libwebsockets context: is its libuv plugin installed?\n",
		program_invocation_short_name);
	return 1;
}

static void producer_free(struct producer *p)
{
	links_free(p->links);
	outcomes_free(&p->outcomes);
	script_free(p->script);
	free(p->text);
	uv_loop_close(&p->loop);
}

static const char usage[] =
	"Usage: wsonce-producer --to URL [OPTION...]\n\n"
	"Sends generated events to ingest endpoints and waits for the ack of each. Exits with status 1 if\n"
	"some were not acked, or if the table does not contain what was sent.";

int main(int argc, char **argv)
{
	char prefix[MESSAGE_PREFIX_MOST];
	struct producer p = {.settings = {
				     .connections = 1,
				     .count = 10000,
				     .window = 1000,
				     .payload_bytes = 100,
				     .retry_after_s = 10,
				     .timeout_s = 30,
			     }};
	struct settings *set = &p.settings;
	const struct option_row table[] = {
		{"to", OPTION_TEXTS, &set->to, 0, 0, "URL", "ws://HOST:PORT/events; may be repeated"},
		{"connections", OPTION_COUNT, &set->connections, 1, 10000, "N", "in total, at least one to each URL"},
		{"connect-first", OPTION_FLAG, &set->connect_first, 0, 0, NULL, "wait until all connections are up"},
		{"count", OPTION_COUNT, &set->count, 0, 1e12, "N", "distinct events; 0 = no end"},
		{"rate", OPTION_NUMBER, &set->rate, 0, 1e7, "R", "events per second; 0 = as fast as acks come"},
		{"window", OPTION_COUNT, &set->window, 1, 1e6, "N", "unacked messages per connection"},
		{"no-acks", OPTION_FLAG, &set->no_acks, 0, 0, NULL,
		 "offer no subprotocol; a message counts as sent once written"},
		{"payload-bytes", OPTION_COUNT, &set->payload_bytes, 0, MESSAGE_PAYLOAD_MOST, "N",
		 "size of each payload"},
		{"duplicates", OPTION_NUMBER, &set->duplicates, 0, 100, "PCT", "share of events sent twice"},
		{"malformed", OPTION_NUMBER, &set->malformed, 0, 100, "PCT",
		 "malformed messages on top, per hundred events"},
		{"token", OPTION_TEXT, &set->token, 0, 0, "T", "bearer token (or WSONCE_INGEST_TOKEN)"},
		{"id-prefix", OPTION_TEXT, &set->id_prefix, 0, 0, "P", "ids are P-1, P-2, ... (default from the time)"},
		{"seed", OPTION_COUNT, &set->seed, 0, 1e15, "N", "of all random numbers; 0 = a new one each time"},
		{"retry-after", OPTION_NUMBER, &set->retry_after_s, 0.1, 1e6, "S",
		 "resend messages without an ack after this"},
		{"timeout", OPTION_NUMBER, &set->timeout_s, 0.1, 1e6, "S", "give up after this long without any ack"},
		{"refused", OPTION_TEXT, &set->refused, 0, 0, "FILE",
		 "write rejected messages, one JSON object per line"},
		{"ledger", OPTION_TEXT, &set->ledger, 0, 0, "FILE", "write the outcome of each event, one per line"},
		{"verify", OPTION_TEXT, &set->verify, 0, 0, "CONNINFO", "compare the table events with what was sent"},
		{"json", OPTION_FLAG, &set->json, 0, 0, NULL, "print the result as JSON"},
		{0},
	};
	enum options_result parsed = options_parse(table, usage, argc, argv);
	int status;

	if (parsed != OPTIONS_GO)
		return parsed == OPTIONS_HELP ? 0 : 2;
	message_make_prefix(prefix, sizeof(prefix));
	p.form = (struct message_form){set->id_prefix ? set->id_prefix : prefix, set->payload_bytes, MESSAGE_EVENT};
	if (!message_is_prefix(p.form.prefix))
		return options_complain("id-prefix", "not 1 to 100 letters, digits and . : -");
	if (!set->token)
		set->token = getenv("WSONCE_INGEST_TOKEN");
	if (!set->seed)
		set->seed = uv_hrtime() % 1000000000 + 1;
	if (set->no_acks && set->verify)
		return options_complain("verify",
					"cannot be used with --no-acks, which does not know when all is stored");
	if (read_targets(&p) || try_files(&p))
		return 2;
	status = producer_open(&p);
	if (status)
		return status;
	handles_init(&p);
	producer_move(&p, PRODUCER_SENDING);
	uv_run(&p.loop, UV_RUN_DEFAULT);
	progress_end();
	status = conclude(&p);
	producer_free(&p);
	return status;
}
