/* Webhooks of other services: POST /events that a secret has signed (Standard Webhooks). */
#include "support.h"
#include "bench.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <zlib.h>

#define WAIT_MS 20000
#define SECRET  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER   "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static int port;
static char *secrets; /* path of the file */

static void set_up(void)
{
	bench_open();
	secrets = suite_file("secrets", "shop " SECRET "\n");
	port = port_reserve();
}

TestSuite(signed_posts, .init = set_up, .fini = bench_close, .timeout = 120);

static void start(const char *flags)
{
	listener =
		listener_start(&(struct listener_options){.database = db},
			       "--ingest-http 127.0.0.1:%d --ingest-webhook-secret-file %s %s", port, secrets, flags);
}

/* A request, and what its signature is made of. */
struct webhook {
	const char *secret;
	const char *id;
	long age_s;
	const char *body;
	size_t len; /* of body; 0: it is a text */
	const char *headers;
};

static const char *sign(const struct webhook *w, const char *timestamp)
{
	unsigned char key[64], mac[EVP_MAX_MD_SIZE], text[100];
	unsigned int mac_len;
	int key_len = EVP_DecodeBlock(key, (const unsigned char *)w->secret + 6, (int)strlen(w->secret) - 6);
	char *head = suite_text("%s.%s.", w->id, timestamp), *all = malloc(strlen(head) + w->len);

	memcpy(mempcpy(all, head, strlen(head)), w->body, w->len);
	HMAC(EVP_sha256(), key, key_len, (unsigned char *)all, strlen(head) + w->len, mac, &mac_len);
	EVP_EncodeBlock(text, mac, (int)mac_len);
	return suite_text("v1,%s", (char *)text);
}

/* Sends it with this signature (NULL: the right one). Returns the whole answer. */
static char *send_with(struct webhook w, const char *signature)
{
	char *timestamp = suite_text("%ld", (long)time(NULL) - w.age_s), *head, *request;

	w.secret = w.secret ? w.secret : SECRET;
	w.id = w.id ? w.id : "msg_1";
	w.len = w.len ? w.len : strlen(w.body);
	head = suite_text("POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n"
			  "webhook-id: %s\r\nwebhook-timestamp: %s\r\nwebhook-signature: %s\r\n\r\n",
			  w.headers ? w.headers : "", w.len, w.id, timestamp,
			  signature ? signature : sign(&w, timestamp));
	request = malloc(strlen(head) + w.len);
	memcpy(mempcpy(request, head, strlen(head)), w.body, w.len);
	return http_ask(port, request, strlen(head) + w.len, WAIT_MS);
}

static char *send_signed(struct webhook w)
{
	return send_with(w, NULL);
}

#define CREATED "{\"type\":\"user.created\",\"timestamp\":\"2026-03-21T12:00:00Z\",\"data\":{\"n\":0.10}}"
#define ROW \
	"events WHERE event_id = 'msg_1' AND event_type = 'user.created' AND payload->'data'->>'n' = '0.10' " \
	"AND source = 'shop' AND event_time = '2026-03-21T12:00:00Z'"

