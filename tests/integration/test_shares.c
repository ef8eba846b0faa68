/* How much memory each may use: producers with unfinished messages, and producers beside feeds. */
#include "support.h"
#include "bench.h"

#define SETTLED_MS  15000
#define HALF_BYTES  60000
#define WHOLE_BYTES 64000 /* bytes of the whole message */
#define HALVES      12

TestSuite(shares, .timeout = 120);

static struct database *lock;

static void start(const char *source, const char *flags)
{
	db = database_new();
	listener = listener_start(&(struct listener_options){.database = db, .source = source}, "%s", flags);
}

static double metric(const char *name)
{
	return listener_metric(listener, name);
}

static struct peer *open_producer(void)
{
	return peer_open_events(listener_ingest_port(listener), "wsonce.ack.v1");
}

/* Sends a frame without its last bytes. */
static struct peer *send_half(void)
{
	struct peer *p = open_producer();
	unsigned char *frame = calloc(1, 8 + HALF_BYTES);

	frame[0] = 0x82;
	frame[1] = 0x80 | 126;
	frame[2] = WHOLE_BYTES >> 8;
	frame[3] = WHOLE_BYTES & 0xff;
	peer_send_raw(p, frame, 8 + HALF_BYTES);
	return p;
}

/* Blocks the store with one event until unlock(). */
static void stick(struct peer *p)
{
	lock = fleet_lock(db);
	peer_send_text(p, "{\"event_id\":\"stuck\"}");
	await(metric("wsonce_in_flight") == 1, SETTLED_MS);
}

static void unlock(struct peer *p)
{
	fleet_unlock(lock);
	ack_expect(p, "stuck", "persisted");
}

/* A quarter of 1 MiB holds four of them. The connection with the most bytes is closed until the rest fits; the blocked
 * event does not matter. */
Test(shares, unfinished_messages_have_a_quarter_of_the_budget)
{
	struct peer *halves[HALVES];

	start(NULL, "--max-inflight-bytes 1MiB --max-message 64KiB");
	struct peer *p = open_producer();
	stick(p);
	for (int i = 0; i < HALVES; i++)
		halves[i] = send_half();
	await(metric("wsonce_ingest_unfinished_total") >= HALVES - 4, SETTLED_MS);
	await(metric("wsonce_ingest_connections") <= 1 + 4, SETTLED_MS);
	cr_assert_leq(metric("wsonce_in_flight_bytes"), (1 << 18) + 4096);
	cr_assert_eq(metric("wsonce_pauses_total"), 0);
	unlock(p);
	for (int i = 0; i < HALVES; i++)
		peer_free(halves[i]);
	peer_free(p);
	bench_close();
}

/* One message at a time fits, whatever the quarter is. */
Test(shares, a_message_larger_than_a_quarter_of_the_budget_is_taken)
{
	char *text = malloc(50001);

	start(NULL, "--max-inflight-bytes 64KiB --max-message 60KiB");
	snprintf(text, 50001, "{\"event_id\":\"large\",\"payload\":\"%049900d\"}", 0);
	struct peer *p = open_producer();
	peer_send_text(p, text);
	ack_expect(p, "large", "persisted");
	cr_assert_eq(metric("wsonce_ingest_unfinished_total"), 0);
	peer_free(p);
	bench_close();
}

Test(shares, a_message_has_to_be_finished_in_time)
{
	start(NULL, "--message-timeout 1");
	struct peer *p = open_producer(), *half = send_half();
	int64_t begin = wait_now_ms();

	cr_assert_neq(peer_recv_close(half, SETTLED_MS), 0, "the connection stays");
	cr_assert_geq(wait_now_ms() - begin, 900);
	cr_assert_eq(metric("wsonce_ingest_unfinished_total"), 1);
	peer_send_text(p, "{\"event_id\":\"whole\"}");
	ack_expect(p, "whole", "persisted");
	peer_free(half);
	peer_free(p);
	bench_close();
}

