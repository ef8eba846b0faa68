/* CloudEvents by POST /events: structured, in a batch, and in binary mode. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 20000

static int port;

static void start(const char *flags)
{
	port = port_reserve();
	listener = listener_start(&(struct listener_options){.database = db}, "--ingest-http 127.0.0.1:%d %s", port,
				  flags);
}

TestSuite(cloud_events, .init = bench_open, .fini = bench_close, .timeout = 120);

static char *post(const char *headers, const char *body)
{
	return http_post(port, headers, body);
}

static void expect_rejected(const char *answer, const char *reason)
{
	cr_assert(http_status(answer) == 200 && strstr(answer, "\"rejected\"") && strstr(answer, reason), "%s", answer);
}

#define STRUCTURED "Content-Type: application/cloudevents+json; charset=utf-8\r\n"
#define BATCH      "Content-Type: application/cloudevents-batch+json\r\n"
#define BINARY     "ce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\nce-id: 1\r\nce-time: 2026-03-21T12:00:00Z\r\n"
#define EVENT(id)  "{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"/s\",\"id\":\"" id "\"}"

Test(cloud_events, one_of_each_mode_with_the_same_source_and_id_is_stored_once)
{
	start("");
	http_expect(
		post(BINARY "Content-Type: application/json\r\nce-comexampleextension: %e2%82%AC\r\n", "{\"n\":0.10}"),
		"[\n{\"event_id\":\"/s|1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	http_expect(post(STRUCTURED,
			 "{\n\"specversion\": \"1.0\", \"type\": \"t\",\n\"source\": \"/s\", \"id\": \"1\"\n}\n"),
		    "[\n{\"event_id\":\"/s|1\",\"status\":\"duplicate\",\"n\":1}\n]\n");
	http_expect(post(BATCH, "[" EVENT("1") ",\n" EVENT("2") "]"),
		    "[\n{\"event_id\":\"/s|1\",\"status\":\"duplicate\",\"n\":1},\n"
		    "{\"event_id\":\"/s|2\",\"status\":\"persisted\",\"n\":2}\n]\n");
	cr_assert_eq(bench_rows(), 2);
	cr_assert_eq(
		bench_count("events WHERE event_id = '/s|1' AND event_type = 't' AND source = 'cloudevents' "
			    "AND event_time = '2026-03-21T12:00:00Z' AND payload = '{\"specversion\": \"1.0\", "
			    "\"type\": \"t\", \"source\": \"/s\", \"id\": \"1\", \"time\": \"2026-03-21T12:00:00Z\", "
			    "\"datacontenttype\": \"application/json\", \"comexampleextension\": \"€\", "
			    "\"data\": {\"n\": 0.10}}'"),
		1);
}

Test(cloud_events, data_that_is_not_json_is_a_text_or_base64_and_may_be_missing)
{
	start("");
	cr_assert_eq(http_status(post(BINARY "Content-Type: application/xml\r\n", "<a/>")), 200);
	cr_assert_eq(http_status(post("ce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\nce-id: 2\r\n"
				      "Content-Type: image/png\r\n",
				      "\x89PNG")),
		     200);
	cr_assert_eq(http_status(post("ce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\nce-id: 3\r\n", "")), 200);
	cr_assert_eq(bench_count("events WHERE event_id = '/s|1' AND payload->>'data' = '<a/>'"), 1);
	cr_assert_eq(bench_count("events WHERE event_id = '/s|2' AND payload->>'data_base64' = 'iVBORw=='"), 1);
	cr_assert_eq(bench_count("events WHERE event_id = '/s|3' AND NOT payload ? 'data'"), 1);
}

Test(cloud_events, what_is_not_one_is_a_dead_letter_or_refused)
{
	start("");
	expect_rejected(post(STRUCTURED, "{\"type\":\"t\",\"source\":\"/s\",\"id\":\"1\"}"), "no rule");
	expect_rejected(post(STRUCTURED, "{\"specversion\":\"1.0\",\"source\":\"/s\"}"),
			"\"/id is missing: the event has");
	expect_rejected(post(STRUCTURED, "{\n\n"), "");
	expect_rejected(post(BATCH, EVENT("1")), "is a JSON array");
	expect_rejected(post(BATCH, "[" EVENT("1")), "");
	expect_rejected(post("ce-specversion: 1.0\r\nce-source: /s\r\n", "{}"), "\"/id is missing: the event has");
	expect_rejected(post(BINARY "Content-Type: application/json\r\n", "{"),
			"is not JSON, as its Content-Type says");
	cr_assert_eq(bench_count("dead_letters"), 7);
	cr_assert_eq(bench_count("dead_letters WHERE raw LIKE '{\"specversion\"%%\"data_base64\":\"ew==\"}'"), 1);
	const char *answer = post(BATCH, "[" EVENT("1") ",{}," EVENT("2") "]");
	cr_assert(strstr(answer, "{\"event_id\":\"/s|1\",\"status\":\"persisted\",\"n\":1},\n"
				 "{\"event_id\":null,\"status\":\"rejected\""),
		  "%s", answer);
	cr_assert_eq(bench_rows(), 2);
}

Test(cloud_events, requests_that_cannot_be_read_are_refused)
{
	start("");
	cr_assert_eq(http_status(post("Content-Type: application/cloudevents+avro\r\n", EVENT("1"))), 415);
	cr_assert_eq(http_status(post(BINARY "ce-id: 2\r\n", "{}")), 400);
	cr_assert_eq(http_status(post(BINARY "ce-subject: %c0%a0\r\n", "{}")), 400);
	cr_assert_eq(http_status(post(BINARY "ce-datacontenttype: text/plain\r\n", "{}")), 400);
	cr_assert_eq(http_status(post(STRUCTURED, "")), 400);
	http_expect(post(BATCH, "[]"), "[\n]\n");
	char *many = malloc(20010), *at = many;
	*at++ = '[';
	for (int i = 0; i < 10001; i++)
		at = mempcpy(at, i ? ",1" : "1", i ? 2 : 1);
	strcpy(at, "]");
	cr_assert_eq(http_status(post(BATCH, many)), 413);
	cr_assert_eq(listener_metric(listener, "wsonce_received_total"), 0);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

Test(cloud_events, profile_of_the_operator_reads_all_modes)
{
	char *profile = suite_file("own.json", "{\"name\": \"own\", \"ack\": 1, \"rules\": [{\"action\": \"event\", "
					       "\"id\": [[\"/id\"]], \"type\": \"/type\", \"payload\": \"/data\"}]}");

	start(suite_text("--ingest-profile %s", profile));
	http_expect(post(BINARY, "{\"n\":1}"), "[\n{\"event_id\":\"1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	http_expect(post(BATCH, "[" EVENT("1") "," EVENT("2") "]"),
		    "[\n{\"event_id\":\"1\",\"status\":\"duplicate\",\"n\":1},\n"
		    "{\"event_id\":\"2\",\"status\":\"persisted\",\"n\":2}\n]\n");
	cr_assert_eq(bench_count("events WHERE event_id = '1' AND payload = '{\"n\": 1}' AND source = 'own'"), 1);
}
