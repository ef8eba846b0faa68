/* One database, one listener, one producer. */
#include "support.h"
#include "bench.h"

struct database *db;
struct listener *listener;
struct peer *producer;

void bench_open(void)
{
	db = database_new();
}

void bench_migrate(void)
{
	bench_open();
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

long bench_rows(void)
{
	return database_long(db, "SELECT count(*) FROM events");
}
