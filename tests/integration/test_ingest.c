/* Producers at /events: acks, tokens, limits, broken frames, ends of connections, draining, TLS. The mistakes of one
 * producer must not affect others. */
#include "support.h"
#include "bench.h"

#define ACKS       "wsonce.ack.v1"
#define SETTLED_MS 20000
#define CLOSE_MS   10000

static struct peer *neighbour; /* a well-behaved producer, connected all the time */

static long rows_like(const char *pattern)
{
	return bench_count("events WHERE event_id LIKE '%s'", pattern);
}

static struct peer *open_acked(void)
{
	return peer_open_events(listener_ingest_port(listener), ACKS);
}

static void set_up(void)
{
	bench_start("--max-message 64KiB");
	neighbour = open_acked();
}

/* Expects the neighbour and new connections to be served. */
static void expect_service(void)
{
	static int number;
	char *id = suite_text("neighbour-%d", ++number);
	peer_sendf(neighbour, "{\"event_id\":\"%s\"}", id);
	ack_expect(neighbour, id, "persisted");
	struct peer *p = open_acked();
	peer_sendf(p, "{\"event_id\":\"%s\"}", id);
	ack_expect(p, id, "duplicate");
	peer_free(p);
}

static void tear_down(void)
{
	expect_service();
	peer_free(neighbour);
	bench_close();
}

static void expect_close(struct peer *p, int code)
{
	int got = peer_recv_close(p, CLOSE_MS);

	cr_assert_eq(got, code, "closed by %d, not %d", got, code);
}

/* ---- acks ---- */

Test(ingest, acks_say_what_became_of_each_message, .init = set_up, .fini = tear_down)
{
	struct peer *p = open_acked();

	cr_assert_str_eq(peer_subprotocol(p), ACKS);
	peer_send_text(p, "{\"event_id\":\"one\",\"event_type\":\"t\",\"payload\":1}");
	ack_expect(p, "one", "persisted");
	peer_send_text(p, "{\"event_id\":\"one\",\"event_type\":\"other\",\"payload\":2}");
	ack_expect(p, "one", "duplicate");
	peer_send_text(p, "garbage");
	ack_expect_rejected(p, NULL, "not JSON");
	cr_assert_eq(bench_count("events WHERE event_id = 'one' AND payload = '1'"), 1);
	peer_free(p);
}

Test(ingest, a_producer_without_subprotocol_gets_no_replies, .init = set_up, .fini = tear_down)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);
	char *reply = NULL;

	cr_assert_null(peer_subprotocol(p));
	peer_send_text(p, "{\"event_id\":\"quiet\"}");
	peer_send_text(p, "garbage");
	await(bench_metric("wsonce_persisted_total") + bench_metric("wsonce_dead_lettered_total") == 2, SETTLED_MS);
	peer_send(p, FRAME_PING, true, "?", 1);
	await((reply = peer_recv(p, 20)) || peer_pongs(p), SETTLED_MS);
	cr_assert_null(reply, "a reply: %s", reply);
	cr_assert_eq(rows_like("quiet"), 1);
	peer_free(p);
}

/* A message without an id is identified only by its number. */
Test(ingest, acks_have_the_number_of_the_message_on_its_connection, .init = set_up, .fini = tear_down)
{
	struct peer *p = open_acked();
	long sum = 0;

	for (int i = 0; i < 10; i++)
		peer_sendf(p, i % 2 ? "garbage %d" : "{\"event_id\":\"numbered-%d\"}", i);
	for (int i = 0; i < 10; i++) {
		const struct ack *ack = ack_read(p, SETTLED_MS);

		cr_assert_eq(ack->event_id != NULL, ack->n % 2);
		if (ack->event_id)
			cr_assert_eq(strtol(strrchr(ack->event_id, '-') + 1, NULL, 10), ack->n - 1);
		sum += ack->n;
	}
	cr_assert_eq(sum, 55);
	peer_free(p);
}

/* ---- producers that leave at once ---- */

#define LEAVERS 200

static void send_close(struct peer *p)
{
	peer_send_close(p, 1000);
}

