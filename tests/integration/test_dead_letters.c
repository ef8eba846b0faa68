/* A message that cannot become an event is one row of dead_letters for a whole fleet, and the events
 * around it are stored. Three listeners on one feed, as in life.
 *
 * What a listener refuses by itself, each of the three counts: seen is 3. What only Postgres refuses is
 * claimed by one of them, and its dead@ mark settles the other two: seen is 1. */
#include "support.h"

#define FLEET      3
#define SETTLED_MS 15000

static struct database *db;
static struct feed *feed;
static struct listener *fleet[FLEET];

static void start_fleet(const char *const *env)
{
	db = database_new();
	feed = feed_new();
	for (int i = 0; i < FLEET; i++)
		fleet[i] = listener_start(&(struct listener_options){.database = db,
								     .source = feed_url(feed),
								     .without_ingest = true,
								     .without_waiting = true,
								     .env = env},
					  "--max-message 64KiB --instance-id fleet-%d", i);
	for (int i = 0; i < FLEET; i++)
		listener_wait_ready(fleet[i]);
	cr_assert(feed_wait_clients(feed, FLEET, SETTLED_MS));
}

static void set_up(void)
{
	start_fleet(NULL);
}

static void tear_down(void)
{
	for (int i = 0; i < FLEET; i++) {
		cr_assert_eq(listener_stop(fleet[i]), 0);
	}
}

/* Whether listener l has received so many messages and is done with them. */
static bool has_settled(struct listener *l, long messages)
{
	return listener_metric(l, "wsonce_received_total") == (double)messages &&
	       listener_metric(l, "wsonce_in_flight") == 0;
}

static void wait_settled(long messages)
{
	for (int i = 0; i < FLEET; i++)
		cr_assert(wait_until(has_settled(fleet[i], messages), SETTLED_MS),
			  "listener %d has received %g messages, %g are in flight", i,
			  listener_metric(fleet[i], "wsonce_received_total"),
			  listener_metric(fleet[i], "wsonce_in_flight"));
}

static char *hex_of(const void *bytes, size_t len)
{
	char *text = malloc(len * 2 + 1);

	for (size_t i = 0; i < len; i++)
		sprintf(text + i * 2, "%02x", ((const unsigned char *)bytes)[i]);
	text[len * 2] = '\0';
	return text;
}

struct letter {
	const void *bytes;
	size_t len;
	size_t raw_len;       /* bytes that are kept, from the front */
	const char *event_id; /* NULL: none could be read */
	const char *reason;   /* holds this */
	long seen;
};

static void check_letter(const struct letter *l)
{
	char *raw = hex_of(l->bytes, l->raw_len), *whole = hex_of(l->bytes, l->len);
	char *reason = database_text(db, "SELECT reason FROM dead_letters");

	cr_assert(strstr(reason, l->reason), "the reason is: %s", reason);
	cr_assert_eq(database_long(db, "SELECT seen FROM dead_letters"), l->seen, "seen is %ld, not %ld (%s)",
		     database_long(db, "SELECT seen FROM dead_letters"), l->seen, reason);
	cr_assert(database_long(db, "SELECT raw = '\\x%s'::bytea FROM dead_letters", raw), "raw is not what was sent");
	cr_assert(database_long(db, "SELECT digest = sha256('\\x%s'::bytea) FROM dead_letters", whole));
	cr_assert(database_long(db, "SELECT instance_id LIKE 'fleet-_' FROM dead_letters"));
	cr_assert(database_long(db,
				l->event_id ? "SELECT event_id = '%s' FROM dead_letters"
					    : "SELECT event_id IS NULL %s FROM dead_letters",
				l->event_id ? l->event_id : ""));
}

/* Send the bad message by opcode between two events, in one burst, and see what becomes of them. */
static void expect_letter_by(int opcode, const struct letter *l)
{
	feed_send_text(feed, "{\"event_id\":\"before\",\"payload\":1}");
	feed_send(feed, opcode, true, l->bytes, l->len);
	feed_send_text(feed, "{\"event_id\":\"after\",\"payload\":2}");
	wait_settled(3);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM events"), 2);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM events WHERE event_id IN ('before', 'after')"), 2);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters"), 1);
	check_letter(l);
	for (int i = 0; i < FLEET; i++)
		cr_assert_eq(listener_metric(fleet[i], "wsonce_dead_lettered_total"), 1);
}

/* The listeners themselves refuse it. */
static void expect_refused(const char *message, const char *reason)
{
	size_t len = strlen(message);

	expect_letter_by(FRAME_TEXT, &(struct letter){message, len, len, NULL, reason, FLEET});
}

/* Postgres refuses it, once. */
static void expect_refused_by_postgres(const char *message, const char *event_id, const char *reason)
{
	size_t len = strlen(message);

	expect_letter_by(FRAME_TEXT, &(struct letter){message, len, len, event_id, reason, 1});
}

Test(dead_letters, what_is_not_json_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("hello, this is no JSON", "not JSON");
}

