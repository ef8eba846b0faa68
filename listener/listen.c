/* listen.c owns the life of a listener: it opens the parts, runs the loop, drains on a signal and closes the parts. */
#include "listen.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/file.h"
#include "base/memory.h"
#include "commands/table.h"
#include "commands/findings.h"
#include "ops/admin.h"
#include "intake/ingest.h"
#include "intake/post.h"
#include "base/log.h"
#include "pipeline/pipeline.h"
#include "outbox/relay.h"
#include "intake/source.h"
#include "spool/spool.h"
#include "base/counters.h"
#include "event/rejected.h"
#include "ops/hour.h"
#include "ops/overdue.h"
#include "ops/report.h"
#include "ops/service_manager.h"
#include "reload.h"
#include "net/ws.h"

#define GRACE_MS    1000  /* after SIGTERM, how long to read from producers that get no acks */
#define TWICE_MS    1000  /* ignore a second signal within this time: a terminal, make and a script may each send one */
#define GOODBYE_MS  2000  /* timeout for the last acks and close frames */
#define RELOAD_MS   1000  /* minimum time between reloads; all signals in between cause one reload */
#define LEAVING_MS  15000 /* time for the last statements after the drain timeout; we ask the service manager for it */
#define USUAL_FILES 1024
#define POSTS_FILES 256 /* files for --ingest-http */
#define OTHER_FILES 64  /* files for everything else: servers, feeds, admin pages */

struct listener {
	struct config *config;
	int64_t asked_connections; /* settings before the limit of open files lowered them */
	int64_t asked_handshakes;
	int argc; /* the command line */
	char **argv;
	uv_loop_t loop;
	struct pipeline *pipeline;
	struct relay *relay; /* NULL without webhooks */
	struct ws *ws;
	struct sources *sources;
	struct ingest *ingest;
	struct posts *posts; /* NULL without --ingest-http */
	struct admin *admin;
	struct admin_parts parts;
	uv_signal_t sigterm;
	uv_signal_t sigint;
	uv_signal_t sighup;
	uv_timer_t grace;
	uv_timer_t goodbye;
	uv_timer_t second;
	uv_timer_t reload;
	uint64_t reloaded_ms; /* loop clock, the last reload; 0 if none */
	bool has_terminal;
	struct overdue_watch unsettled;
	struct service_manager *service_manager; /* NULL if there is none */
	struct report report;
	struct hour hour;
	uint64_t found;    /* events in the spool at the start */
	uint64_t drain_ms; /* loop clock, start of the drain */
	uint64_t goodbye_until;
	int draining; /* number of parts that still drain */
	int status;
};

static void on_pressure(void *arg, enum pressure pressure)
{
	struct listener *l = arg;

	if (l->ws)
		ws_set_pressure(l->ws, pressure);
}

static void on_posted(void *arg)
{
	struct listener *l = arg;

	if (l->relay)
		relay_wake(l->relay);
}

/* A listener that has received events other than those in its spool may hold the only copy. If a setting is wrong
 * (status 2), it waits until the server can be used; if it must not continue (status 1), it stores what it has and
 * exits. */
static void on_unusable(void *arg, const char *sentence, int status)
{
	struct listener *l = arg;

	if (counters.received == l->found) {
		log_error("cannot start", "reason=%s", sentence);
		_exit(status);
	}
	if (status != 1 || l->parts.is_draining)
		return;
	log_error("cannot go on", "reason=%s", sentence);
	l->status = status;
	raise(SIGTERM);
}

static void on_part_closed(void *arg)
{
	(void)arg;
}

/* All events are settled or abandoned. Only close frames are still being sent. */
static void close_parts(struct listener *l)
{
	uv_close((uv_handle_t *)&l->sigterm, NULL);
	uv_close((uv_handle_t *)&l->sigint, NULL);
	uv_close((uv_handle_t *)&l->sighup, NULL);
	uv_close((uv_handle_t *)&l->grace, NULL);
	uv_close((uv_handle_t *)&l->goodbye, NULL);
	uv_close((uv_handle_t *)&l->second, NULL);
	uv_close((uv_handle_t *)&l->reload, NULL);
	service_manager_close(l->service_manager);
	ws_close(l->ws);
	if (l->admin)
		admin_close(l->admin);
	if (l->posts)
		posts_close(l->posts);
	if (l->relay)
		relay_close(l->relay, on_part_closed, NULL);
	l->parts.relay = NULL;
	pipeline_close(l->pipeline, on_part_closed, NULL);
}

static void mask(void *sources, char *text)
{
	sources_mask(sources, text);
}

