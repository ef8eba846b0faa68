/* A message that cannot become an event is one row of dead_letters for a whole fleet, and the events
 * around it are stored. Three listeners on one feed.
 *
 * What a listener refuses by itself, each of the three counts: seen is 3. What only Postgres refuses is
 * claimed by one of them, and its dead@ mark settles the other two: seen is 1. */
#include "support.h"
#include "bench.h"

#define FLEET      3
#define SETTLED_MS 15000

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

static void wait_settled(long messages)
{
	for (int i = 0; i < FLEET; i++)
		await(listener_metric(fleet[i], "wsonce_received_total") == (double)messages &&
			      listener_metric(fleet[i], "wsonce_in_flight") == 0,
		      SETTLED_MS, "listener %d has received %g messages, %g are in flight", i,
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

/* A message that becomes a dead letter. */
struct bad {
	const char *message;
	const char *reason;   /* holds this */
	const char *event_id; /* id of a message that only Postgres refuses, once; NULL: each listener refuses it */
	size_t kept;          /* bytes kept of its beginning; 0: all */
	bool is_binary;
};

/* Returns an object that begins with head, padded to this many bytes. */
static char *fill(const char *head, size_t len, const char *tail)
{
	char *message = malloc(len + 1);

	memset(message, 'x', len);
	memcpy(message, head, strlen(head));
	strcpy(message + len - strlen(tail), tail);
	return message;
}

static char *nest(int depth)
{
	char *message = suite_text("{\"event_id\":\"deep\",\"payload\":%0*d%0*d}", depth, 0, depth, 0);
	memset(strstr(message, ":00") + 1, '[', (size_t)depth);
	memset(strstr(message, "[0") + 1, ']', (size_t)depth);
	return message;
}

static void check_letter(const struct bad *b)
{
	size_t len = strlen(b->message);
	char *raw = hex_of(b->message, b->kept ? b->kept : len), *digest, *letter, *expected;

	digest = database_text(db, "SELECT encode(sha256('\\x%s'::bytea), 'hex')", hex_of(b->message, len));
	cr_assert_eq(bench_count("dead_letters WHERE digest = '\\x%s'", digest), 1, "no letter of %.100s", b->message);
	letter = database_text(db,
			       "SELECT concat_ws('|', seen, raw = '\\x%s'::bytea, instance_id LIKE 'fleet-_', "
			       "coalesce(event_id, 'none'), reason) FROM dead_letters WHERE digest = '\\x%s'",
			       raw, digest);
	expected = suite_text("%d|t|t|%s|", b->event_id ? 1 : FLEET, b->event_id ? b->event_id : "none");
	cr_assert(strncmp(letter, expected, strlen(expected)) == 0 && strstr(letter, b->reason),
		  "the letter of %.100s is %s, not %s...%s", b->message, letter, expected, b->reason);
}

/* Each is sent between two events in one burst, and both are stored. */
Test(dead_letters, each_message_that_is_no_event_is_one_with_its_reason, .init = set_up, .fini = tear_down)
{
	const struct bad bads[] = {
		{"hello, this is no JSON", .reason = "not JSON"},
		{"{\"event_id\":\"cut\",\"payload\":{\"a\":[1,2", .reason = "not JSON"},
		{"", .reason = "not JSON"},
		{"{\"event_id\":\"one\"} {\"event_id\":\"two\"}", .reason = "not JSON"},
		{"{\"event_type\":\"t\",\"payload\":{\"event_id\":\"inner\"}}", .reason = "/event_id is missing"},
		{"{\"event_id\":\"\",\"payload\":1}", .reason = "/event_id is empty"},
		{"{\"event_id\":null,\"payload\":1}", .reason = "/event_id"},
		{fill("{\"event_id\":\"", 13 + 600 + 2, "\"}"), .reason = "more than 512 bytes"},
		{fill("{\"event_id\":\"", 13 + 513 + 2, "\"}"), .reason = "more than 512 bytes"},
		{"{\"event_id\":{\"id\":\"x\"},\"payload\":1}", .reason = "/event_id is not a string or a number"},
		{"{\"event_id\":\"a\",\"payload\":1,\"event_id\":\"b\"}", .reason = "/event_id is named twice"},
		{"{\"payload\":1,\"event_id\":\"a\",\"payl\\u006fad\":2}", .reason = "/payload is named twice"},
		{"{\"event_id\":\"x\\ud83d\"}", .reason = "unpaired surrogate"},
		{"{\"event_id\":\"x\\u0000y\"}", .reason = "\\u0000"},
		{"{\"event_id\":\"nul\",\"payload\":{\"a\":\"x\\u0000y\"}}", "\\u0000", .event_id = "nul"},
		{"{\"event_id\":\"half\",\"payload\":[\"\\ud83d\"]}", "surrogate", .event_id = "half"},
		{"{\"event_id\":\"huge\",\"payload\":{\"n\":1e200000}}", "number", .event_id = "huge"},
		{nest(20000), .reason = "nested too deeply"},
		{"{\"event_id\":\"bad-text\",\"payload\":\"\xff\xfe\"}", .reason = "UTF"},
		{"{\"event_id\":\"bad-binary\",\"payload\":\"\xc3(\"}", "UTF", .is_binary = true},
		{fill("{\"event_id\":\"long\",\"payload\":\"", (64 << 10) + 1, "\"}"), "has 65537 bytes", .kept = 4096},
	};
	long n = sizeof bads / sizeof *bads;

	for (long i = 0; i < n; i++) {
		feed_sendf(feed, "{\"event_id\":\"before-%ld\",\"payload\":1}", i);
		feed_send(feed, bads[i].is_binary ? FRAME_BINARY : FRAME_TEXT, true, bads[i].message,
			  strlen(bads[i].message));
		feed_sendf(feed, "{\"event_id\":\"after-%ld\",\"payload\":2}", i);
	}
	wait_settled(3 * n);
	for (long i = 0; i < n; i++)
		check_letter(&bads[i]);
	cr_assert_eq(bench_count("dead_letters"), n);
	cr_assert_eq(bench_rows(), 2 * n);
	for (int i = 0; i < FLEET; i++)
		cr_assert_eq(listener_metric(fleet[i], "wsonce_dead_lettered_total"), (double)n);
}

Test(dead_letters, a_bad_message_that_comes_again_is_counted_not_doubled, .init = set_up, .fini = tear_down)
{
	for (int i = 0; i < 4; i++)
		feed_send_text(feed, "the same garbage");
	wait_settled(4);
	feed_send_text(feed, "the same garbage");
	feed_send_text(feed, "other garbage");
	wait_settled(6);
	cr_assert_eq(bench_count("dead_letters"), 2);
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
	cr_assert_eq(bench_count("events WHERE event_id LIKE 'good-%%'"), 300);
	cr_assert_eq(bench_rows(), 300);
	cr_assert_eq(bench_count("dead_letters WHERE event_id IS NULL AND seen = 3"), 100);
	cr_assert_eq(bench_count("dead_letters WHERE event_id IS NOT NULL"), 200);
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

/* Without Redis the listeners do not know of each other: each tries, and all update the same row. */
Test(dead_letters, without_redis_each_listener_counts, .init = set_up_lone, .fini = tear_down)
{
	feed_send_text(feed, "{\"event_id\":\"nul\",\"payload\":\"\\u0000\"}");
	wait_settled(1);
	cr_assert_eq(bench_count("dead_letters"), 1);
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
	cr_assert_eq(bench_count("dead_letters"), 2);
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
		cr_assert_eq(bench_count("events WHERE event_id = $w$%s$w$ AND event_type = '%s' "
					 "AND payload::text = $w$%s$w$",
					 id, json_string_value(json_array_get(row, 1)),
					 json_string_value(json_array_get(row, 2))),
			     1, "the row of %s is missing or another", id);
	}
	cr_assert_eq(bench_rows(), (long)json_array_size(rows));
}

static void check_letters(const json_t *letters)
{
	const json_t *letter;
	size_t i;

	json_array_foreach(letters, i, letter)
	{
		const char *id = json_string_value(json_array_get(letter, 0));
		cr_assert_eq(bench_count("dead_letters WHERE coalesce(event_id, '') = '%s' "
					 "AND strpos(reason, '%s') > 0",
					 id ? id : "", json_string_value(json_array_get(letter, 1))),
			     1);
	}
	cr_assert_eq(bench_count("dead_letters"), (long)json_array_size(letters));
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