Test(dead_letters, truncated_json_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"cut\",\"payload\":{\"a\":[1,2", "not JSON");
}

Test(dead_letters, an_empty_message_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("", "not JSON");
}

Test(dead_letters, two_documents_in_one_message_are_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"one\"} {\"event_id\":\"two\"}", "not JSON");
}

Test(dead_letters, an_event_without_id_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_type\":\"t\",\"payload\":{\"event_id\":\"inner\"}}", "/event_id is missing");
}

Test(dead_letters, an_event_with_an_empty_id_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"\",\"payload\":1}", "/event_id is empty");
}

Test(dead_letters, an_event_whose_id_is_null_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":null,\"payload\":1}", "/event_id");
}

Test(dead_letters, an_event_with_an_id_of_600_bytes_is_one, .init = set_up, .fini = tear_down)
{
	char message[700];

	snprintf(message, sizeof message, "{\"event_id\":\"%0600d\"}", 7);
	expect_refused(message, "more than 512 bytes");
}

Test(dead_letters, an_event_with_an_id_of_513_bytes_is_one, .init = set_up, .fini = tear_down)
{
	char message[700];

	snprintf(message, sizeof message, "{\"event_id\":\"%0513d\"}", 7);
	expect_refused(message, "more than 512 bytes");
}

Test(dead_letters, an_event_whose_id_is_an_object_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":{\"id\":\"x\"},\"payload\":1}", "/event_id is not a string or a number");
}

Test(dead_letters, an_event_whose_id_is_named_twice_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"a\",\"payload\":1,\"event_id\":\"b\"}", "/event_id is named twice");
}

Test(dead_letters, an_event_whose_payload_is_named_twice_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"payload\":1,\"event_id\":\"a\",\"payl\\u006fad\":2}", "/payload is named twice");
}

Test(dead_letters, an_event_with_half_a_surrogate_pair_in_its_id_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"x\\ud83d\"}", "half of a surrogate pair");
}

Test(dead_letters, an_event_with_u0000_in_its_id_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"x\\u0000y\"}", "\\u0000");
}

Test(dead_letters, an_event_with_u0000_in_its_payload_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused_by_postgres("{\"event_id\":\"nul\",\"payload\":{\"a\":\"x\\u0000y\"}}", "nul", "\\u0000");
}

Test(dead_letters, an_event_with_half_a_surrogate_pair_in_its_payload_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused_by_postgres("{\"event_id\":\"half\",\"payload\":[\"\\ud83d\"]}", "half", "surrogate");
}

Test(dead_letters, an_event_with_a_number_beyond_the_range_of_postgres_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused_by_postgres("{\"event_id\":\"huge\",\"payload\":{\"n\":1e200000}}", "huge", "numeric");
}

Test(dead_letters, an_event_nested_20000_deep_is_one, .init = set_up, .fini = tear_down)
{
	static const char head[] = "{\"event_id\":\"deep\",\"payload\":";
	char *message = malloc(sizeof head + 40001), *at = stpcpy(message, head);

	memset(at, '[', 20000);
	memset(at + 20000, ']', 20000);
	strcpy(at + 40000, "}");
	expect_refused(message, "nested too deeply");
}

Test(dead_letters, invalid_utf8_in_a_text_message_is_one, .init = set_up, .fini = tear_down)
{
	expect_refused("{\"event_id\":\"bad-text\",\"payload\":\"\xff\xfe\"}", "UTF");
}

Test(dead_letters, invalid_utf8_in_a_binary_message_is_one, .init = set_up, .fini = tear_down)
{
	static const char message[] = "{\"event_id\":\"bad-binary\",\"payload\":\"\xc3(\"}";
	size_t len = sizeof message - 1;

	expect_letter_by(FRAME_BINARY, &(struct letter){message, len, len, NULL, "UTF", FLEET});
}

Test(dead_letters, an_over_long_message_is_one_with_its_head, .init = set_up, .fini = tear_down)
{
	size_t len = (64 << 10) + 1;
	char *message = malloc(len);

	memset(message, 'x', len);
	memcpy(message, "{\"event_id\":\"long\",\"payload\":\"", 30);
	memcpy(message + len - 2, "\"}", 2);
	expect_letter_by(FRAME_TEXT, &(struct letter){message, len, 4096, NULL, "has 65537 bytes", FLEET});
}

Test(dead_letters, a_bad_message_that_comes_again_is_counted_not_doubled, .init = set_up, .fini = tear_down)
{
	for (int i = 0; i < 4; i++)
		feed_send_text(feed, "the same garbage");
	wait_settled(4);
	feed_send_text(feed, "the same garbage");
	feed_send_text(feed, "other garbage");
	wait_settled(6);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters"), 2);
	cr_assert_eq(database_long(db, "SELECT max(seen) FROM dead_letters"), 5 * FLEET);
	cr_assert_eq(database_long(db, "SELECT min(seen) FROM dead_letters"), FLEET);
	cr_assert(database_long(db, "SELECT bool_and(last_seen >= first_seen) FROM dead_letters"));
}