static void on_second(uv_timer_t *timer)
{
	struct listener *l = timer->data;

	overdue_watch(&l->unsettled, pipeline_events(l->pipeline), (int64_t)uv_now(&l->loop),
		      l->config->unsettled_warning_s * 1000);
	rejected_watch((int64_t)uv_now(&l->loop));
	hour_tick(&l->hour, (int64_t)time(NULL), (int64_t)uv_now(&l->loop));
	if (report_is_due(&l->report))
		storing_hasten_checkin(pipeline_storing(l->pipeline));
}

static void on_goodbye(uv_timer_t *timer)
{
	struct listener *l = timer->data;

	bool is_done = (!l->ingest || ingest_is_closed(l->ingest)) && (!l->posts || posts_are_answered(l->posts));

	if (!is_done && uv_now(&l->loop) < l->goodbye_until)
		return;
	close_parts(l);
}

static void on_part_drained(struct listener *l)
{
	if (--l->draining)
		return;
	l->goodbye_until = uv_now(&l->loop) + GOODBYE_MS;
	uv_timer_start(&l->goodbye, on_goodbye, 0, 10);
}

static void on_relay_drained(void *arg)
{
	on_part_drained(arg);
}

static void tell_spooled(const struct listener *l)
{
	const struct spool *spool = pipeline_spool(l->pipeline);
	uint64_t events = spool ? spool_view(spool).events : 0;

	if (events)
		log_info("events left in the spool, to be fed at the next start", "events=%llu dir=%s",
			 (unsigned long long)events, l->config->spool);
}

static void on_drained(void *arg, size_t left)
{
	struct listener *l = arg;
	const struct storing *storing = pipeline_storing(l->pipeline);
	const char *trouble = left ? storing_trouble(storing) : "";
	const char *why = *trouble || !left ? trouble : admin_describe_holder(storing);

	l->status = left ? 1 : l->status;
	log_write(left ? LOG_ERROR : LOG_INFO, "drained",
		  "left=%zu received=%llu persisted=%llu duplicates=%llu dead_lettered=%llu missing=%s reason=%s", left,
		  (unsigned long long)counters.received, (unsigned long long)counters.persisted,
		  (unsigned long long)counters.duplicates, (unsigned long long)counters.dead_lettered,
		  *trouble ? (config_store_path(l->config) ? "sqlite" : "postgres") : NULL, *why ? why : NULL);
	tell_spooled(l);
	if (l->ingest)
		ingest_close(l->ingest);
	if (l->posts)
		posts_give_up(l->posts);
	on_part_drained(l);
}

static void on_grace(uv_timer_t *timer)
{
	struct listener *l = timer->data;

	ws_stop(l->ws);
}

static uint64_t grace_ms(const struct config *config)
{
	uint64_t half = (uint64_t)config->drain_timeout_ms / 2;

	return half < GRACE_MS ? half : GRACE_MS;
}

static void leave_at_once(const struct listener *l, int number)
{
	if (uv_now(&l->loop) - l->drain_ms < TWICE_MS)
		return;
	log_warn("second signal, exiting at once", "signal=%d in_flight=%zu", number,
		 pipeline_events(l->pipeline)->messages);
	_exit(1);
}

/* A drain may take longer than TimeoutStopSec of the systemd unit, so asks for more time. */
static void tell_stopping(const struct listener *l)
{
	char fields[100];

	snprintf(fields, sizeof(fields), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%lld",
		 ((long long)l->config->drain_timeout_ms + LEAVING_MS) * 1000);
	service_manager_tell(l->service_manager, fields);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct listener *l = handle->data;

	if (l->parts.is_draining) {
		leave_at_once(l, number);
		return;
	}
	uv_timer_stop(&l->reload);
	l->drain_ms = uv_now(&l->loop);
	log_info("draining", "signal=%d in_flight=%zu timeout_ms=%lld", number, pipeline_events(l->pipeline)->messages,
		 (long long)l->config->drain_timeout_ms);
	l->parts.is_draining = true;
	tell_stopping(l);
	if (l->sources)
		sources_close(l->sources);
	if (l->ingest)
		ingest_drain(l->ingest);
	if (l->posts)
		posts_drain(l->posts);
	uv_timer_start(&l->grace, on_grace, grace_ms(l->config), 0);
	l->draining = l->relay ? 2 : 1;
	if (l->relay)
		relay_drain(l->relay, on_relay_drained, l);
	pipeline_drain(l->pipeline);
}

/* --- SIGHUP --- */

