/* source.c is wsonce-source: it owns the settings, the pace and the end of a run. script.c or
 * replay.c decide what comes next, message.c writes it, server.c sends it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <uv.h>

#include "backlog.h"
#include "hist.h"
#include "message.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "replay.h"
#include "script.h"
#include "server.h"
#include "summary.h"

enum {
	TICK_MS = 2,             /* of the timetable; each tick wakes every listener */
	IDLE_TICK_MS = 20,       /* without a rate, listeners set the pace; this catches missed wake-ups */
	CHECK_MS = 100,          /* between checks for stalls, drops and the end */
	AHEAD_BYTES = 2 << 20,   /* without a rate: bytes generated ahead of the slowest client */
	BEHIND_BYTES = 64 << 20, /* with a rate: drop a client this far behind */
	BURST = 2000,            /* messages made per turn of the loop */
	GOODBYE_S = 30,          /* timeout for the clients' close frames */
	CLOSE_NORMAL = 1000,
	CLOSE_GOING_AWAY = 1001,
};

struct settings {
	const char *listen;
	uint64_t count;
	uint64_t warm_up;
	double rate;
	uint64_t payload_bytes;
	double duplicates;
	double duplicate_delay_ms;
	double late;
	double malformed;
	double drop_every_s;
	uint64_t wait_listeners;
	const char *replay;
	const char *id_prefix;
	const char *form;
	uint64_t seed;
	double linger_s;
	double stall_timeout_s;
	const char *ledger;
	bool json;
};

/* The state of the run; only source_move() changes it. */
enum state {
	SOURCE_WAITING,   /* too few listeners yet		-> SOURCE_SENDING, SOURCE_FLUSHING */
	SOURCE_SENDING,   /* messages left to send		-> SOURCE_FLUSHING */
	SOURCE_FLUSHING,  /* all sent, not all received	-> SOURCE_LINGERING, SOURCE_CLOSING */
	SOURCE_LINGERING, /* all received			-> SOURCE_CLOSING */
	SOURCE_CLOSING,   /* close frames sent		-> SOURCE_DONE */
	SOURCE_DONE,      /* all handles are closing */
};

struct source {
	struct settings settings;
	struct message_form form;
	enum state state;
	int64_t state_ns; /* since when */
	uv_loop_t loop;
	uv_timer_t tick;
	uv_timer_t check;
	uv_signal_t signals[2]; /* SIGINT, SIGTERM */
	uv_signal_t resume;     /* SIGUSR1 */
	struct server *server;
	struct backlog *backlog;
	struct script *script;
	struct replay *replay;    /* NULL if events are generated */
	struct random random;     /* for --drop-every */
	FILE *ledger;             /* or NULL */
	char *text;               /* room for one message */
	int64_t drop_ns;          /* when to drop the next connection */
	int64_t start_ns, end_ns; /* of sending, without the warm-up */
	int64_t start_unix_us;    /* start_ns by the wall clock */
	int64_t progress_ns;      /* when progress was last shown */
	unsigned int close_code;
	uint64_t events;       /* sent while a client was connected */
	uint64_t unheard;      /* events due while no client was connected */
	uint64_t unheard_last; /* number of the last of them */
	uint64_t duplicates;
	uint64_t malformed;
	uint64_t warm_events;     /* of the events, those before start_ns */
	uint64_t warm_deliveries; /* written before start_ns */
	struct hist lag;          /* from an event's due time to its write, in ns */
	bool has_failed;          /* out of memory, or the ledger cannot be written */
};

static void on_closed(uv_handle_t *handle)
{
	(void)handle;
}

static void finish(struct source *s)
{
	server_close(s->server);
	uv_close((uv_handle_t *)&s->tick, on_closed);
	uv_close((uv_handle_t *)&s->check, on_closed);
	uv_close((uv_handle_t *)&s->resume, on_closed);
	for (int i = 0; i < 2; i++)
		uv_close((uv_handle_t *)&s->signals[i], on_closed);
}

static void note_start(struct source *s)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	s->start_ns = (int64_t)uv_hrtime();
	s->start_unix_us = (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
	s->warm_events = s->events;
	s->warm_deliveries = server_counts(s->server)->deliveries;
	memset(&s->lag, 0, sizeof(s->lag));
}

