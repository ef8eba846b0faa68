/* Several listeners on one feed: started, fed, counted. */
#include "fleet.h"
#include "support.h"

#define CLIENTS_MS 15000

void fleet_launch_one(struct fleet *f, int i)
{
	char name[40];
	const char *env[] = {name, NULL};
	struct listener_options options = f->options;

	snprintf(name, sizeof name, "PGAPPNAME=listener-%d", i);
	options.database = f->rows;
	options.source = f->source;
	if (options.spool)
		options.spool = suite_text("%s-%d", options.spool, i);
	if (!options.env)
		options.env = env;
	options.without_waiting = true;
	listener_free(f->listeners[i]);
	f->listeners[i] = listener_start(&options, "--instance-id listener-%d %s", i, f->flags);
}

void fleet_launch(struct fleet *f, int size, struct database *rows, const struct listener_options *options,
		  const char *flags)
{
	cr_assert_leq(size, FLEET_MAX);
	*f = (struct fleet){.feed = feed_new(), .rows = rows ? rows : database_new(), .size = size};
	if (options)
		f->options = *options;
	snprintf(f->flags, sizeof f->flags, "%s", flags ? flags : "");
	snprintf(f->source, sizeof f->source, "%s", feed_url(f->feed));
	for (int i = 0; i < size; i++)
		fleet_launch_one(f, i);
}

void fleet_wait_ready(struct fleet *f)
{
	for (int i = 0; i < f->size; i++)
		listener_wait_ready(f->listeners[i]);
	cr_assert(feed_wait_clients(f->feed, f->size, CLIENTS_MS), "not all listeners dial the feed");
}

void fleet_start(struct fleet *f, int size, struct database *rows, const struct listener_options *options,
		 const char *flags)
{
	fleet_launch(f, size, rows, options, flags);
	fleet_wait_ready(f);
}

void fleet_send(struct fleet *f, long count)
{
	char *filling = malloc((size_t)f->payload + 1);

	memset(filling, 'x', (size_t)f->payload);
	filling[f->payload] = '\0';
	for (long last = f->sent + count; f->sent < last;) {
		f->sent++;
		feed_sendf(f->feed,
			   "{\"event_id\":\"e-%ld\",\"event_type\":\"t\",\"payload\":{\"n\":%ld,\"x\":\"%s\"}}",
			   f->sent, f->sent, filling);
	}
	free(filling);
}

char *fleet_file(const char *name, long count)
{
	char *path = suite_path("%s", name);
	FILE *out = fopen(path, "we");

	for (long i = 1; i <= count; i++)
		fprintf(out, "{\"event_id\":\"e-%ld\",\"event_type\":\"t\",\"payload\":{\"n\":%ld}}\n", i, i);
	cr_assert_eq(fclose(out), 0);
	return path;
}

long fleet_rows(struct fleet *f)
{
	return database_long(f->rows, "select count(*) from events");
}

static void complain_of_missing_rows(struct fleet *f, long n, int deadline_ms)
{
	double in_flight = 0;
	char *missing = database_text(f->rows,
				      "select string_agg(i::text, ' ') from (select i from generate_series(1, %ld) i "
				      "where not exists (select from events where event_id = 'e-' || i) limit 10) m",
				      f->sent);

	for (int i = 0; i < f->size; i++)
		if (process_is_alive(listener_process(f->listeners[i])))
			in_flight += listener_metric(f->listeners[i], "wsonce_in_flight");
	cr_assert_fail("%ld rows after %d ms, not %ld; %.0f messages in flight; missing: %s ...; one listener says: %s",
		       fleet_rows(f), deadline_ms, n, in_flight, missing,
		       process_last_words(listener_process(f->listeners[0])));
}

void fleet_wait_rows(struct fleet *f, long n, int deadline_ms)
{
	if (!wait_until(fleet_rows(f) >= n, deadline_ms))
		complain_of_missing_rows(f, n, deadline_ms);
}

double fleet_metric(struct fleet *f, const char *name)
{
	double sum = 0;

	for (int i = 0; i < f->size; i++)
		sum += listener_metric(f->listeners[i], name);
	return sum;
}

/* The value of a metric in the text of /metrics. */
static double value_of(const char *page, const char *name)
{
	char line[80];

	snprintf(line, sizeof line, "\n%s ", name);
	const char *at = strstr(page, line);
	cr_assert_not_null(at, "no metric %s", name);
	return strtod(at + strlen(line), NULL);
}

