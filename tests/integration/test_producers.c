/* The producers of docs/producers.md, extracted from the page: all events are stored once although the listener is
 * killed. */
#include "support.h"
#include "bench.h"

#define WAIT_MS 60000

static int ingest, http;

static void start_with(const char *options)
{
	listener = listener_start(&(struct listener_options){.database = db, .ingest_port = ingest},
				  "--ingest-http 127.0.0.1:%d%s", http, options);
}

static void start(void)
{
	start_with("");
}

static void set_up(void)
{
	bench_open();
	ingest = port_reserve();
	http = port_reserve();
	start();
}

TestSuite(producers, .init = set_up, .fini = bench_close, .timeout = 300);

static char *replace(char *text, const char *old, int new_port)
{
	char *at = strstr(text, old);

	cr_assert_not_null(at, "the page has no %s", old);
	char *number = suite_text("%d", new_port);
	return suite_text("%.*s%s%s", (int)(at - text), text, number, at + strlen(old));
}

/* Returns the code in this language, with the ports of this test. */
static char *code_of(const char *language, const char *page_port, int own_port)
{
	char *fence = suite_text("\n```%s\n", language), *begin = strstr(suite_read("docs/producers.md"), fence);
	char *end = begin ? strstr(begin + strlen(fence), "\n```") : NULL;
	cr_assert(begin && end, "no %s in the page", language);
	end[1] = '\0';
	return replace(begin + strlen(fence), page_port, own_port);
}

/* Expects it to succeed although the listener is killed in between and started again. */
static void expect_all_stored(struct process *producer_process, const char *prefix, int count)
{
	await(bench_rows() > 0, WAIT_MS, "%s", process_last_words(producer_process));
	listener_kill(listener);
	listener_free(listener);
	start();
	cr_assert_eq(process_wait(producer_process, WAIT_MS), 0, "%s", process_last_words(producer_process));
	cr_assert_eq(bench_count("events WHERE event_id LIKE '%s-%%'", prefix), count);
	cr_assert_eq(bench_rows(), count);
	cr_assert_eq(bench_count("dead_letters"), 0);
}

/* Only Debian's python3 has the modules; another may come first in PATH. */
static struct process *start_python(void)
{
	char *path = suite_file("producer.py", code_of("python", "8080", ingest));

	return process_start_argv((const char *const[]){"/usr/bin/python3", path, NULL}, NULL);
}

/* Node before 22 has no WebSocket, or only behind a switch; Debian's module is in its own folder. */
static struct process *start_node(void)
{
	static const char first[] = "if (!globalThis.WebSocket) globalThis.WebSocket = require('ws');\n";
	char *path = suite_file("producer.js", suite_text("%s%s", first, code_of("js", "8080", ingest)));
	const char *const env[] = {"NODE_PATH=/usr/share/nodejs:/usr/lib/nodejs", NULL};
	bool has_switch = system("node --experimental-websocket -e 0 2>/dev/null") == 0;

	return process_start_argv((const char *const[]){"node", has_switch ? "--experimental-websocket" : path,
							has_switch ? path : NULL, NULL},
				  env);
}

static struct process *start_shell(void)
{
	char *code = code_of("sh", "8081", http), *at, events[4000], *path;

	at = events;
	for (int i = 0; i < 50; i++)
		at += sprintf(at, "{\"event_id\":\"sh-%d\"}\n", i);
	path = suite_file("events.ndjson", events);
	code = suite_text("cd \"$(dirname %s)\"\n%s", path, code);
	return process_start_argv((const char *const[]){"/bin/sh", "-c", code, NULL}, NULL);
}

Test(producers, python_of_the_page_loses_and_doubles_nothing)
{
	expect_all_stored(start_python(), "py", 1000);
}

Test(producers, javascript_of_the_page_loses_and_doubles_nothing)
{
	expect_all_stored(start_node(), "js", 1000);
}

Test(producers, shell_of_the_page_waits_for_the_commit)
{
	expect_all_stored(start_shell(), "sh", 50);
}

Test(producers, webhook_of_the_page_is_stored_under_its_id)
{
	char *secrets = suite_file("secrets", "shop whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), *code;

	listener_kill(listener);
	listener_free(listener);
	start_with(suite_text(" --ingest-webhook-secret-file %s", secrets));
	code = suite_text("cd \"$(dirname %s)\"\n%s", secrets, code_of("bash", "8081", http));
	struct process *one = process_start_argv((const char *const[]){"/bin/sh", "-c", code, NULL}, NULL);
	cr_assert_eq(process_wait(one, WAIT_MS), 0, "%s", process_last_words(one));
	cr_assert_eq(bench_count("events WHERE event_id = 'msg_1' AND event_type = 'order.paid' AND source = 'shop' "
				 "AND payload->'data'->>'order' = '1004'"),
		     1);
}

static void start_with_token(void)
{
	listener_kill(listener);
	listener_free(listener);
	start_with(" --ingest-token 0123456789abcdef0123456789abcdef");
}

static void expect_stopped(struct process *one, const char *words)
{
	cr_expect_eq(process_wait(one, WAIT_MS), 1, "%s", process_last_words(one));
	cr_expect(strstr(process_last_words(one), words), "%s", process_last_words(one));
}

Test(producers, those_of_the_page_stop_when_they_are_refused)
{
	start_with_token();
	expect_stopped(start_python(), "HTTP 401");
	expect_stopped(start_node(), "cannot be connected to, or refuses: 401");
	expect_stopped(start_shell(), "refused with 401");
	cr_expect_eq(bench_rows(), 0);
}

Test(producers, those_of_the_page_stop_when_a_message_is_too_long)
{
	listener_kill(listener);
	listener_free(listener);
	start_with(" --max-message 64");
	expect_stopped(start_python(), "received 1009");
	expect_stopped(start_node(), "refuses: 1009");
	expect_stopped(start_shell(), "refused with 413");
}

Test(producers, those_of_the_page_stop_when_they_are_refused_later)
{
	database_slow_down(db, 100);
	struct process *python = start_python(), *node = start_node(), *shell = start_shell();

	await(bench_metric("wsonce_received_total") == 2050, WAIT_MS, "%g", bench_metric("wsonce_received_total"));
	start_with_token();
	expect_stopped(python, "HTTP 401");
	expect_stopped(node, "refuses: 401");
	expect_stopped(shell, "refused with 401");
}
