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