static void source_move(struct source *s, enum state state)
{
	s->state = state;
	s->state_ns = (int64_t)uv_hrtime();
	switch (state) {
	case SOURCE_WAITING:
	case SOURCE_LINGERING:
		return;
	case SOURCE_SENDING:
		note_start(s);
		script_start(s->script, s->start_ns);
		return;
	case SOURCE_FLUSHING:
		script_stop(s->script);
		return;
	case SOURCE_CLOSING:
		s->end_ns = s->state_ns;
		server_say_goodbye(s->server, s->close_code);
		return;
	case SOURCE_DONE:
		finish(s);
		return;
	}
}

static void fail(struct source *s, const char *why)
{
	if (!s->has_failed)
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
	s->has_failed = true;
	if (s->state < SOURCE_FLUSHING)
		source_move(s, SOURCE_FLUSHING);
}

static void say(struct source *s, const char *text, size_t len)
{
	if (backlog_append(s->backlog, text, len))
		fail(s, "out of memory");
}

static void say_line(struct source *s)
{
	const char *line;
	size_t len;

	if (!replay_next(s->replay, &line, &len)) {
		script_stop(s->script);
		return;
	}
	say(s, line, len);
	s->events++;
}

static void note(struct source *s, uint64_t n)
{
	size_t len;

	if (!s->ledger)
		return;
	len = message_id(&s->form, n, s->text);
	s->text[len] = '\n';
	if (fwrite(s->text, 1, len + 1, s->ledger) != len + 1)
		fail(s, "cannot write the ledger");
}

/* No client is connected, but the timetable continues. The event is not sent, so it is not in the ledger. */
static void say_to_nobody(struct source *s, const struct script_step *step)
{
	if (step->kind != SCRIPT_EVENT)
		return;
	s->unheard++;
	s->unheard_last = step->n;
}

static void say_step(struct source *s, const struct script_step *step)
{
	switch (step->kind) {
	case SCRIPT_EVENT:
		s->events++;
		say(s, s->text, message_event(&s->form, step->n, s->text));
		note(s, step->n);
		return;
	case SCRIPT_DUPLICATE:
		if (step->n <= s->unheard_last) /* may be a copy of an event that was not sent */
			return;
		s->duplicates++;
		say(s, s->text, message_event(&s->form, step->n, s->text));
		return;
	case SCRIPT_MALFORMED:
		s->malformed++;
		say(s, s->text, message_malformed(&s->form, step->n, s->text));
		return;
	}
}

/* Without a rate the slowest client sets the pace; without clients nothing is sent. */
static bool has_room(const struct source *s)
{
	if (s->settings.rate > 0)
		return true;
	return server_clients(s->server) > 0 &&
	       (backlog_bytes(s->backlog) < AHEAD_BYTES || !server_is_behind(s->server));
}

static void note_lag(struct source *s, const struct script_step *step, int64_t now_ns)
{
	if (s->settings.rate > 0 && step->kind == SCRIPT_EVENT)
		hist_add(&s->lag, (uint64_t)(now_ns - script_planned_ns(s->script, step->n)));
}

static void send_due(struct source *s)
{
	int64_t now_ns = (int64_t)uv_hrtime();
	struct script_step step;

	for (int i = 0; i < BURST && has_room(s) && script_next(s->script, now_ns, &step); i++) {
		note_lag(s, &step, now_ns);
		if (s->replay)
			say_line(s);
		else if (server_clients(s->server))
			say_step(s, &step);
		else
			say_to_nobody(s, &step);
	}
	server_wake(s->server);
	if (script_is_over(s->script))
		source_move(s, SOURCE_FLUSHING);
}

static void go_on(struct source *s)
{
	if (s->state == SOURCE_WAITING && server_clients(s->server) >= s->settings.wait_listeners)
		source_move(s, SOURCE_SENDING);
	if (s->state == SOURCE_SENDING)
		send_due(s);
}

/* With a rate, only the tick sends. Otherwise each write would find a newly due message or two and
 * wake all clients again. */
static void on_server(void *arg)
{
	struct source *s = arg;

	if (s->settings.rate <= 0 || s->state == SOURCE_WAITING)
		go_on(s);
}

static void on_tick(uv_timer_t *tick)
{
	go_on(tick->data);
}

/* Ends the pause after the warm-up. Ignored at other times. */
static void on_resume(uv_signal_t *handle, int signum)
{
	struct source *s = handle->data;

	(void)signum;
	if (s->state != SOURCE_SENDING || !script_is_paused(s->script))
		return;
	note_start(s);
	script_resume(s->script, s->start_ns);
	go_on(s);
}

