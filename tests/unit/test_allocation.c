/* Every allocation of a module fails once: the module says so as its header tells, leaks nothing (the
 * sanitized build sees to that), and works again. */
#include "unit.h"
#include <uv.h>

#include "postgres/array.h"
#include "road/batch.h"
#include "road/claim.h"
#include "redis/resp.h"
#include "config/config.h"
#include "outbox/delivery.h"
#include "road/envelope.h"
#include "road/event.h"
#include "failing_alloc.h"
#include "net/frame.h"
#include "road/hold.h"
#include "base/log.h"
#include "road/mark_queue.h"
#include "net/refused_peers.h"
#include "outbox/relay.h"
#include "postgres/schema.h"
#include "road/store.h"
#include "net/tls.h"
#include "net/upgrade.h"
#include "base/url.h"
#include "view.h"

#define EVENTS 500 /* enough for the table to grow twice */

TestSuite(allocation, .timeout = 240);

/* --- bytes --- */

static bool write_array(void)
{
	struct array a = {NULL, 0, 0, ARRAY_TEXT};
	char text[200] = "";
	bool is_whole;

	array_start(&a, ARRAY_TEXT, 40);
	for (int i = 0; i < 40; i++)
		array_add(&a, text, (size_t)i * 4);
	array_add_null(&a);
	array_add_text(&a, text, 10, true);
	is_whole = a.len == 20 + 40 * 4 + 4 * 780 + 4 + 14;
	cr_assert(is_whole || !a.len, "%zu bytes of an array", a.len);
	array_free(&a);
	return is_whole;
}

Test(allocation, array_without_memory_is_empty)
{
	cr_assert_gt(failing_alloc_sweep(write_array), 3);
}

static bool write_command(void)
{
	struct resp c = {NULL, 0, 0};
	bool is_whole;

	resp_start(&c, 41);
	for (int i = 0; i < 40; i++)
		resp_word(&c, "a word of some length");
	resp_number(&c, 12);
	is_whole = c.len == 5 + 40 * 28 + 8;
	cr_assert(is_whole || !c.len, "%zu bytes of a command", c.len);
	resp_free(&c);
	return is_whole;
}

Test(allocation, command_without_memory_is_empty)
{
	cr_assert_gt(failing_alloc_sweep(write_command), 3);
}

/* --- a dialled feed --- */

static bool start_feed(void)
{
	static const struct frames_reader nobody;
	struct url url;
	struct upgrade *upgrade = url_parse(&url, "ws://me:pass@h/") ? NULL : upgrade_new(&url);
	struct frames *frames = frames_new(&nobody, NULL);
	bool ok = upgrade && frames;

	frames_free(frames);
	upgrade_free(upgrade);
	url_clear(&url);
	return ok;
}

Test(allocation, a_feed_without_memory_is_not_there)
{
	cr_assert_gt(failing_alloc_sweep(start_feed), 5);
}

static bool start_tls(void)
{
	struct tls_trust *trust = tls_trust_new("/etc/ssl/certs/ca-certificates.crt");
	struct tls *tls = trust ? tls_new(trust, "example.com") : NULL;
	bool ok = tls;

	tls_free(tls);
	tls_trust_free(trust);
	return ok;
}

Test(allocation, tls_without_memory_is_not_there)
{
	cr_assert_eq(failing_alloc_sweep(start_tls), 2);
}

static bool owe(void)
{
	struct mark_queue o = {NULL, 0, 0, 0};
	char kept[60], name;
	struct queued_mark mark = {&name, 1, false, 1, 0};
	int n = 0;

	for (name = 'A'; name <= 'z'; name++)
		if (mark_queue_add(&o, &mark) == 0)
			kept[n++] = name;
	for (int i = 0; i < n; i++)
		cr_assert(mark_queue_take(&o, &mark) && mark.len == 1 && mark.id[0] == kept[i]);
	cr_assert_not(mark_queue_take(&o, &mark));
	mark_queue_free(&o);
	return n == 'z' - 'A' + 1;
}

Test(allocation, mark_that_cannot_be_kept_leaves_the_others_as_they_are)
{
	cr_assert_gt(failing_alloc_sweep(owe), 3);
}

static bool open_batch(void)
{
	struct batch b;

	if (batch_init(&b, 10, 1000))
		return false;
	batch_free(&b);
	return true;
}

Test(allocation, batch_without_memory_is_an_error)
{
	cr_assert_eq(failing_alloc_sweep(open_batch), 1);
}