/* Connect, send one event, and leave in the same moment, LEAVERS times; all events are stored. */
Test(ingest, an_event_whose_producer_leaves_at_once_is_stored, .init = set_up, .fini = tear_down)
{
	static const struct {
		const char *name, *subprotocol;
		void (*leave)(struct peer *p);
	} ways[] = {{"close", NULL, send_close},
		    {"end", NULL, peer_close},
		    {"reset", NULL, peer_reset},
		    {"reset-before-ack", ACKS, peer_reset}};

	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
		for (int i = 0; i < LEAVERS; i++) {
			struct peer *p = peer_open_events(listener_ingest_port(listener), ways[way].subprotocol);

			peer_sendf(p, "{\"event_id\":\"leaver-%s-%d\"}", ways[way].name, i);
			ways[way].leave(p);
			peer_free(p);
		}
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
		char *ids = suite_text("leaver-%s-%%", ways[way].name);

		await(rows_like(ids) >= LEAVERS, SETTLED_MS, "%s: %ld of %d are stored", ids, rows_like(ids), LEAVERS);
	}
	await(bench_metric("wsonce_ingest_connections") == 1, SETTLED_MS);
	cr_assert_eq(bench_metric("wsonce_in_flight"), 0);
}

/* Writes masked frames of n events, with a ping after every fourth. Returns the number of bytes. */
static size_t write_burst(unsigned char *out, int round, int n)
{
	static const unsigned char mask[4] = {1, 2, 3, 4};
	size_t len = 0;

	for (int i = 0; i < n; i++) {
		char text[1100];
		int size = snprintf(text, sizeof text, "{\"event_id\":\"burst-%d-%d\",\"payload\":\"%01000d\"}", round,
				    i, i);

		len += frame_write(out + len, FRAME_TEXT, true, mask, text, (size_t)size);
		if (i % 4 == 3)
			len += frame_write(out + len, FRAME_PING, true, mask, "?", 1);
	}
	return len;
}

/* Sends a burst of n events on a new connection, and resets it: bytes that are still in the producer's kernel are lost.
 */
static void send_burst_and_reset(const char *protocol, bool is_greeted, int round, int n)
{
	unsigned char *frames = malloc((size_t)n * 1200);
	struct peer *p = peer_open_events(listener_ingest_port(listener), protocol);

	if (is_greeted) {
		peer_sendf(p, "{\"event_id\":\"first-%d\"}", round);
		peer_recv(p, SETTLED_MS);
	}
	peer_send_raw(p, frames, write_burst(frames, round, n));
	peer_reset(p);
	peer_free(p);
	free(frames);
}

/* More bytes than are read at once, in one segment. Earlier messages to the producer make no difference. */
Test(ingest, a_burst_whose_producer_resets_the_connection_is_stored, .init = set_up, .fini = tear_down)
{
	for (int round = 0; round < 40; round++)
		send_burst_and_reset(round % 2 ? ACKS : NULL, round % 2, round, 20);
	await(rows_like("burst-%") == 800, SETTLED_MS, "only %ld are stored", rows_like("burst-%"));
}

/* Reading stops after each few of them: what is left waits in the kernel, or in libwebsockets. */
Test(ingest, a_burst_that_is_not_all_read_before_the_reset_is_stored, .fini = bench_close)
{
	bench_start("--max-message 2KiB --max-inflight-bytes 12KiB");
	for (int round = 0; round < 10; round++) {
		send_burst_and_reset(round % 2 ? ACKS : NULL, false, round, 40);
		await(rows_like("burst-%") == 40L * (round + 1), SETTLED_MS, "only %ld are stored",
		      rows_like("burst-%"));
		await(bench_metric("wsonce_ingest_connections") == 0, SETTLED_MS);
	}
}

/* A listener that leaves gives up its claims and claims no more of what producers had sent. */
Test(ingest, what_a_producer_sent_before_its_reset_is_not_claimed_behind_a_drain)
{
	unsigned char *frames = malloc(40 * 1200);

	bench_start("--max-message 2KiB --max-inflight-bytes 12KiB --drain-timeout 8 --claim-ttl 600");
	struct database *lock = database_open(database_conninfo(db));
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);
	database_exec(lock, "BEGIN; LOCK TABLE events");
	peer_send_raw(p, frames, write_burst(frames, 0, 40));
	await(bench_metric("wsonce_ingest_paused") == 1, SETTLED_MS);
	process_signal(listener_process(listener), SIGTERM);
	await(listener_has_logged(listener, "will retry the batch"), SETTLED_MS);
	peer_reset(p);
	peer_free(p);
	cr_assert_eq(process_wait(listener_process(listener), SETTLED_MS), 1, "there was nothing left");
	/* Redis may still have to handle what was sent. */
	await(claims_open(redisd_shared()) == 0, SETTLED_MS, "%ld claims are left", claims_open(redisd_shared()));
	database_free(lock);
}

/* ---- limits ---- */