static void drop_now_and_then(struct source *s, int64_t now_ns)
{
	double pause_s = s->settings.drop_every_s * (0.5 + random_share(&s->random));

	if (s->settings.drop_every_s <= 0 || s->state != SOURCE_SENDING)
		return;
	if (s->drop_ns && now_ns >= s->drop_ns)
		server_cut(s->server, random_next(&s->random));
	if (!s->drop_ns || now_ns >= s->drop_ns)
		s->drop_ns = now_ns + (int64_t)(pause_s * 1e9);
}

static void end_by_steps(struct source *s, int64_t now_ns)
{
	double since_s = (double)(now_ns - s->state_ns) / 1e9;

	switch (s->state) {
	case SOURCE_WAITING:
	case SOURCE_SENDING:
	case SOURCE_DONE:
		return;
	case SOURCE_FLUSHING:
		if (server_is_flushed(s->server))
			source_move(s, s->settings.linger_s > 0 ? SOURCE_LINGERING : SOURCE_CLOSING);
		return;
	case SOURCE_LINGERING:
		if (since_s >= s->settings.linger_s)
			source_move(s, SOURCE_CLOSING);
		return;
	case SOURCE_CLOSING:
		if (!server_clients(s->server) || since_s > GOODBYE_S)
			source_move(s, SOURCE_DONE);
		return;
	}
}

static void show(struct source *s, int64_t now_ns)
{
	const struct server_counts *counts = server_counts(s->server);
	double seconds = (double)(now_ns - s->start_ns) / 1e9;

	if (now_ns - s->progress_ns < 500000000)
		return;
	s->progress_ns = now_ns;
	if (s->state == SOURCE_WAITING)
		progress_show("%u of %llu listeners", server_clients(s->server),
			      (unsigned long long)s->settings.wait_listeners);
	else
		progress_show("%llu events, %llu deliveries to %u listeners, %.0f/s", (unsigned long long)s->events,
			      (unsigned long long)counts->deliveries, server_clients(s->server),
			      (double)counts->deliveries / seconds);
}

static void on_check(uv_timer_t *check)
{
	struct source *s = check->data;
	int64_t now_ns = (int64_t)uv_hrtime();

	server_check(s->server, now_ns);
	drop_now_and_then(s, now_ns);
	show(s, now_ns);
	end_by_steps(s, now_ns);
}

/* The first signal ends the run gracefully, the second one at once. */
static void on_signal(uv_signal_t *handle, int signum)
{
	struct source *s = handle->data;

	(void)signum;
	if (s->close_code == CLOSE_GOING_AWAY && s->state != SOURCE_DONE)
		source_move(s, SOURCE_DONE);
	s->close_code = CLOSE_GOING_AWAY;
	s->settings.linger_s = 0;
	if (s->state < SOURCE_FLUSHING)
		source_move(s, SOURCE_FLUSHING);
}

static void handles_init(struct source *s)
{
	unsigned int tick_ms = s->settings.rate > 0 ? TICK_MS : IDLE_TICK_MS;
	static const int signums[] = {SIGINT, SIGTERM};

	uv_timer_init(&s->loop, &s->tick);
	uv_timer_init(&s->loop, &s->check);
	s->tick.data = s->check.data = s;
	uv_timer_start(&s->tick, on_tick, tick_ms, tick_ms);
	uv_timer_start(&s->check, on_check, CHECK_MS, CHECK_MS);
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&s->loop, &s->signals[i]);
		s->signals[i].data = s;
		uv_signal_start(&s->signals[i], on_signal, signums[i]);
	}
	uv_signal_init(&s->loop, &s->resume);
	s->resume.data = s;
	uv_signal_start(&s->resume, on_resume, SIGUSR1);
	signal(SIGPIPE, SIG_IGN);
}

static double per_second(uint64_t count, double seconds)
{
	return seconds > 0 ? (double)count / seconds : 0;
}

static void report_lag(struct summary *out, const struct source *s)
{
	if (s->settings.rate <= 0)
		return;
	summary_number(out, "lag_p50_ms", (double)hist_percentile(&s->lag, 50) / 1e6);
	summary_number(out, "lag_p99_ms", (double)hist_percentile(&s->lag, 99) / 1e6);
	summary_number(out, "lag_max_ms", (double)s->lag.largest / 1e6);
}