/* The store is blocked. Producers fill their share, and the feed is still read. */
Test(shares, feeds_are_not_stopped_for_the_sake_of_producers)
{
	struct feed *feed = feed_new();
	char message[1000];

	start(feed_url(feed), "--max-inflight-bytes 512KiB --batch-max 100000");
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	lock = fleet_lock(db);
	peer_set_deadline(p, 200);
	for (int i = 0; metric("wsonce_ingest_paused") != 1; i++) {
		cr_assert_lt(i, 10000, "producers are not stopped");
		snprintf(message, sizeof message, "{\"event_id\":\"p%d\",\"payload\":\"%0900d\"}", i, i);
		peer_send_text(p, message);
	}
	cr_assert_eq(metric("wsonce_paused"), 0);
	double before = metric("wsonce_received_total");
	for (int i = 0; i < 50; i++) {
		snprintf(message, sizeof message, "{\"event_id\":\"f%d\"}", i);
		feed_send_text(feed, message);
	}
	await(metric("wsonce_received_total") >= before + 50, SETTLED_MS, "the feed is not read");
	fleet_unlock(lock);
	await(metric("wsonce_in_flight") == 0 && metric("wsonce_ingest_paused") == 0, SETTLED_MS);
	peer_free(p);
	bench_close();
}

#define TINY 3000 /* events, which a listener could read at once */

/* One read may be more than fits into memory: 64 KiB can inflate to gigabytes. */
Test(shares, a_feed_is_not_read_beyond_the_memory_not_even_what_came_at_once)
{
	struct feed *feed = feed_new();

	start(feed_url(feed), "--max-inflight-bytes 64KiB --max-message 60KiB");
	cr_assert(feed_wait_clients(feed, 1, SETTLED_MS));
	lock = fleet_lock(db);
	process_signal(listener_process(listener), SIGSTOP);
	for (int i = 0; i < TINY; i++)
		feed_sendf(feed, "{\"event_id\":\"%d\"}", i);
	process_signal(listener_process(listener), SIGCONT);
	await(metric("wsonce_paused") == 1, SETTLED_MS);
	cr_assert_lt(metric("wsonce_in_flight_bytes"), 2 * (64 << 10));
	fleet_unlock(lock);
	await(bench_rows() == TINY, SETTLED_MS);
	bench_close();
}

/* ---- acks ---- */

#define DEAF       12
#define DEAF_MOST  6000 /* events of each, whose acks are 2 MB */
#define DEAF_ROUND 50
#define DEAF_BYTES (2 << 20)

/* Each producer sends some events, if it is read, and reads no acks. Returns how many were sent. */
static int send_without_reading(struct peer *const *deaf, int *next)
{
	int sent = 0;

	for (int i = 0; i < DEAF; i++) {
		bool is_read = peer_flush(deaf[i]);

		for (int n = 0; is_read && n < DEAF_ROUND && next[i] < DEAF_MOST; n++, sent++)
			is_read = peer_sendf(deaf[i], "{\"event_id\":\"%d-%0300d\"}", i, next[i]++);
	}
	return sent;
}

/* Acks may take an eighth of 4 MiB; beyond that, only messages that were read before get more. */
Test(shares, acks_that_are_not_read_are_a_part_of_the_budget)
{
	struct peer *deaf[DEAF], *p;
	int next[DEAF] = {0};
	double bytes;

	start(NULL, "--max-inflight-bytes 4MiB --ping-interval 600");
	for (int i = 0; i < DEAF; i++) {
		deaf[i] = open_producer();
		peer_set_deadline(deaf[i], 1);
	}
	while (send_without_reading(deaf, next) || metric("wsonce_in_flight") > 0)
		;
	cr_assert_lt(metric("wsonce_received_total"), DEAF * DEAF_MOST, "all are read from to the end");
	p = open_producer();
	peer_send_text(p, "{\"event_id\":\"heard\"}");
	ack_expect(p, "heard", "persisted");
	await(metric("wsonce_in_flight") == 0, SETTLED_MS);
	bytes = metric("wsonce_in_flight_bytes");
	cr_assert_geq(bytes, DEAF_BYTES / 8, "%.0f bytes", bytes);
	cr_assert_leq(bytes, DEAF_BYTES, "%.0f bytes", bytes);
	for (int i = 0; i < DEAF; i++)
		peer_free(deaf[i]);
	await(metric("wsonce_in_flight_bytes") == 0, SETTLED_MS, "%.0f bytes, %.0f connections, %.0f in flight",
	      metric("wsonce_in_flight_bytes"), metric("wsonce_ingest_connections"), metric("wsonce_in_flight"));
	peer_send_text(p, "{\"event_id\":\"afterwards\"}");
	ack_expect(p, "afterwards", "persisted");
	peer_free(p);
	bench_close();
}