/* libwebsockets has a limit of its own, which is 10 s. */
Test(ingest, a_handshake_may_be_given_more_than_ten_seconds)
{
	bench_start("--handshake-timeout 12");
	int64_t began = wait_now_ms();
	struct peer *silent = peer_dial(listener_ingest_port(listener));
	struct peer *slow = peer_dial(listener_ingest_port(listener));

	peer_send_raw(slow, "GET /events HTTP/1.1\r\nHost:", 27);
	await(peer_recv_close(silent, 100) || peer_recv_close(slow, 100), 30000);
	cr_assert_geq(wait_now_ms() - began, 11000);
	peer_free(silent);
	peer_free(slow);
	bench_close();
}

/* ---- texts and frames ---- */

Test(ingest, binary_that_is_not_utf8_is_a_dead_letter, .init = set_up, .fini = tear_down)
{
	struct peer *p = open_acked();

	peer_send(p, FRAME_BINARY, true, "{\"event_id\":\"bad\xff\"}", 19);
	ack_expect_rejected(p, NULL, "");
	peer_send(p, FRAME_BINARY, true, "\x00\x01\x02", 3);
	ack_expect_rejected(p, NULL, "");
	peer_send(p, FRAME_BINARY, true, "{\"event_id\":\"good\"}", 19);
	ack_expect(p, "good", "persisted");
	cr_assert_eq(bench_count("dead_letters"), 2);
	peer_free(p);
}

/* ---- a producer that does not read ---- */

#define DEAF_EVENTS 50000
#define DEAF_ID     "deaf-%0300d"

/* Sends events from number *next on until the listener stops reading or all are sent. */
static void send_while_read(struct peer *p, int *next, int deadline_ms)
{
	peer_set_deadline(p, deadline_ms);
	if (!peer_flush(p))
		return;
	while (*next < DEAF_EVENTS && peer_sendf(p, "{\"event_id\":\"" DEAF_ID "\"}", (*next)++))
		;
}

/* Reads the acks that have come. Returns how many. */
static int take_acks(struct peer *p)
{
	char *text;
	int n = 0;

	for (; (text = peer_recv(p, 5)); n++) {
		cr_assert(strstr(text, "\"persisted\""), "%s", text);
	}
	return n;
}

Test(ingest, a_producer_that_reads_no_acks_is_stopped_and_others_go_on, .fini = tear_down)
{
	setenv("ASAN_OPTIONS", "quarantine_size_mb=1", 1);
	set_up();
	struct peer *deaf = open_acked();
	int next = 0, acks = 0;

	send_while_read(deaf, &next, 500);
	cr_assert_lt(next, DEAF_EVENTS, "all events were read, though no ack was");
	cr_assert_lt(process_rss_kb(listener_process(listener)), PROCESS_MEMORY_FACTOR * (64 << 10));
	for (int i = 0; i < 5; i++) {
		int64_t begin = wait_now_ms();

		expect_service();
		cr_assert_lt(wait_now_ms() - begin, wait_stretch_ms(20000));
	}
	await((acks += take_acks(deaf), send_while_read(deaf, &next, 1), acks == DEAF_EVENTS), 3 * SETTLED_MS,
	      "%d sent, %d acks", next, acks);
	cr_assert_eq(rows_like("deaf-%"), DEAF_EVENTS);
	peer_free(deaf);
}

/* Blocks the store until memory is full, then lets it continue. */
static void fill_memory(struct peer *p, int round, struct database *lock)
{
	database_exec(lock, "BEGIN; LOCK TABLE events");
	peer_set_deadline(p, 200);
	for (int i = 0; i % 20 || bench_metric("wsonce_ingest_paused") != 1; i++) {
		cr_assert_lt(i, 100000, "producers are not stopped");
		peer_sendf(p, "{\"event_id\":\"fill-%d-%d\",\"payload\":\"%0900d\"}", round, i, i);
	}
}

/* A producer that is not read because memory is full and because of its acks is read again when both have passed, in
 * either order. It was stopped often enough to count as quiet. */
Test(ingest, a_producer_that_reads_its_acks_while_memory_is_full_is_read_again)
{
	int next = 0, acks = 0;

	bench_start("--max-inflight-bytes 1MiB --ping-interval 600");
	struct database *lock = database_open(database_conninfo(db));
	struct peer *deaf = open_acked();
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);
	send_while_read(deaf, &next, 500);
	cr_assert_lt(next, DEAF_EVENTS, "all events were read, though no ack was");
	for (int round = 0; round < 12; round++) {
		fill_memory(p, round, lock);
		database_exec(lock, "COMMIT");
		peer_set_deadline(p, SETTLED_MS);
		cr_assert(peer_flush(p));
		await(bench_metric("wsonce_in_flight") == 0 && bench_metric("wsonce_ingest_paused") == 0, SETTLED_MS);
	}
	fill_memory(p, 12, lock);
	for (int n; (n = take_acks(deaf));)
		acks += n;
	database_exec(lock, "COMMIT");
	await((acks += take_acks(deaf), send_while_read(deaf, &next, 1), acks == DEAF_EVENTS), 3 * SETTLED_MS,
	      "%d sent, %d acks", next, acks);
	peer_free(deaf);
	peer_free(p);
	bench_close();
}