static bool write_upgrade(void)
{
	char *sql = schema_upgrade_sql(0);

	if (!sql)
		return false;
	cr_assert_str_eq(sql + strlen(sql) - 6, "COMMIT");
	free(sql);
	return true;
}

Test(allocation, schema_upgrade_is_whole_or_not_there)
{
	cr_assert_geq(failing_alloc_sweep(write_upgrade), 1);
}

/* --- settings --- */

static bool read_urls(void)
{
	struct url url, address;
	char *shown = url_redact("redis://me:secret@host:1/2?x=y");
	bool is_parsed = url_parse(&url, "redis://me:secret@host:1/2") == 0;
	bool is_address = url_parse_address(&address, "127.0.0.1:80") == 0;

	if (shown)
		cr_assert_str_eq(shown, "redis://***@host:1/2?***");
	if (is_parsed)
		cr_assert_str_eq(url.password, "secret");
	if (is_address)
		cr_assert_eq(address.port, 80);
	cr_assert_eq(is_parsed, url.text != NULL);
	cr_assert_eq(is_address, address.text != NULL);
	url_clear(&url);
	url_clear(&address);
	is_parsed &= is_address && shown;
	free(shown);
	return is_parsed;
}

Test(allocation, url_without_memory_is_an_error_without_text)
{
	cr_assert_eq(failing_alloc_sweep(read_urls), 3);
}

static char settings_file[] = "/tmp/wsonce-settings-XXXXXX";

static bool read_settings(void)
{
	char *args[] = {"listen",     "--config",          settings_file,    "--source",
			"ws://a/1",   "--source=ws://b/2", "--redis",        "redis://u:p@h/1",
			"--postgres", "host=h dbname=d",   "--ingest",       "127.0.0.1:0",
			"--admin",    "unix:/a",           "--ingest-token", "t"};
	struct config c;
	char error[300] = "";
	bool is_read = config_read(&c, sizeof(args) / sizeof(args[0]), args, error, sizeof(error)) == 0;

	cr_assert(is_read || strstr(error, "out of memory"), "the error is: %s", error);
	if (is_read)
		cr_assert(c.sources.count == 2 && c.id_pointers.count == 2 && strcmp(c.redis, "redis://u:p@h/1") == 0);
	config_free(&c);
	return is_read;
}