Test(dead_letters, many_in_one_burst_take_no_event_with_them, .init = set_up, .fini = tear_down)
{
	int n = 0;

	for (int i = 0; i < 300; i++, n += 2) {
		feed_sendf(feed, "{\"event_id\":\"good-%d\",\"payload\":%d}", i, i);
		switch (i % 3) {
		case 0:
			feed_sendf(feed, "{\"event_id\":\"nul-%d\",\"payload\":\"\\u0000\"}", i);
			break;
		case 1:
			feed_sendf(feed, "{\"event_id\":\"huge-%d\",\"payload\":1e200000}", i);
			break;
		case 2:
			feed_sendf(feed, "{\"no id\":%d}", i);
			break;
		}
	}
	wait_settled(n);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM events WHERE event_id LIKE 'good-%%'"), 300);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM events"), 300);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters WHERE event_id IS NULL AND seen = 3"), 100);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters WHERE event_id IS NOT NULL"), 200);
}

static void set_up_lone(void)
{
	db = database_new();
	feed = feed_new();
	for (int i = 0; i < FLEET; i++)
		fleet[i] = listener_start(
			&(struct listener_options){.database = db, .redis = "none", .source = feed_url(feed)}, NULL);
	cr_assert(feed_wait_clients(feed, FLEET, SETTLED_MS));
}

/* Without Redis nobody knows of the others: each tries, and all find the same row. */
Test(dead_letters, without_redis_each_listener_counts, .init = set_up_lone, .fini = tear_down)
{
	feed_send_text(feed, "{\"event_id\":\"nul\",\"payload\":\"\\u0000\"}");
	wait_settled(1);
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters"), 1);
	cr_assert_eq(database_long(db, "SELECT seen FROM dead_letters"), FLEET);
}

Test(dead_letters, a_producer_is_told_the_reason, .init = set_up_lone, .fini = tear_down)
{
	struct peer *p = peer_open_events(listener_ingest_port(fleet[0]), "wsonce.ack.v1");

	peer_send_text(p, "{\"event_id\":\"nul\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(p, "nul", "\\u0000");
	peer_send_text(p, "{\"event_id\":\"nul\",\"payload\":\"\\u0000\"}");
	ack_expect_rejected(p, "nul", "\\u0000");
	peer_send_text(p, "[1,2,3]");
	ack_expect_rejected(p, NULL, "/event_id is missing");
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters"), 2);
	peer_free(p);
}

/* ---- a feed of CloudEvents: tests/data/feeds/ ---- */

static int replay(const char *path)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int n = 0;

	cr_assert(in, "cannot read %s", path);
	while ((len = getline(&line, &room, in)) > 0) {
		line[len - 1] = '\0'; /* the newline */
		feed_send_text(feed, line);
		n++;
	}
	fclose(in);
	return n;
}

static void check_rows(const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *id = json_string_value(json_array_get(row, 0));
		cr_assert_eq(
			database_long(db,
				      "SELECT count(*) FROM events WHERE event_id = $w$%s$w$ AND event_type = '%s' "
				      "AND payload::text = $w$%s$w$",
				      id, json_string_value(json_array_get(row, 1)),
				      json_string_value(json_array_get(row, 2))),
			1, "the row of %s is missing or another", id);
	}
	cr_assert_eq(database_long(db, "SELECT count(*) FROM events"), (long)json_array_size(rows));
}

static void check_letters(const json_t *letters)
{
	const json_t *letter;
	size_t i;

	json_array_foreach(letters, i, letter)
	{
		const char *id = json_string_value(json_array_get(letter, 0));
		cr_assert_eq(database_long(db,
					   "SELECT count(*) FROM dead_letters WHERE coalesce(event_id, '') = '%s' "
					   "AND strpos(reason, '%s') > 0",
					   id ? id : "", json_string_value(json_array_get(letter, 1))),
			     1);
	}
	cr_assert_eq(database_long(db, "SELECT count(*) FROM dead_letters"), (long)json_array_size(letters));
}

static void set_up_cloudevents(void)
{
	static const char *const env[] = {"WSONCE_ID_POINTER=/source,/id", "WSONCE_TYPE_POINTER=/type",
					  "WSONCE_PAYLOAD_POINTER=/data", NULL};

	start_fleet(env);
}

Test(dead_letters, a_feed_of_cloudevents_becomes_the_rows_and_letters_it_should, .init = set_up_cloudevents,
     .fini = tear_down)
{
	json_error_t error;
	json_t *expected = json_load_file("tests/data/feeds/cloudevents.rows.json", 0, &error);

	cr_assert(expected, "%s", error.text);
	int n = replay("tests/data/feeds/cloudevents.ndjson");
	cr_assert_eq(n, 20);
	wait_settled(n);
	check_rows(json_object_get(expected, "rows"));
	check_letters(json_object_get(expected, "dead_letters"));
}