/* ---- draining ---- */

/* Counts acks until the listener closes the connection, which must be with 1001. */
static int read_to_the_end(struct peer *p)
{
	int n = 0;
	char *text;

	while ((text = peer_recv(p, CLOSE_MS))) {
		cr_assert(strstr(text, "\"persisted\""), "%s", text);
		n++;
	}
	expect_close(p, 1001);
	return n;
}

/* Sends garbage. Returns true if the listener has closed the connection. */
static int code_after_garbage(struct peer *p)
{
	for (int i = 0; i < 300 && peer_send_text(p, "garbage"); i++)
		;
	return peer_recv_close(p, 20);
}

Test(ingest, a_producer_of_garbage_is_slowed_and_then_disconnected, .init = set_up, .fini = tear_down)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);
	int code = 0;

	peer_set_deadline(p, 100);
	await((code = code_after_garbage(p)) != 0, 30000);
	cr_assert_eq(code, 1008, "%d", code);
	cr_assert_geq(listener_metric(listener, "wsonce_ingest_rests_total"), 4);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_ended_total"), 1);
	expect_service();
	peer_free(p);
}

#define LARGE_BYTES 60000
#define LARGE_MOST  300 /* of small ones it takes 1,400 */

/* Each is a separate dead letter. */
static int code_after_large_garbage(struct peer *p, char *garbage, int *count)
{
	for (int i = 0; i < 5 && *count < LARGE_MOST; i++, ++*count) {
		garbage[snprintf(garbage, 20, "%d", *count)] = 'x';
		if (!peer_send_text(p, garbage))
			break;
	}
	return peer_recv_close(p, 20);
}

Test(ingest, a_producer_of_large_garbage_is_disconnected_soon, .init = set_up, .fini = tear_down)
{
	struct peer *p = peer_open_events(listener_ingest_port(listener), NULL);
	char *garbage = malloc(LARGE_BYTES + 1);
	int count = 0, code = 0;

	memset(garbage, 'x', LARGE_BYTES);
	garbage[LARGE_BYTES] = '\0';
	await((code = code_after_large_garbage(p, garbage, &count)) != 0, 30000, "%d sent", count);
	cr_assert_eq(code, 1008, "%d", code);
	cr_assert_leq(database_long(db, "SELECT max(length(raw)) FROM dead_letters"), 65536);
	peer_free(p);
}

Test(ingest, on_sigterm_the_acks_of_what_was_received_come_before_1001)
{
	struct peer *producers[3];
	double received = 0;
	int acks = 0;

	bench_start("%s", "");
	for (int i = 0; i < 3; i++)
		producers[i] = open_acked();
	for (int n = 0; n < 1000; n++)
		for (int i = 0; i < 3; i++)
			peer_sendf(producers[i], "{\"event_id\":\"drain-%d-%d\"}", i, n);
	await((received = bench_metric("wsonce_received_total")) > 0, SETTLED_MS);
	process_signal(listener_process(listener), SIGTERM);
	for (int i = 0; i < 3; i++)
		acks += read_to_the_end(producers[i]);
	cr_assert_eq(process_wait(listener_process(listener), SETTLED_MS), 0);
	cr_assert_geq(acks, received, "%d acks, and %.0f messages were read before", acks, received);
	cr_assert_eq(acks, rows_like("drain-%"), "%d acks and %ld rows", acks, rows_like("drain-%"));
}

/* ---- TLS ---- */

/* len: of the whole head. */
static void expect_status_of_head(int port, int len, int wanted)
{
	static const char rest[] =
		"GET /events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d3NvbmNlIHRlc3QgcGVlcg==\r\nX-Long: \r\n\r\n";
	char *header = suite_text("X-Long: %0*d\r\n", len - (int)sizeof rest + 1, 0);

	cr_assert_eq(http_handshake(port, header), wanted, "a head of %d bytes", len);
}

Test(ingest, a_head_over_4_kib_is_answered_431_and_logged, .init = set_up, .fini = tear_down)
{
	int port = listener_ingest_port(listener);

	expect_status_of_head(port, 4096, 101);
	expect_status_of_head(port, 4097, 431);
	expect_status_of_head(port, 20000, 431);
	cr_assert(listener_has_logged(listener, "status=431"));
}

