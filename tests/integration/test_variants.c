/* Messages that share an id and differ in their bytes: the outcome of one says nothing about the other. The first that
 * Postgres accepts becomes the row, and each sender gets the outcome of its own message. */
#include "support.h"

#define ACK_MS 15000
#define ACKS   "wsonce.ack.v1"

#define GOOD "{\"event_id\":\"order-1\",\"payload\":{\"n\":1}}"
#define ZERO "{\"event_id\":\"order-1\",\"payload\":{\"n\":\"\\u0000\"}}" /* jsonb never takes it */
#define BAD  "{\"event_id\":\"order-1\",\"payload\":{\"n\":-1}}"          /* what the trigger refuses */
#define BAD2 "{\"event_id\":\"order-1\",\"payload\":{\"n\":-2}}"

struct bench {
	struct database *rows;
	struct redisd *redis;
	struct listener *listeners[2];
	struct peer *producers[2]; /* of each listener */
};

static void start(struct bench *b, const char *flags)
{
	*b = (struct bench){.rows = database_new(), .redis = redisd_shared()};
	for (int i = 0; i < 2; i++) {
		b->listeners[i] = listener_start(&(struct listener_options){.database = b->rows}, "%s", flags);
		b->producers[i] = peer_open_events(listener_ingest_port(b->listeners[i]), ACKS);
	}
}

static void end(struct bench *b)
{
	for (int i = 0; i < 2; i++) {
		peer_free(b->producers[i]);
		listener_free(b->listeners[i]);
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

static void expect_row(struct bench *b)
{
	cr_assert_eq(database_long(b->rows, "select count(*) from events where event_id = 'order-1' and "
					    "payload = '{\"n\": 1}'"),
		     1);
}

static long letters(struct bench *b, const char *message)
{
	return database_long(b->rows, "select count(*) from dead_letters where raw = convert_to($m$%s$m$, 'UTF8')",
			     message);
}

Test(variants, a_dead_letter_does_not_speak_of_another_message_with_its_id, .timeout = 60)
{
	struct bench b;

	start(&b, "");
	cr_assert(peer_send_text(b.producers[0], ZERO));
	expect_ack(b.producers[0], "rejected");
	cr_assert(wait_until(claims_begins(b.redis, "order-1", "dead@"), ACK_MS));
	run_expect(b.rows, 0, "\"reason\":\"the payload holds", "dead-letters show 1 --json");
	cr_assert(peer_send_text(b.producers[1], GOOD));
	expect_ack(b.producers[1], "persisted");
	expect_row(&b);
	run_expect(b.rows, 0, "a message with this event_id is stored; this one was refused: the payload holds",
		   "dead-letters show 1 --json");
	cr_assert_eq(letters(&b, ZERO), 1);
	cr_assert_eq(letters(&b, GOOD), 0);
	cr_assert(wait_until(claims_begins(b.redis, "order-1", "done@"), ACK_MS));
	end(&b);
}

Test(variants, a_dead_letter_speaks_of_the_same_message_elsewhere, .timeout = 60)
{
	struct bench b;

	start(&b, "--max-attempts 1");
	refuse_negative(b.rows);
	cr_assert(peer_send_text(b.producers[0], BAD));
	expect_ack(b.producers[0], "rejected");
	cr_assert(wait_until(claims_begins(b.redis, "order-1", "dead@"), ACK_MS));
	cr_assert(peer_send_text(b.producers[1], BAD));
	expect_ack(b.producers[1], "rejected");
	cr_assert_eq(database_long(b.rows, "select last_value from tries"), 1);
	end(&b);
}

Test(variants, a_corrected_message_is_stored_while_the_refused_one_backs_off, .timeout = 60)
{
	struct bench b;

	start(&b, "");
	refuse_negative(b.rows);
	cr_assert(peer_send_text(b.producers[0], BAD));
	cr_assert(wait_until(listener_metric(b.listeners[0], "wsonce_rows_refused_total") > 0, ACK_MS));
	cr_assert(peer_send_text(b.producers[0], GOOD));
	expect_ack(b.producers[0], "persisted"); /* the second */
	expect_ack(b.producers[0], "duplicate");
	expect_row(&b);
	end(&b);
}

/* A lock is never the fault of a message, so it never becomes a dead letter. */
Test(variants, a_corrected_message_is_stored_though_the_other_waits_for_a_lock_for_ever, .timeout = 60)
{
	struct bench b;

	start(&b, "");
	database_exec(b.rows,
		      "create function lock() returns trigger language plpgsql as $$ begin "
		      "if (new.payload->>'n')::int < 0 then raise lock_not_available; end if; return new; end $$");
	database_exec(b.rows, "create trigger lock before insert on events for each row execute function lock()");
	cr_assert(peer_send_text(b.producers[0], BAD));
	cr_assert(wait_until(listener_metric(b.listeners[0], "wsonce_rows_put_off_total") > 0, ACK_MS));
	cr_assert(peer_send_text(b.producers[0], GOOD));
	expect_ack(b.producers[0], "persisted"); /* the second */
	expect_ack(b.producers[0], "duplicate");
	expect_row(&b);
	end(&b);
}

/* Another listener holds the second one while the first is tried. */
Test(variants, a_held_message_is_tried_when_the_other_becomes_a_dead_letter, .timeout = 60)
{
	struct bench b;

	start(&b, "--max-attempts 2");
	refuse_negative(b.rows);
	struct database *lock = fleet_lock(b.rows);
	cr_assert(peer_send_text(b.producers[0], BAD));
	cr_assert(wait_until(claims_has(b.redis, "order-1"), ACK_MS));
	cr_assert(peer_send_text(b.producers[1], GOOD));
	cr_assert(wait_until(listener_metric(b.listeners[1], "wsonce_holds_total") == 1, ACK_MS));
	fleet_unlock(lock);
	expect_ack(b.producers[1], "persisted");
	expect_ack(b.producers[0], "duplicate");
	expect_row(&b);
	end(&b);
}

Test(variants, each_message_has_its_own_attempts, .timeout = 60)
{
	struct bench b;

	start(&b, "--max-attempts 2");
	refuse_negative(b.rows);
	struct database *lock = fleet_lock(b.rows);
	cr_assert(peer_send_text(b.producers[0], BAD));
	cr_assert(peer_send_text(b.producers[0], BAD2));
	cr_assert(wait_until(listener_metric(b.listeners[0], "wsonce_variants_total") == 1, ACK_MS));
	fleet_unlock(lock);
	expect_ack(b.producers[0], "rejected");
	expect_ack(b.producers[0], "rejected");
	cr_assert_eq(database_long(b.rows, "select last_value from tries"), 4);
	cr_assert_eq(letters(&b, BAD), 1);
	cr_assert_eq(letters(&b, BAD2), 1);
	end(&b);
}
