/* Trouble of a single event: what the database, another transaction or a trigger does to it costs the other events
 * nothing, and no event is taken for stored, or for bad, that is not. */
#include "ack.h"
#include "claims.h"
#include "database.h"
#include "fleet.h"
#include "listener.h"
#include "peer.h"
#include "redisd.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 20000

static struct database *db;
static struct listener *listener;
static struct peer *producer;

static void set_up(void)
{
	db = database_new();
}

static void start(const char *redis, const char *flags)
{
	listener = listener_start(&(struct listener_options){.database = db, .redis = redis}, "%s", flags);
	producer = peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
}

static void tear_down(void)
{
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
	listener_free(listener);
	database_free(db);
}

TestSuite(trouble, .init = set_up, .fini = tear_down, .timeout = 120);

static void send_event(const char *id)
{
	peer_sendf(producer, "{\"event_id\":\"%s\",\"payload\":1}", id);
}

static long letters(void)
{
	return database_long(db, "SELECT count(*) FROM dead_letters");
}

static void set_for_role(const char *setting)
{
	database_exec(db,
		      "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET ' || $x$%s$x$, current_database()); END $$",
		      setting);
}

/* --- waiting for another transaction --- */

/* Somebody who has stored the event but not committed it; database_free lets go of it. */
static struct database *hold_row(const char *id)
{
	struct database *holder = database_open(database_conninfo(db));

	database_exec(holder, "BEGIN; INSERT INTO events (event_id, event_type, payload) VALUES ('%s', '', '0')", id);
	return holder;
}

static void wait_for_a_held_row(const char *timeout)
{
	struct database *holder;

	set_for_role(timeout);
	start("none", "--max-attempts 1");
	holder = hold_row("held");
	send_event("held");
	cr_assert(wait_until(listener_metric(listener, "wsonce_store_retries_total") > 2, WAIT_MS),
		  "it is not retried");
	cr_assert_eq(letters(), 0);
	database_exec(holder, "COMMIT");
	ack_expect(producer, "held", "duplicate");
	cr_assert_eq(letters(), 0);
	database_free(holder);
}

Test(trouble, a_lock_timeout_while_another_transaction_holds_the_id_is_no_fault_of_the_row)
{
	wait_for_a_held_row("lock_timeout = '100ms'");
}

Test(trouble, a_statement_timeout_while_another_transaction_holds_the_id_is_no_fault_of_the_row)
{
	wait_for_a_held_row("statement_timeout = '100ms'");
}