static void report(struct source *s)
{
	const struct server_counts *counts = server_counts(s->server);
	double seconds = s->start_ns ? (double)(s->end_ns - s->start_ns) / 1e9 : 0;
	struct summary *out = summary_new();

	summary_count(out, "events", s->events);
	summary_count(out, "duplicates", s->duplicates);
	summary_count(out, "malformed", s->malformed);
	summary_count(out, "unheard", s->unheard);
	summary_count(out, "deliveries", counts->deliveries);
	summary_count(out, "bytes", counts->bytes);
	summary_count(out, "connections", counts->connections);
	summary_count(out, "departures", counts->departures);
	summary_count(out, "drops", counts->drops);
	summary_count(out, "stalls", counts->stalls);
	summary_count(out, "overruns", counts->overruns);
	summary_count(out, "start_unix_us", (uint64_t)s->start_unix_us);
	summary_number(out, "seconds", seconds);
	summary_number(out, "events_per_s", per_second(s->events - s->warm_events, seconds));
	summary_number(out, "deliveries_per_s", per_second(counts->deliveries - s->warm_deliveries, seconds));
	report_lag(out, s);
	summary_text(out, "id_prefix", s->settings.replay ? "" : s->form.prefix);
	summary_count(out, "seed", s->settings.seed);
	summary_print(out, s->settings.json);
	summary_free(out);
}

/* One descriptor per client, and a few more. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= 16384)
		return;
	limit.rlim_cur = limit.rlim_max < 16384 ? limit.rlim_max : 16384;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int read_listen(const struct settings *set, char *address, size_t size, int *port)
{
	const char *colon = strrchr(set->listen, ':');
	char *end = NULL;
	long n = colon ? strtol(colon + 1, &end, 10) : -1;
	size_t len = colon ? (size_t)(colon - set->listen) : 0;

	if (!len || len >= size || colon[1] == '\0' || *end || n < 0 || n > 65535)
		return -1;
	memcpy(address, set->listen, len);
	address[len] = '\0';
	*port = (int)n;
	return 0;
}

/* Opens what the settings name; the exit status, or 0 to go on. */
static int read_kind(const char *form, enum message_kind *kind)
{
	static const char *const names[] = {
		[MESSAGE_EVENT] = "event",
		[MESSAGE_COMMIT] = "commit",
		[MESSAGE_TRADES] = "trades",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(form, names[i]) == 0) {
			*kind = (enum message_kind)i;
			return 0;
		}
	}
	return -1;
}

static int source_open(struct source *s)
{
	const struct settings *set = &s->settings;
	char address[64];
	struct server_settings server = {
		.address = address,
		.stall_timeout_s = set->stall_timeout_s,
		.behind_most = set->rate > 0 ? BEHIND_BYTES : 0,
	};
	struct script_form script = {
		.count = set->replay ? 0 : set->count,
		.warm_up = set->replay ? 0 : set->warm_up,
		.rate = set->rate,
		.duplicates = set->replay ? 0 : set->duplicates,
		.delay_ns = (int64_t)(set->duplicate_delay_ms * 1e6),
		.late = set->late,
		.malformed = set->replay ? 0 : set->malformed,
		.seed = set->seed,
	};

	if (read_listen(set, address, sizeof(address), &server.port))
		return options_complain("listen", "is not ADDRESS:PORT, as in 127.0.0.1:9700");
	if (!message_is_prefix(s->form.prefix))
		return options_complain("id-prefix", "not 1 to 100 letters, digits and . : -");
	if (read_kind(set->form, &s->form.kind))
		return options_complain("form", "is not event, commit or trades");
	if (set->replay && set->ledger)
		return options_complain("ledger", "cannot be used with --replay, whose ids are unknown");
	if (set->replay && !(s->replay = replay_open(set->replay)))
		return options_complain("replay", strerror(errno));
	if (set->ledger && !(s->ledger = fopen(set->ledger, "w")))
		return options_complain("ledger", strerror(errno));
	s->random.state = ~set->seed;
	s->close_code = CLOSE_NORMAL;
	s->script = script_new(&script);
	s->backlog = backlog_new();
	s->text = malloc(message_most(&s->form));
	if (!s->script || !s->backlog || !s->text || uv_loop_init(&s->loop))
		return 1;
	s->server = server_open(&s->loop, &server, s->backlog, on_server, s);
	if (!s->server)
		return 1;
	fprintf(stderr, "listening on ws://%s:%d\n", address, server_port(s->server));
	return 0;
}

