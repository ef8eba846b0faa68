/* Messages that share an id and differ in their bytes: the outcome of one says nothing about the other. The first that
 * Postgres accepts becomes the row, and each sender gets the outcome of its own message. */
#include "support.h"

#define ACK_MS 15000
#define ACKS   "wsonce.ack.v1"

#define GOOD "{\"event_id\":\"order-1\",\"payload\":{\"n\":1}}"
#define ZERO "{\"event_id\":\"order-1\",\"payload\":{\"n\":\"\\u0000\"}}" /* jsonb never takes it */
#define BAD  "{\"event_id\":\"order-1\",\"payload\":{\"n\":-1}}"          /* what the trigger refuses */

static struct bench {
	struct database *rows;
	struct redisd *redis;
	struct listener *listeners[2];
	struct peer *producers[2]; /* of each listener */
} bench;

static void start(const char *flags)
{
	bench = (struct bench){.rows = database_new(), .redis = redisd_shared()};
	for (int i = 0; i < 2; i++) {
		bench.listeners[i] = listener_start(&(struct listener_options){.database = bench.rows}, "%s", flags);
		bench.producers[i] = peer_open_events(listener_ingest_port(bench.listeners[i]), ACKS);
	}
}

static void end(void)
{
	for (int i = 0; i < 2; i++) {
		peer_free(bench.producers[i]);
		listener_free(bench.listeners[i]);
	}
}

/* Rows with a negative n are refused, and each try counts in the sequence tries. */
static void refuse_negative(struct database *db)
{
	database_exec(db, "create sequence tries");
	database_exec(db, "create function refuse() returns trigger language plpgsql as $$ begin "
			  "if (new.payload->>'n')::int < 0 then perform nextval('tries'); raise exception 'negative'; "
			  "end if; return new; end $$");
	database_exec(db, "create trigger refuse before insert on events for each row execute function refuse()");
}

static void expect_ack(struct peer *p, const char *status)
{
	char *ack = peer_recv(p, ACK_MS);

	cr_assert(ack && strstr(ack, status), "the ack is %s, not %s", ack ? ack : "missing", status);
}

static void expect_row(void)
{
	cr_assert_eq(database_long(bench.rows, "select count(*) from events where event_id = 'order-1' and "
					       "payload = '{\"n\": 1}'"),
		     1);
}

static long letters(const char *message)
{
	return database_long(bench.rows, "select count(*) from dead_letters where raw = convert_to($m$%s$m$, 'UTF8')",
			     message);
}

Test(variants, a_dead_letter_does_not_speak_of_another_message_with_its_id, .timeout = 60)
{
	start("");
	cr_assert(peer_send_text(bench.producers[0], ZERO));
	expect_ack(bench.producers[0], "rejected");
	await(claims_begins(bench.redis, "order-1", "dead@"), ACK_MS);
	run_expect(bench.rows, 0, "\"reason\":\"the payload contains", "dead-letters show 1 --json");
	cr_assert(peer_send_text(bench.producers[1], GOOD));
	expect_ack(bench.producers[1], "persisted");
	expect_row();
	run_expect(bench.rows, 0, "a message with this event_id is stored; this one was refused: the payload contains",
		   "dead-letters show 1 --json");
	cr_assert_eq(letters(ZERO), 1);
	cr_assert_eq(letters(GOOD), 0);
	await(claims_begins(bench.redis, "order-1", "done@"), ACK_MS);
	end();
}

Test(variants, a_dead_letter_speaks_of_the_same_message_elsewhere, .timeout = 60)
{
	start("--max-attempts 1");
	refuse_negative(bench.rows);
	cr_assert(peer_send_text(bench.producers[0], BAD));
	expect_ack(bench.producers[0], "rejected");
	await(claims_begins(bench.redis, "order-1", "dead@"), ACK_MS);
	cr_assert(peer_send_text(bench.producers[1], BAD));
	expect_ack(bench.producers[1], "rejected");
	cr_assert_eq(database_long(bench.rows, "select last_value from tries"), 1);
	end();
}

/* Another listener holds the second one while the first is tried. */
Test(variants, a_held_message_is_tried_when_the_other_becomes_a_dead_letter, .timeout = 60)
{
	start("--max-attempts 2");
	refuse_negative(bench.rows);
	struct database *lock = fleet_lock(bench.rows);
	cr_assert(peer_send_text(bench.producers[0], BAD));
	await(claims_has(bench.redis, "order-1"), ACK_MS);
	cr_assert(peer_send_text(bench.producers[1], GOOD));
	await(listener_metric(bench.listeners[1], "wsonce_holds_total") == 1, ACK_MS);
	fleet_unlock(lock);
	expect_ack(bench.producers[1], "persisted");
	expect_ack(bench.producers[0], "duplicate");
	expect_row();
	end();
}