/* systemd requires the time of the reload on CLOCK_MONOTONIC. */
static void tell_reloading(const struct listener *l)
{
	char fields[80];

	snprintf(fields, sizeof(fields), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
	service_manager_tell(l->service_manager, fields);
}

static void on_reload(uv_timer_t *timer)
{
	struct listener *l = timer->data;

	l->reloaded_ms = uv_now(&l->loop);
	tell_reloading(l);
	reload(&(struct reload_parts){.config = l->config,
				      .argc = l->argc,
				      .argv = l->argv,
				      .asked_connections = l->asked_connections,
				      .asked_handshakes = l->asked_handshakes,
				      .pipeline = l->pipeline,
				      .relay = l->relay,
				      .sources = l->sources,
				      .ingest = l->ingest,
				      .posts = l->posts});
	service_manager_tell(l->service_manager, "READY=1");
}

static bool has_terminal(void)
{
	int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* SIGHUP asks for a reload. If the listener was started from a terminal that has been closed, drains instead. */
static void on_sighup(uv_signal_t *handle, int number)
{
	struct listener *l = handle->data;
	uint64_t due = l->reloaded_ms ? l->reloaded_ms + RELOAD_MS : 0;

	if (l->has_terminal && !has_terminal())
		on_signal(handle, number);
	else if (l->parts.is_draining)
		log_info("already draining, not reloading", "signal=%d", number);
	else if (!uv_is_active((uv_handle_t *)&l->reload))
		uv_timer_start(&l->reload, on_reload, due > uv_now(&l->loop) ? due - uv_now(&l->loop) : 0, 0);
}

/* With too few files, gives handshakes at most a quarter of them and connected producers the rest. */
static void share_files(struct config *config, rlim_t files, rlim_t others)
{
	int64_t room = files > others + OTHER_FILES ? (int64_t)(files - others) : OTHER_FILES;
	int64_t handshakes = config->ingest_handshakes < room / 4 ? config->ingest_handshakes : room / 4;

	if (config->ingest_connections <= room - handshakes) {
		config->ingest_handshakes = room - config->ingest_connections;
		return;
	}
	config->ingest_handshakes = handshakes;
	config->ingest_connections = room - handshakes;
	log_warn("the limit of open files (ulimit -n) allows fewer producers than --ingest-max-connections",
		 "files=%llu producers=%lld", (unsigned long long)files, (long long)config->ingest_connections);
}

/* Sets the soft limit of open files, often 1024, to what the allowed producers and webhook requests need. Warns if the
 * hard limit is too low. Also lowers a huge limit, which containers may have (10^9), because libwebsockets allocates
 * tables of that size. */
static void raise_limits(struct config *config)
{
	rlim_t others = OTHER_FILES + (rlim_t)webhooks_concurrency(&config->webhooks) +
			(config->ingest_http ? POSTS_FILES : 0) +
			2 * (rlim_t)config_lines_most(config); /* and successors */
	rlim_t doors = config->ingest ? (rlim_t)(config->ingest_connections + config->ingest_handshakes) : 0;
	rlim_t needed = doors + others;
	rlim_t wanted = needed > USUAL_FILES ? needed : USUAL_FILES;
	struct rlimit files;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a write then fails, as on a full disk */
	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
	setrlimit(RLIMIT_NOFILE, &files);
	if (config->ingest && files.rlim_cur < needed)
		share_files(config, files.rlim_cur, others);
}

/* True if the signal is ignored: a process started with nohup continues to ignore SIGHUP. */
static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int watch_signal(struct listener *l, uv_signal_t *handle, int number)
{
	int failed = uv_signal_init(&l->loop, handle);

	handle->data = l;
	if (failed || (number == SIGHUP && is_ignored(number)))
		return failed;
	return uv_signal_start(handle, number == SIGHUP ? on_sighup : on_signal, number);
}

static int start_loop(struct listener *l, char *error, size_t size)
{
	int failed = uv_loop_init(&l->loop);

	if (!failed) {
		uv_timer_init(&l->loop, &l->grace);
		uv_timer_init(&l->loop, &l->goodbye);
		uv_timer_init(&l->loop, &l->second);
		uv_timer_init(&l->loop, &l->reload);
		l->grace.data = l->goodbye.data = l->second.data = l->reload.data = l;
		failed = watch_signal(l, &l->sigterm, SIGTERM);
	}
	if (!failed)
		failed = watch_signal(l, &l->sigint, SIGINT);
	if (!failed)
		failed = watch_signal(l, &l->sighup, SIGHUP);
	if (failed)
		snprintf(error, size, "the event loop cannot start: %s", uv_strerror(failed));
	return failed;
}

static void charge(void *owner, long bytes)
{
	pipeline_charge(owner, bytes);
}

static bool is_full(const void *owner)
{
	return pipeline_is_full(owner);
}

static bool is_full_for_producers(const void *owner)
{
	return pipeline_is_full_for_producers(owner);
}

/* Finds what would make libwebsockets crash or never end. */
static int check_host(char *error, size_t size)
{
	struct rlimit files = {0};

	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur < OTHER_FILES)
		snprintf(error, size, "a listener needs %d open files, and the limit (ulimit -n) is %llu", OTHER_FILES,
			 (unsigned long long)files.rlim_cur);
	else if (access("/dev/urandom", R_OK))
		snprintf(error, size, "/dev/urandom cannot be read: %s", strerror(errno));
	else
		return 0;
	return -1;
}

/* Returns 0, or -1 and a sentence in error. Does not close the parts it has opened, since the caller exits. */
static int open_parts(struct listener *l, char *error, size_t size)
{
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, l};
	const struct config *c = l->config;
	struct spool *spool = NULL;

	if (c->spool &&
	    !(spool = spool_open(&l->loop, c->spool, (uint64_t)c->spool_bytes, c->spool_sync_ms, error, size)))
		return -1;
	l->pipeline = pipeline_open(&l->loop, c, &on);
	pipeline_use_spool(l->pipeline, spool);
	l->found = counters.received;
	l->ws = ws_open(&l->loop, c, &(struct ws_budget){l->pipeline, charge, is_full, is_full_for_producers});
	if (!l->ws) {
		snprintf(error, size,
			 "libwebsockets cannot start: is its libuv plugin (libwebsockets-evlib-uv) installed?");
		return -1;
	}
	if (c->webhooks.count)
		l->relay = relay_open(&l->loop, c);
	l->parts = (struct admin_parts){
		.config = c, .pipeline = l->pipeline, .relay = l->relay, .hour = &l->hour, .report = &l->report};
	if (c->admin && !(l->admin = admin_open(&l->loop, &l->parts, error, size)))
		return -1;
	if (c->ingest && !(l->ingest = ingest_open(l->ws, c, error, size)))
		return -1;
	if ((c->sources.count || c->feed_count) &&
	    !(l->sources = sources_open(l->ws, claim_presence(pipeline_claim(l->pipeline)), c, error, size)))
		return -1;
	if (c->ingest_http &&
	    !(l->posts = posts_open(l->ws, c, l->ingest ? ingest_token_list(l->ingest) : NULL, error, size)))
		return -1;
	l->parts.ingest = l->ingest;
	l->parts.sources = l->sources;
	if (l->sources)
		rejected_set_mask(mask, l->sources);
	report_init(&l->report, &l->loop, &l->parts);
	storing_on_checkin(pipeline_storing(l->pipeline), report_take, &l->report);
	return 0;
}