static void source_free(struct source *s)
{
	server_free(s->server);
	backlog_free(s->backlog);
	script_free(s->script);
	replay_close(s->replay);
	free(s->text);
	uv_loop_close(&s->loop);
}

static void source_run(struct source *s)
{
	handles_init(s);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	progress_end();
	if (s->ledger && fclose(s->ledger))
		fail(s, "cannot write the ledger");
	report(s);
}

static const char usage[] =
	"Usage: wsonce-source [OPTION...]\n\n"
	"Sends generated events to all WebSocket clients. Nothing is sent again: a client misses what was\n"
	"sent before it connected. Ends when all is sent, or on SIGINT or SIGTERM.";

int main(int argc, char **argv)
{
	char prefix[MESSAGE_PREFIX_MOST];
	struct source s = {.settings = {
				   .listen = "127.0.0.1:9700",
				   .count = 10000,
				   .payload_bytes = 100,
				   .form = "event",
				   .wait_listeners = 1,
				   .stall_timeout_s = 10,
			   }};
	struct settings *set = &s.settings;
	const struct option_row table[] = {
		{"listen", OPTION_TEXT, &set->listen, 0, 0, "ADDR:PORT", "where listeners connect; port 0 = any"},
		{"count", OPTION_COUNT, &set->count, 0, 1e15, "N", "distinct events; 0 = no end"},
		{"warm-up", OPTION_COUNT, &set->warm_up, 0, 1e12, "N",
		 "send N more events first, then pause until SIGUSR1"},
		{"rate", OPTION_NUMBER, &set->rate, 0, 1e7, "R",
		 "events per second; 0 = as fast as the slowest client reads"},
		{"payload-bytes", OPTION_COUNT, &set->payload_bytes, 0, MESSAGE_PAYLOAD_MOST, "N",
		 "size of each payload"},
		{"duplicates", OPTION_NUMBER, &set->duplicates, 0, 100, "PCT", "share of events sent twice"},
		{"duplicate-delay", OPTION_NUMBER, &set->duplicate_delay_ms, 0, 1e9, "MS",
		 "delay of a copy; 0 = right after its event"},
		{"late-duplicates", OPTION_NUMBER, &set->late, 0, 100, "PCT",
		 "after the pause, also send copies of warm-up events, per hundred events"},
		{"malformed", OPTION_NUMBER, &set->malformed, 0, 100, "PCT",
		 "malformed messages on top, per hundred events"},
		{"drop-every", OPTION_NUMBER, &set->drop_every_s, 0, 1e6, "S",
		 "drop a connection about every S seconds; 0 = never"},
		{"wait-listeners", OPTION_COUNT, &set->wait_listeners, 0, 1e6, "N",
		 "start when N clients are connected"},
		{"replay", OPTION_TEXT, &set->replay, 0, 0, "FILE", "send the lines of FILE instead"},
		{"id-prefix", OPTION_TEXT, &set->id_prefix, 0, 0, "P", "ids are P-1, P-2, ... (default from the time)"},
		{"form", OPTION_TEXT, &set->form, 0, 0, "FORM",
		 "event, commit (as Jetstream) or trades (ten per message, as Kraken)"},
		{"seed", OPTION_COUNT, &set->seed, 0, 1e15, "N", "of all random numbers; 0 = a new one each time"},
		{"linger", OPTION_NUMBER, &set->linger_s, 0, 1e6, "S", "stay connected after all was sent"},
		{"stall-timeout", OPTION_NUMBER, &set->stall_timeout_s, 0, 1e6, "S",
		 "drop a client that reads nothing for S seconds; 0 = never"},
		{"ledger", OPTION_TEXT, &set->ledger, 0, 0, "FILE", "write the id of each event sent, one per line"},
		{"json", OPTION_FLAG, &set->json, 0, 0, NULL, "print the result as JSON"},
		{0},
	};
	enum options_result parsed = options_parse(table, usage, argc, argv);
	int status;

	if (parsed != OPTIONS_GO)
		return parsed == OPTIONS_HELP ? 0 : 2;
	message_make_prefix(prefix, sizeof(prefix));
	s.form = (struct message_form){set->id_prefix ? set->id_prefix : prefix, set->payload_bytes, MESSAGE_EVENT};
	if (!set->seed)
		set->seed = uv_hrtime() % 1000000000 + 1;
	raise_descriptors();
	status = source_open(&s);
	if (status)
		return status;
	source_run(&s);
	status = s.has_failed;
	source_free(&s);
	return status;
}