Test(signed_posts, webhook_without_an_id_of_its_own_is_stored_whole_under_that_of_its_request)
{
	start("");
	http_expect(send_signed((struct webhook){.body = CREATED}),
		    "[\n{\"event_id\":\"msg_1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	cr_assert_eq(bench_count(ROW), 1);
	http_expect(send_signed((struct webhook){.body = CREATED, .age_s = -60}),
		    "[\n{\"event_id\":\"msg_1\",\"status\":\"duplicate\",\"n\":1}\n]\n");
	http_expect(send_signed((struct webhook){.body = "[1, 2]", .id = "msg_2"}),
		    "[\n{\"event_id\":\"msg_2\",\"status\":\"persisted\",\"n\":1}\n]\n");
	cr_assert_eq(bench_count("events WHERE event_id = 'msg_2' AND event_type = '' AND payload = '[1, 2]'"), 1);
	cr_assert_eq(bench_rows(), 2);
}

Test(signed_posts, message_with_an_id_of_its_own_keeps_it)
{
	start("--id-pointer /id --type-pointer /type --payload-pointer /data");
	http_expect(send_signed((struct webhook){.body = "{\"id\":\"evt_1\",\"type\":\"t\",\"data\":{\"n\":1}}"}),
		    "[\n{\"event_id\":\"evt_1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	http_expect(send_signed((struct webhook){.body = "{\"id\":null,\"type\":\"t\",\"data\":{\"n\":1}}"}),
		    "[\n{\"event_id\":\"msg_1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	http_expect(send_signed((struct webhook){.body = "{\"id\":\"a\"}\n{\"id\":\"b\"}"}),
		    "[\n{\"event_id\":\"a\",\"status\":\"persisted\",\"n\":1},\n"
		    "{\"event_id\":\"b\",\"status\":\"persisted\",\"n\":2}\n]\n");
	cr_assert_eq(bench_count("events WHERE event_id = 'evt_1' AND payload = '{\"n\": 1}' AND source = 'shop'"), 1);
	cr_assert(strstr(send_signed((struct webhook){.body = "{\"type\":\"t\"}\n{\"type\":\"u\"}"}), "rejected"));
	cr_assert(strstr(send_signed((struct webhook){.body = "no JSON"}), "rejected"));
	cr_assert_eq(bench_count("dead_letters WHERE sender = 'shop'"), 3);
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_posts_total"), 5);
}

Test(signed_posts, what_the_signature_is_not_of_is_refused_for_one_reason)
{
	start("");
	const struct webhook good = {.body = CREATED};
	const char *answers[] = {
		send_signed((struct webhook){.body = CREATED, .age_s = 310}),
		send_signed((struct webhook){.body = CREATED, .age_s = -310}),
		send_signed((struct webhook){.body = CREATED, .secret = OTHER}),
		send_with(good, sign(&(struct webhook){SECRET, "msg_1", 0, "{}", 2, NULL},
				     suite_text("%ld", (long)time(NULL)))),
		send_with(good, "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="),
	};

	for (int i = 0; i < 5; i++) {
		cr_assert_eq(http_status(answers[i]), 401, "%d: %s", i, answers[i]);
		cr_assert_str_eq(strstr(answers[i], "\r\n\r\n"), strstr(answers[0], "\r\n\r\n"));
	}
	const char *slowed = send_with(good, "v1,x");
	cr_assert(http_status(slowed) == 429 && strstr(slowed, "Retry-After: 1\r\n"), "%s", slowed);
	cr_assert_eq(bench_rows() + bench_count("dead_letters"), 0);
	cr_assert_eq(http_status(send_signed(good)), 200, "a right one waits for nothing");
	cr_assert_eq(listener_metric(listener, "wsonce_ingest_refused_total"), 6);
	cr_assert(!listener_has_logged(listener, "MfKQ9r8"));
}

Test(signed_posts, token_needs_no_signature_and_a_signature_no_token)
{
	static const char request[] = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
				      "Content-Length: 16\r\n\r\n{\"event_id\":\"e\"}";
	char *without = suite_text(request, ""),
	     *with = suite_text(request, "Authorization: Bearer a-token-of-16-bytes\r\n");

	start("--ingest-token a-token-of-16-bytes");
	cr_assert_eq(http_status(http_ask(port, without, strlen(without), WAIT_MS)), 401);
	cr_assert_eq(http_status(http_ask(port, with, strlen(with), WAIT_MS)), 200);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED})), 200);
	cr_assert_eq(
		http_status(send_signed((struct webhook){.body = CREATED, .headers = "Authorization: Basic eDp5\r\n"})),
		200);
	http_expect(send_with((struct webhook){.body = "{\"event_id\":\"f\"}",
					       .headers = "Authorization: Bearer a-token-of-16-bytes\r\n"},
			      "v1,x"),
		    "[\n{\"event_id\":\"f\",\"status\":\"persisted\",\"n\":1}\n]\n");
	int status;
	cr_assert_null(peer_open(listener_ingest_port(listener), "/events", NULL, NULL, &status));
	cr_assert_eq(status, 401, "a secret opens no WebSocket");
}

