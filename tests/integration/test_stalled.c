/* A listener that receives everything but can store nothing, for example because its network to Postgres is cut: it
 * logs that, and the others store its events. */
#include "support.h"

#define WHOLE_MS 30000
#define SOON_MS  10000 /* far less than the TTL, 30 s, after which claims would be taken over anyhow */
#define DOOR     "777" /* what the broken listener's rows wait for */

struct bench {
	struct fleet fleet;
	struct listener *broken;
	struct database *rows;
	struct database *door; /* a session that keeps it shut */
};

/* The broken listener is the leader. */
static void start(struct bench *b, int size)
{
	*b = (struct bench){.rows = database_new()};
	fleet_start(&b->fleet, size, b->rows, NULL, "");
	int leader = fleet_leader(&b->fleet, WHOLE_MS);
	b->broken = b->fleet.listeners[leader];
	database_exec(b->rows,
		      "create function wait() returns trigger language plpgsql as $$ begin "
		      "if current_setting('application_name') = 'listener-%d' then "
		      "perform pg_advisory_xact_lock_shared(" DOOR "); end if; return new; end $$",
		      leader);
	database_exec(b->rows,
		      "create trigger wait before insert on events for each statement execute function wait()");
	b->door = database_open(database_conninfo(b->rows));
}

static bool is_stalled(struct bench *b)
{
	return listener_status(b->broken, "/readyz") == 503 && listener_metric(b->broken, "wsonce_postgres_up") == 0;
}

/* Blocks the broken listener's rows, and sends events until it has noticed. */
static void shut(struct bench *b)
{
	database_exec(b->door, "select pg_advisory_lock(" DOOR ")");
	for (int i = 0; i < 100 && !is_stalled(b); i++) {
		fleet_send(&b->fleet, 10);
		wait_until(is_stalled(b), 300);
	}
	cr_assert(is_stalled(b));
}

/* What the broken listener had sent when the door was shut, and only that, waits for it. */
static void must_store_the_rest(struct bench *b)
{
	long stuck = (long)listener_metric(b->broken, "wsonce_events{state=\"storing\"}");

	await(fleet_rows(&b->fleet) >= b->fleet.sent - stuck, SOON_MS, "%ld of %ld, %ld stuck", fleet_rows(&b->fleet),
	      b->fleet.sent, stuck);
}

Test(stalled, a_listener_that_cannot_store_leaves_its_events_to_others, .timeout = 60)
{
	struct bench b;

	start(&b, 3);
	fleet_must_be_whole(&b.fleet, WHOLE_MS);
	shut(&b);
	must_store_the_rest(&b);
	double won = listener_metric(b.broken, "wsonce_claims_won_total");
	fleet_send(&b.fleet, 500);
	must_store_the_rest(&b);
	cr_assert_eq(listener_metric(b.broken, "wsonce_claims_won_total"), won);
	database_exec(b.door, "select pg_advisory_unlock(" DOOR ")");
	listener_wait_ready(b.broken);
	fleet_must_be_whole(&b.fleet, WHOLE_MS);
}

/* Without another listener, nothing is lost: events are stored once rows can be stored again. */
Test(stalled, a_listener_alone_keeps_its_events, .timeout = 60)
{
	struct bench b;

	start(&b, 1);
	shut(&b);
	fleet_send(&b.fleet, 500);
	await(claims_open(redisd_shared()) <= (long)listener_metric(b.broken, "wsonce_events{state=\"storing\"}"),
	      SOON_MS);
	database_exec(b.door, "select pg_advisory_unlock(" DOOR ")");
	listener_wait_ready(b.broken);
	fleet_must_be_whole(&b.fleet, WHOLE_MS);
}