Test(allocation, settings_without_memory_are_no_wrong_settings)
{
	static const char text[] = "{\"id-pointer\": [\"/a\", \"/b\"], \"claim-prefix\": \"p:\", \"batch-max\": 5}";
	int fd = mkstemp(settings_file);

	cr_assert_eq(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	setenv("WSONCE_TYPE_POINTER", "/t", 1);
	setenv("WSONCE_SOURCE", "ws://c,ws://d", 1);
	cr_assert_gt(failing_alloc_sweep(read_settings), 20);
	unlink(settings_file);
}

/* --- messages --- */

static char long_message[20000], deep_message[3000];
static const char *const bad_message = "{\"event_id\": \"a\", \"payload\": [1,]}";

/* Strings with escapes, which are decoded, and many levels: more than the reader has at hand. */
static void write_messages(void)
{
	size_t n = (size_t)sprintf(long_message, "{\"event_id\":\"\\u0041b\",\"event_type\":\"");

	while (n < 17000)
		n += (size_t)sprintf(long_message + n, "caf\\u00e9 ");
	sprintf(long_message + n, "\",\"payload\":[1]}");
	n = (size_t)sprintf(deep_message, "{\"event_id\":\"deep\",\"payload\":");
	memset(deep_message + n, '[', 1000);
	memset(deep_message + n + 1000, ']', 1000);
	strcpy(deep_message + n + 2000, "}");
}

static bool read_message(struct envelope *e, const char *message, const char *id)
{
	struct envelope_view view;
	const char *why = envelope_read(e, message, strlen(message), &view);

	cr_assert(!why || why == envelope_no_memory, "memory was out, and the message is said to be wrong: %s", why);
	cr_assert(why || (view.id.len == strlen(id) && memcmp(view.id.at, id, view.id.len) == 0));
	return !why;
}

static bool refuse_message(struct envelope *e)
{
	struct envelope_view view;
	const char *why = envelope_read(e, bad_message, strlen(bad_message), &view);

	cr_assert(why && (why == envelope_no_memory || strncmp(why, "not JSON: parse error", 21) == 0), "%s", why);
	return why != envelope_no_memory;
}

static bool read_messages(void)
{
	static char *ids[] = {"/event_id"};
	const struct config_list pointers = {ids, 1};
	struct envelope *e = envelope_new(&pointers, "/event_type", "/payload");
	bool is_read;

	if (!e)
		return false;
	is_read = read_message(e, long_message, "Ab");
	is_read &= read_message(e, deep_message, "deep");
	is_read &= refuse_message(e);
	is_read &= read_message(e, "{\"event_id\":\"next\"}", "next");
	envelope_free(e);
	return is_read;
}

Test(allocation, message_without_memory_is_no_wrong_message)
{
	write_messages();
	cr_assert_gt(failing_alloc_sweep(read_messages), 12);
}

static void on_answer(struct sender *s, const struct event *ev, enum outcome outcome)
{
	(void)s, (void)ev, (void)outcome;
}

static struct event *add_event(struct events *es, int number, char id[20])
{
	sprintf(id, "id-%d", number);
	struct envelope_view view = view_of(id, "t", "{}");
	size_t bytes = es->bytes, messages = es->messages;
	struct event *ev = event_new(es, EV_CLAIMING, "message", 7, &view, NULL, 0);

	cr_assert_eq(find_event(es, id), ev, "an event that there is no memory for is in the table");
	cr_assert(ev || (es->bytes == bytes && es->messages == messages));
	return ev;
}

/* A digest, a reason, one more copy, the way to the end. */
static bool use_event(struct events *es, struct event *ev)
{
	static struct sender sender = {.answer = on_answer};
	static const uint8_t digest[32];
	unsigned int copies = ev->copies;
	bool worked = event_set_digest(ev, digest) == 0, is_added = event_add_copy(es, ev, &sender) == 0;

	cr_assert_eq(ev->copies, copies + is_added);
	event_set_reason(ev, "first");
	event_set_reason(ev, "a reason");
	worked &= is_added && ev->reason && strcmp(ev->reason, "a reason") == 0;
	event_move(es, ev, EV_DONE);
	event_finish(es, ev, OUTCOME_PERSISTED);
	return worked;
}

static bool keep_events(void)
{
	struct events es;
	bool worked = true;
	char id[20];

	events_init(&es);
	for (int i = 0; i < EVENTS; i++)
		worked &= add_event(&es, i, id) != NULL;
	cr_assert_eq(es.counts[EV_CLAIMING], es.messages);
	cr_assert_geq(es.messages, EVENTS - 1);
	cr_assert_eq(es.in_table, es.messages);
	for (int i = 0; i < EVENTS; i++) {
		sprintf(id, "id-%d", i);
		struct event *ev = find_event(&es, id);

		if (ev && i % 100 == 0)
			worked &= use_event(&es, ev);
	}
	events_clear(&es);
	cr_assert(!es.bytes && !es.messages && !es.in_table && !es.table);
	return worked;
}

Test(allocation, event_without_memory_is_in_no_table_and_in_no_list)
{
	cr_assert_gt(failing_alloc_sweep(keep_events), EVENTS + 20);
}

/* Only the memory of who was refused is lost. */
static bool refuse_producers(void)
{
	struct refused_peers *r = refused_peers_new();

	refused_peers_log(r, &(struct refusal){.peer = "10.0.0.1", .status = 401}, 100000);
	refused_peers_log(r, &(struct refusal){.peer = "10.0.0.2", .status = 401}, 100001);
	refused_peers_log(r, &(struct refusal){.peer = "10.0.0.3", .status = 404}, 200000);
	refused_peers_free(r);
	return true;
}

Test(allocation, refused_producer_is_refused_without_memory)
{
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	cr_assert_gt(failing_alloc_sweep(refuse_producers), 5);
}

/* --- what has to work when nothing else does --- */

static bool hold_and_log(void)
{
	struct hold h;
	struct event ev = {.looks = 3};

	hold_init(&h);
	hold_add(&h, &ev, 0, hold_look_step(&ev, 30000));
	cr_assert_eq(hold_due(&h, 100000), &ev);
	log_setup(LOG_ERROR, LOG_JSON, "an instance");
	log_error("out of memory", "library=%s bytes=%zu", "a \"library\"", (size_t)12);
	return true;
}

Test(allocation, hold_and_log_need_no_memory)
{
	cr_assert_eq(failing_alloc_sweep(hold_and_log), 0);
}

/* --- stages, as far as they go without a server --- */

static struct config stage_config = {
	.consumer = "",
	.redis = "unix:///nonexistent/redis.sock",
	.redis_timeout_ms = 1000,
	.postgres = "host=/nonexistent",
	.postgres_timeout_ms = 1000,
	.instance_id = "me",
	.claim_prefix = "dedup:",
	.batch_max = 10,
};

static void on_closed(void *arg)
{
	*(bool *)arg = true;
}

static void finish_loop(uv_loop_t *loop)
{
	uv_run(loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(loop), 0, "a handle is left");
}

static void run_once(uv_loop_t *loop)
{
	for (int i = 0; i < 3; i++)
		uv_run(loop, UV_RUN_NOWAIT);
}

static bool open_claim(void)
{
	const struct claim_callbacks on = {.arg = NULL};
	char error[200] = "";
	bool is_closed = false;
	struct claim *c;
	uv_loop_t loop;

	uv_loop_init(&loop);
	c = claim_open(&loop, &stage_config, &on, error, sizeof(error));
	if (c) {
		run_once(&loop);
		claim_close(c, on_closed, &is_closed);
	} else {
		cr_assert_str_eq(error, "out of memory");
	}
	finish_loop(&loop);
	cr_assert_eq(is_closed, c != NULL);
	return c;
}

Test(allocation, claim_without_memory_says_so_and_leaves_no_handle)
{
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	cr_assert_gt(failing_alloc_sweep(open_claim), 4);
	stage_config.redis = "none";
	cr_assert_gt(failing_alloc_sweep(open_claim), 2);
}

static bool open_store(void)
{
	const struct store_callbacks on = {.arg = NULL};
	bool is_closed = false;
	struct store *s;
	uv_loop_t loop;

	uv_loop_init(&loop);
	s = store_open(&loop, &stage_config, &on);
	if (s) {
		run_once(&loop);
		store_close(s, on_closed, &is_closed);
	}
	finish_loop(&loop);
	cr_assert_eq(is_closed, s != NULL);
	return s;
}

Test(allocation, store_without_memory_is_an_error_and_leaves_no_handle)
{
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	cr_assert_geq(failing_alloc_sweep(open_store), 5);
}

static struct webhook stage_webhook = {
	.name = (char *)"shop",
	.url = (char *)"http://127.0.0.1:1/",
	.timeout_ms = 5000,
	.concurrency = 1,
	.attempts = 1,
	.secret_count = 1,
};

static bool open_relay(void)
{
	bool is_closed = false;
	struct relay *r;
	uv_loop_t loop;

	stage_config.webhooks = (struct webhooks){&stage_webhook, 1};
	uv_loop_init(&loop);
	r = relay_open(&loop, &stage_config);
	if (r) {
		run_once(&loop);
		relay_close(r, on_closed, &is_closed);
	}
	finish_loop(&loop);
	cr_assert_eq(is_closed, r != NULL);
	return r;
}

Test(allocation, relay_without_memory_is_an_error_and_leaves_no_handle)
{
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	cr_assert_geq(failing_alloc_sweep(open_relay), 4);
}

static void on_delivered(void *arg, const struct target_answer *answer)
{
	cr_assert_eq(answer->status, 0);
	cr_assert_str_neq(answer->reason, "");
	++*(int *)arg;
}

/* Nobody listens there. A socket that cannot be watched for want of memory ends by the timeout. */
static bool deliver(void)
{
	const struct delivery_request request = {&stage_webhook, "msg_1", "1614265330", "{}", 2};
	struct deliveries *all;
	struct delivery *d;
	bool is_closed = false;
	int answers = 0;
	uv_loop_t loop;

	uv_loop_init(&loop);
	all = deliveries_open(&loop, 1);
	d = all ? delivery_send(all, &request, on_delivered, &answers) : NULL;
	while (d && !answers)
		uv_run(&loop, UV_RUN_ONCE);
	if (all)
		deliveries_close(all, on_closed, &is_closed);
	finish_loop(&loop);
	cr_assert_eq(answers, d != NULL);
	cr_assert_eq(is_closed, all != NULL);
	return d;
}

Test(allocation, request_without_memory_is_not_begun_or_ends_by_its_timeout)
{
	stage_webhook.timeout_ms = 100;
	cr_assert_geq(failing_alloc_sweep(deliver), 2);
}