/* As wsonce sends with bearer-file, or a proxy adds a token. */
Test(signed_posts, webhook_that_shows_a_token_as_well_has_the_id_of_its_request)
{
	const struct webhook both = {.body = CREATED, .headers = "Authorization: Bearer sixteen-bytes-or\r\n"};

	start("--ingest-token sixteen-bytes-or");
	http_expect(send_signed(both), "[\n{\"event_id\":\"msg_1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	http_expect(send_signed(both), "[\n{\"event_id\":\"msg_1\",\"status\":\"duplicate\",\"n\":1}\n]\n");
	cr_expect_eq(bench_count("events WHERE event_id = 'msg_1' AND source = 'default'"), 1);
}

Test(signed_posts, without_tokens_every_request_is_signed)
{
	static const char request[] = "POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
				      "Content-Length: 16\r\n\r\n{\"event_id\":\"e\"}";

	start("");
	cr_assert_eq(http_status(http_ask(port, request, sizeof request - 1, WAIT_MS)), 401);
	cr_assert_eq(bench_rows(), 0);
}

Test(signed_posts, compressed_body_is_signed_as_it_is_sent)
{
	char packed[200];
	z_stream z = {.next_in = (Bytef *)(uintptr_t)CREATED,
		      .avail_in = sizeof CREATED - 1,
		      .next_out = (Bytef *)packed,
		      .avail_out = sizeof packed};
	struct webhook w = {.body = packed, .headers = "Content-Encoding: gzip\r\n"};

	cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	w.len = z.total_out;
	start("");
	cr_assert_eq(http_status(send_signed(w)), 200);
	cr_assert_eq(bench_count(ROW), 1);
	const char *of_text = sign(&(struct webhook){SECRET, "msg_1", 0, CREATED, sizeof CREATED - 1, NULL},
				   suite_text("%ld", (long)time(NULL)));
	cr_assert_eq(http_status(send_with(w, of_text)), 401);
}

Test(signed_posts, secret_is_replaced_without_a_gap)
{
	start("");
	suite_file("secrets", "shop " SECRET "\nshop " OTHER "\n");
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED})), 200);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED, .secret = OTHER})), 200);
	suite_file("secrets", "shop " OTHER "\n");
	process_signal(listener_process(listener), SIGHUP);
	await(listener_has_logged(listener, "event=reloaded"), WAIT_MS);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED})), 401);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED, .secret = OTHER})), 200);
	suite_file("secrets", "shop hunter2\n");
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED, .secret = OTHER})), 200);
	await(listener_has_logged(listener, "cannot reload the tokens, keeping the old ones"), WAIT_MS);
	wait_pause_ms(1000); /* reloads are a second apart */
	process_signal(listener_process(listener), SIGHUP);
	await(listener_has_logged(listener, "cannot reload, keeping all settings"), WAIT_MS);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED, .secret = OTHER})), 200);
	cr_assert(!listener_has_logged(listener, "hunter2"));
}

Test(signed_posts, profile_may_use_the_id_of_the_request)
{
	char *profile = suite_file("sink.json",
				   "{\"name\": \"sink\", \"ack\": 1, \"vars\": {\"webhook_id\": \"\"}, \"rules\": ["
				   "{\"action\": \"event\", \"explode\": \"/list/*\", \"id\": "
				   "[[\"$webhook_id\", \"@\"]]}]}");

	start(suite_text("--ingest-profile %s --ingest-token a-token-of-16-bytes", profile));
	http_expect(send_signed((struct webhook){.body = "{\"list\":[5,6]}"}),
		    "[\n{\"event_id\":\"msg_1|0\",\"status\":\"persisted\",\"n\":1},\n"
		    "{\"event_id\":\"msg_1|1\",\"status\":\"persisted\",\"n\":1}\n]\n");
	cr_assert(strstr(send_with((struct webhook){.body = "{\"list\":[7]}",
						    .headers = "Authorization: Bearer a-token-of-16-bytes\r\n"},
				   "v1,x"),
			 "rejected"),
		  "the id of a request that is not signed was used");
}

