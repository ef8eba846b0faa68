/* A connection that brings nothing, while other listeners hear the feed: it is noticed and dialled again. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000
#define DEAF    "ZGVhZjp4" /* deaf:x, as the handshake has it */

static struct feed *feed;
static struct listener *l[3];
static int sent;

static void set_up(void)
{
	bench_open();
	feed = feed_new();
}

TestSuite(silent, .init = set_up, .timeout = 240);

/* Twenty events a second, until something is true. */
#define SEND_UNTIL(expr) \
	({ \
		int64_t send_end = wait_now_ms() + 3 * WAIT_MS; \
		do \
			feed_sendf(feed, "{\"event_id\":\"%d\",\"payload\":1}", sent++); \
		while (!wait_until(expr, 50) && wait_now_ms() < send_end); \
		(expr); \
	})

/* The last one is the one that the feed may mute: the fleet knows a feed by its address alone. */
static void start(void)
{
	for (int i = 0; i < 3; i++)
		l[i] = listener_start(
			&(struct listener_options){.database = db,
						   .source = suite_text("feed=ws://%s127.0.0.1:%d/feed",
									i == 2 ? "deaf:x@" : "", feed_port(feed))},
			"--instance-id web-%d", i);
	cr_assert(feed_wait_clients(feed, 3, WAIT_MS));
}

Test(silent, a_connection_that_brings_nothing_while_others_hear_is_dialled_again)
{
	start();
	cr_assert(SEND_UNTIL(listener_metric(l[2], "wsonce_received_total") > 20));
	feed_mute(feed, DEAF);
	int64_t began = wait_now_ms();
	cr_assert(SEND_UNTIL(listener_has_logged(l[2], "source is silent here while others hear it")));
	int64_t took_ms = wait_now_ms() - began;
	cr_assert_leq(took_ms, 30000, "%d ms", (int)took_ms);
	cr_assert(SEND_UNTIL(feed_connections(feed) == 4));
	cr_assert(listener_page_has(l[2], "/readyz", "degraded: source feed is silent, while others hear it"));
	cr_assert_eq(listener_status(l[2], "/readyz"), 200);
	cr_assert(listener_page_has(l[2], "/api/status", "\"degraded\": \"source feed is silent"));
	cr_assert(listener_page_has(l[2], "/api/status", "\"heard_by_others\":"));
	cr_assert_eq(listener_metric(l[2], "wsonce_source_silent"), 1);
	cr_assert_geq(listener_metric(l[2], "wsonce_source_silences_total"), 1);
	cr_assert(SEND_UNTIL(
		strstr(run_on(db, "status").output, "! web-2: source feed is silent, while others have heard")));
	cr_assert(SEND_UNTIL(feed_connections(feed) >= 5), "it is dialled again when it stays silent");
	cr_assert_eq(listener_count_logged(l[2], "source is silent here"), 1);
	cr_assert_eq(listener_count_logged(l[2], "level=warn") - listener_count_logged(l[2], "postgres may lose"), 1,
		     "%s", process_errors(listener_process(l[2])));
	feed_mute(feed, NULL);
	cr_assert(SEND_UNTIL(listener_has_logged(l[2], "source brings messages again")));
	cr_assert_eq(listener_metric(l[2], "wsonce_source_silent"), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_not(listener_has_logged(l[i], "source is silent here"));
	await(bench_rows() == sent, WAIT_MS, "%ld rows of %d", bench_rows(), sent);
	cr_assert_eq(listener_stop(l[2]), 0);
	cr_assert_gt(database_long(db, "SELECT sum(silent_ms) FROM line_minutes WHERE listener LIKE 'web-2.%%'"), 3000);
	cr_assert_eq(database_long(db, "SELECT coalesce(sum(silent_ms), 0) FROM line_minutes WHERE listener NOT LIKE "
				       "'web-2.%%'"),
		     0);
}

/* As when the feed sends nothing more to the address of a listener. */
Test(silent, many_sources_that_are_silent_together_do_not_fill_the_log)
{
	for (int i = 0; i < 2; i++) {
		char *more = suite_text("--instance-id web-%d", i);

		for (int k = 1; k < 30; k++)
			more = suite_text("%s --source f%d=ws://%s127.0.0.1:%d/feed%d", more, k, i ? "deaf:x@" : "",
					  feed_port(feed), k);
		l[i] = listener_start(
			&(struct listener_options){.database = db,
						   .source = suite_text("f0=ws://%s127.0.0.1:%d/feed0",
									i ? "deaf:x@" : "", feed_port(feed))},
			"%s", more);
	}
	cr_assert(feed_wait_clients(feed, 60, WAIT_MS));
	cr_assert(SEND_UNTIL(listener_metric(l[1], "wsonce_received_total") > 900));
	feed_mute(feed, DEAF);
	cr_assert(SEND_UNTIL(listener_metric(l[1], "wsonce_source_silences_total") >= 30));
	cr_assert_leq(listener_count_logged(l[1], "source is silent here"), 20);
}

Test(silent, a_feed_that_is_quiet_for_everyone_is_left_alone)
{
	start();
	for (int i = 0; i < 3; i++)
		cr_assert(SEND_UNTIL(listener_metric(l[i], "wsonce_received_total") > 20));
	cr_assert_not(wait_until(feed_connections(feed) > 3, 5000));
	for (int i = 0; i < 3; i++)
		cr_assert_eq(listener_metric(l[i], "wsonce_source_silences_total"), 0);
}

Test(silent, another_mirror_is_dialled_first)
{
	struct feed *mirror = feed_new();
	char *profile = suite_file(
		"sources.json",
		suite_text("{\"sources\": [{\"name\": \"feed\", \"url\": \"ws://127.0.0.1:%d/feed\", \"mirrors\": "
			   "[\"ws://127.0.0.1:%d/feed\"], \"headers\": {\"X-Who\": \"${env:WHO}\"}, \"rules\": "
			   "[{\"name\": \"event\", \"when\": {\"/event_id\": {\"exists\": true}}, \"action\": "
			   "\"event\", \"id\": [[\"/event_id\"]]}]}]}",
			   feed_port(feed), feed_port(mirror)));

	for (int i = 0; i < 2; i++)
		l[i] = listener_start(
			&(struct listener_options){.database = db,
						   .env = (const char *const[]){i ? "WHO=deaf" : "WHO=a", NULL}},
			"--config %s", profile);
	cr_assert(feed_wait_clients(feed, 2, WAIT_MS));
	cr_assert(SEND_UNTIL(listener_metric(l[1], "wsonce_received_total") > 20));
	feed_mute(feed, "X-Who: deaf");
	/* The mirror sends from its first moment: it would be left for the feed again when it is silent, too. */
	cr_assert(SEND_UNTIL((feed_send_text(mirror, "{\"event_id\":\"of-the-mirror\",\"payload\":1}"),
			      listener_has_logged(l[1], "source brings messages again"))));
	cr_assert_eq(feed_connections(feed), 2);
	cr_assert_geq(feed_connections(mirror), 1);
}