/* Blocks SIGHUP, which stays pending, while there is no loop to handle it. */
void listen_block_sighup(bool is_blocked)
{
	sigset_t sighup;

	sigemptyset(&sighup);
	sigaddset(&sighup, SIGHUP);
	pthread_sigmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &sighup, NULL);
}

/* Runs a listener until SIGTERM or SIGINT. Returns the exit status: 0 if no event was left in memory, 1 if some were or
 * if it cannot start. argc and argv are the command line that config was read from; it is read again on SIGHUP. */
static int run(struct config *config, int argc, char **argv)
{
	struct listener *l = memory_calloc(1, sizeof(*l));
	char error[400];
	int status;

	l->asked_connections = config->ingest_connections;
	l->asked_handshakes = config->ingest_handshakes;
	raise_limits(config);
	config_log(config);
	l->config = config;
	l->argc = argc;
	l->argv = argv;
	l->has_terminal = has_terminal();
	if (check_host(error, sizeof(error)) || start_loop(l, error, sizeof(error)) ||
	    open_parts(l, error, sizeof(error))) {
		log_error("cannot start", "reason=%s", error);
		_exit(1);
	}
	uv_timer_start(&l->second, on_second, 1000, 1000);
	l->service_manager = service_manager_open(&l->loop);
	file_keep_plain();
	listen_block_sighup(false);
	uv_run(&l->loop, UV_RUN_DEFAULT);
	ws_free(l->ws);
	uv_loop_close(&l->loop);
	status = l->status;
	if (l->sources)
		sources_free(l->sources);
	posts_free(l->posts);
	if (l->ingest)
		ingest_free(l->ingest);
	admin_free(l->admin);
	service_manager_free(l->service_manager);
	report_free(&l->report);
	free(l);
	return status;
}

int listen_command(const struct invocation *in)
{
	const struct given *o = in->options;

	return o->is_dry ? check_all(in->config, false) : run(in->own, in->argc, in->argv);
}