/* A size that is not charged would be taken off when the body is freed. */
Test(signed_posts, empty_body_leaves_the_account_of_bodies_right)
{
	start("");
	for (int i = 0; i < 5; i++)
		cr_assert_eq(http_status(send_signed((struct webhook){.body = ""})), 400);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = "", .secret = OTHER})), 401);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = "", .headers = "Content-Encoding: gzip\r\n"})),
		     400);
	cr_assert_eq(http_status(send_signed((struct webhook){.body = CREATED})), 200);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

/* A client that has proved nothing makes room, however small its body is. */
Test(signed_posts, unsigned_bodies_do_not_push_out_those_of_a_token)
{
	char *half = malloc(59000),
	     *head = suite_text("POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n"
				"Authorization: Bearer a-token-of-16-bytes\r\n\r\n"),
	     *stranger = suite_text("POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\nwebhook-id: a\r\n"
				    "webhook-timestamp: %ld\r\nwebhook-signature: v1,x\r\n\r\n",
				    (long)time(NULL)),
	     answer[400] = "";
	int fd, strangers[20];

	memset(half, ' ', 59000);
	start("--ingest-token a-token-of-16-bytes --max-message 64KiB --max-inflight-bytes 2MiB");
	fd = port_connect(port, WAIT_MS);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	cr_assert(write(fd, head, strlen(head)) > 0 && write(fd, half, 59000) == 59000);
	for (int i = 0; i < 20; i++) {
		strangers[i] = port_connect(port, WAIT_MS);
		fcntl(strangers[i], F_SETFL, fcntl(strangers[i], F_GETFL) & ~O_NONBLOCK);
		cr_assert(write(strangers[i], stranger, strlen(stranger)) > 0 &&
			  write(strangers[i], half, 30000) == 30000);
	}
	await(listener_metric(listener, "wsonce_in_flight_bytes") > 0, WAIT_MS);
	cr_assert_eq(write(fd, "{\"event_id\":\"e\"}", 16), 16);
	cr_assert_eq(write(fd, half, 984), 984);
	cr_assert_gt(read(fd, answer, sizeof answer - 1), 0);
	cr_assert_eq(http_status(answer), 200, "%s", answer);
	close(fd);
	for (int i = 0; i < 20; i++)
		close(strangers[i]);
	await(listener_metric(listener, "wsonce_in_flight_bytes") == 0, WAIT_MS);
}

/* Each secret reads the whole body, and strangers may send as many bodies as they like. */
Test(signed_posts, while_secrets_are_tried_others_are_served)
{
	const char *head = suite_text("POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nwebhook-id: a\r\n"
				      "webhook-timestamp: %ld\r\nwebhook-signature: v1,x\r\n\r\n",
				      (long)time(NULL));
	char *body = malloc(999999), lines[16 * 60] = "", answer[20000] = "";
	int fd, admin, unsent;
	size_t len = 0;

	memset(body, ' ', 999999);
	for (int i = 0; i < 16; i++)
		strcat(lines, "shop " OTHER "\n");
	secrets = suite_file("secrets", lines);
	start("");
	fd = port_connect(port, WAIT_MS);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	cr_assert(write(fd, head, strlen(head)) > 0 && write(fd, body, 999999) == 999999);
	await(ioctl(fd, SIOCOUTQ, &unsent) == 0 && !unsent, WAIT_MS);
	process_signal(listener_process(listener), SIGSTOP);
	cr_assert_eq(write(fd, body, 1), 1);
	admin = port_connect(listener_admin_port(listener), WAIT_MS);
	fcntl(admin, F_SETFL, fcntl(admin, F_GETFL) & ~O_NONBLOCK);
	dprintf(admin, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	process_signal(listener_process(listener), SIGCONT);
	for (ssize_t n; (n = read(admin, answer + len, sizeof answer - 1 - len)) > 0;)
		len += (size_t)n;
	cr_assert(strstr(answer, "\nwsonce_ingest_refused_total 0\n"), "the body was verified first");
	cr_assert_gt(read(fd, answer, sizeof answer - 1), 0);
	cr_assert_eq(http_status(answer), 401, "%s", answer);
	close(fd);
	close(admin);
}