bool fleet_is_balanced(struct listener *l)
{
	int status;
	char *page = listener_http(l, "/metrics", &status);

	cr_assert_eq(status, 200, "/metrics answers %d: %s", status, process_last_words(listener_process(l)));
	double settled = value_of(page, "wsonce_persisted_total") + value_of(page, "wsonce_duplicates_total") +
			 value_of(page, "wsonce_dead_lettered_total") + value_of(page, "wsonce_in_flight");
	bool is_balanced = value_of(page, "wsonce_received_total") == settled;
	free(page);
	return is_balanced;
}

static void must_be_settled(struct listener *l, int deadline_ms)
{
	cr_assert(process_is_alive(listener_process(l)), "a listener has ended: %s",
		  process_last_words(listener_process(l)));
	if (!wait_until(listener_metric(l, "wsonce_in_flight") == 0, deadline_ms))
		cr_assert_fail("%.0f messages stay in flight: %s", listener_metric(l, "wsonce_in_flight"),
			       process_last_words(listener_process(l)));
	cr_assert(fleet_is_balanced(l), "received is not persisted + duplicates + dead-lettered + in flight");
}

void fleet_must_be_whole(struct fleet *f, int deadline_ms)
{
	fleet_wait_rows(f, f->sent, deadline_ms);
	for (int i = 0; i < f->size; i++)
		must_be_settled(f->listeners[i], deadline_ms);
	cr_assert_eq(fleet_rows(f), f->sent, "%ld rows of %ld events", fleet_rows(f), f->sent);
	cr_assert_eq(database_long(f->rows,
				   "select count(*) from generate_series(1, %ld) n join events on event_id = 'e-' || n "
				   "and payload->'n' = to_jsonb(n)",
				   f->sent),
		     f->sent, "some events are lost, others are not what was sent");
	cr_assert_eq(database_long(f->rows, "select count(*) from dead_letters"), 0, "there are dead letters");
}

static bool is_next_claimed(struct fleet *f, struct redisd *redis, int deadline_ms)
{
	char id[40];
	double won = fleet_metric(f, "wsonce_claims_won_total");
	double gone = fleet_metric(f, "wsonce_claims_taken_over_total");
	double skipped = fleet_metric(f, "wsonce_claims_skipped_total");

	fleet_send(f, 1);
	fleet_must_be_whole(f, deadline_ms);
	snprintf(id, sizeof id, "e-%ld", f->sent);
	if (fleet_metric(f, "wsonce_claims_skipped_total") > skipped || !claims_begins(redis, id, "done@"))
		return false;
	won = fleet_metric(f, "wsonce_claims_won_total") - won;
	gone = fleet_metric(f, "wsonce_claims_taken_over_total") - gone;
	return won >= 1 && won <= 1 + gone;
}

void fleet_must_claim(struct fleet *f, struct redisd *redis, int deadline_ms)
{
	await(fleet_metric(f, "wsonce_redis_up") == f->size, deadline_ms, "not everybody has Redis");
	await(is_next_claimed(f, redis, deadline_ms), deadline_ms, "new events are not claimed");
}

/* How many listeners have left an event to another. *leader becomes the last one that has not. */
static int followers(struct fleet *f, int *leader)
{
	int n = 0;

	for (int i = 0; i < f->size; i++)
		if (listener_metric(f->listeners[i], "wsonce_deferred_total") > 0)
			n++;
		else
			*leader = i;
	return n;
}

int fleet_leader(struct fleet *f, int deadline_ms)
{
	int leader = 0;

	await((fleet_send(f, 1), followers(f, &leader) == f->size - 1), deadline_ms, "%d of %d listeners follow",
	      followers(f, &leader), f->size);
	return leader;
}

void fleet_end(struct fleet *f)
{
	for (int i = 0; i < f->size; i++)
		listener_free(f->listeners[i]);
	feed_free(f->feed);
}

struct database *fleet_lock(struct database *rows)
{
	struct database *lock = database_open(database_conninfo(rows));

	database_exec(lock, "begin");
	database_exec(lock, "lock table events in exclusive mode");
	return lock;
}

void fleet_unlock(struct database *lock)
{
	database_exec(lock, "commit");
	database_free(lock);
}