/* libwebsockets would accept them, or wait for their end. */
Test(ingest, a_malformed_head_is_answered_400_at_once, .init = set_up, .fini = tear_down)
{
	const char *const malformed[] = {"no colon\r\n",   ": no name\r\n", "X-CR: a\rb\r\n",  "X-LF: a\n",
					 "X-CRs: a\r\r\n", "host: y\r\n",   "X-Blank : a\r\n", "X-Folded: a:\r\n b\r\n",
					 "X\x01: a\r\n",   "X\xe9: a\r\n"};

	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
		cr_assert_eq(http_handshake(listener_ingest_port(listener), malformed[i]), 400, "%s", malformed[i]);
	cr_assert_eq(http_handshake(listener_ingest_port(listener), "X-Host: y\r\nX-Empty:\r\n"), 101);
	cr_assert(listener_has_logged(listener, "status=400"));
}

/* libwebsockets misses the end of such a head. */
Test(ingest, a_head_whose_end_is_missed_is_answered_400_at_once, .init = set_up, .fini = tear_down)
{
	const char *const last[] = {"X: 1\r\n", "X-Auth: 1\r\n", "User:\r\n"};

	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
		char *first = suite_text("%sAccept: a\r\n", last[i]);

		cr_assert_eq(http_handshake(listener_ingest_port(listener), last[i]), 400, "%s", last[i]);
		cr_assert_eq(http_handshake(listener_ingest_port(listener), first), 101, "%s", first);
	}
	cr_assert(listener_has_logged(listener, "status=400"));
}

Test(ingest, with_a_certificate_producers_connect_by_tls)
{
	struct certificate *authority = certificate_authority_new();
	struct certificate *server = certificate_new(authority, "DNS:localhost");
	struct certificate *stranger = certificate_authority_new();

	bench_start("--ingest-cert %s --ingest-key %s --handshake-timeout 1", server->cert, server->key);
	for (int i = 0; i < 3; i++)
		cr_assert_null(peer_open(listener_ingest_port(listener), "/events", ACKS, NULL, NULL), "without TLS");
	cr_assert(listener_has_logged(listener, "reason=\"http request\""));
	struct relay *good = relay_new_towards(listener_ingest_port(listener), authority);
	struct relay *bad = relay_new_towards(listener_ingest_port(listener), stranger);
	struct peer *p = peer_open_events(relay_port(good), ACKS);

	for (int i = 0; i < 100; i++)
		peer_sendf(p, "{\"event_id\":\"by-tls-%d\",\"payload\":\"%01000d\"}", i, i);
	for (int i = 0; i < 100; i++) {
		struct ack *ack = ack_read(p, SETTLED_MS);

		cr_assert_str_eq(ack->status, "persisted");
	}
	cr_assert_eq(rows_like("by-tls-%"), 100);
	cr_assert_null(peer_open(relay_port(bad), "/events", ACKS, NULL, NULL));
	expect_status_of_head(relay_port(good), 4096, 101);
	expect_status_of_head(relay_port(good), 20000, 431);
	peer_free(p);
	/* What TLS has decrypted and the listener has not yet read must not be lost with the connection. */
	for (int i = 0; i < 20; i++) {
		p = peer_open_events(relay_port(good), NULL);
		for (int n = 0; n < 20; n++)
			peer_sendf(p, "{\"event_id\":\"leaver-%d-%d\",\"payload\":\"%01000d\"}", i, n, n);
		peer_free(p);
	}
	await(rows_like("leaver-%") == 400, SETTLED_MS, "only %ld", rows_like("leaver-%"));
	relay_free(good);
	relay_free(bad);
	bench_close();
}

/* Reading stops after every few events, in the middle of what TLS has decrypted. */
Test(ingest, by_tls_a_burst_is_stored_that_is_not_read_at_once, .fini = bench_close)
{
	struct certificate *authority = certificate_authority_new();
	struct certificate *leaf = certificate_new(authority, "DNS:localhost");
	unsigned char *frames = malloc(40 * 1200);

	bench_start("--max-message 2KiB --max-inflight-bytes 12KiB --ingest-cert %s --ingest-key %s", leaf->cert,
		    leaf->key);
	struct relay *relay = relay_new_towards(listener_ingest_port(listener), authority);
	struct peer *p = peer_open_events(relay_port(relay), ACKS);
	peer_send_raw(p, frames, write_burst(frames, 0, 40));
	for (int i = 0; i < 40; i++)
		cr_assert_str_eq(ack_read(p, SETTLED_MS)->status, "persisted");
	cr_assert_eq(listener_status(listener, "/readyz"), 200);
	peer_free(p);
	relay_free(relay);
}
