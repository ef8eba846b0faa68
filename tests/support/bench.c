/* One database, one listener, one producer. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS 20000

struct database *db;
struct listener *listener;
struct peer *producer;

void bench_open(void)
{
	db = database_new();
}

void bench_start(const char *flags, ...)
{
	va_list args;

	va_start(args, flags);
	char *text = suite_vtext(flags, args);
	va_end(args);
	if (!db)
		bench_open();
	listener = listener_start(&(struct listener_options){.database = db}, "%s", text);
}

void bench_serve(struct listener_options options, const char *flags, ...)
{
	va_list args;

	va_start(args, flags);
	char *text = flags ? suite_vtext(flags, args) : NULL;
	va_end(args);
	if (!options.postgres && !db)
		bench_open();
	options.database = options.postgres ? NULL : db;
	listener = listener_start(&options, "%s", text ? text : "");
	producer = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
}

void bench_dial(const char *source, const char *const *env, const char *flags, ...)
{
	va_list args;

	va_start(args, flags);
	char *text = suite_vtext(flags, args);
	va_end(args);
	bench_open();
	listener = listener_start(&(struct listener_options){.database = db,
							     .redis = "none",
							     .source = source,
							     .env = env,
							     .without_ingest = true,
							     .without_waiting = true},
				  "%s", text);
	await(listener_status(listener, "/healthz") == 200, SETTLED_MS, "no page: %s",
	      process_last_words(listener_process(listener)));
	await(database_long(db, "SELECT to_regclass('events') IS NOT NULL"), SETTLED_MS, "it makes no tables: %s",
	      process_last_words(listener_process(listener)));
}

void bench_expect_heard(struct feed *feed, const char *member, const char *id)
{
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS), "not connected for %s: %s", id,
		  process_last_words(listener_process(listener)));
	feed_sendf(feed, "{\"%s\":\"%s\"}", member, id);
	cr_assert(
		wait_until(database_long(db, "SELECT count(*) FROM events WHERE event_id = '%s'", id) == 1, SETTLED_MS),
		"%s is not stored: %s", id, process_last_words(listener_process(listener)));
}

void bench_expect_status(const char *text)
{
	await(listener_page_has(listener, "/api/status", text), SETTLED_MS, "not %s: %s", text,
	      listener_http(listener, "/api/status", NULL));
}

double bench_metric(const char *name)
{
	return listener_metric(listener, name);
}

void bench_close(void)
{
	peer_free(producer);
	if (listener)
		cr_assert_eq(listener_stop(listener), 0, "%s", process_last_words(listener_process(listener)));
}

long bench_count(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *what = suite_vtext(fmt, args);
	va_end(args);
	return database_long(db, "SELECT count(*) FROM %s", what);
}

long bench_rows(void)
{
	return bench_count("events");
}
