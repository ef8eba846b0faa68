/* Redis servers and commands to them, by hiredis' blocking calls. */
#include "redisd.h"
#include "support.h"

#include <hiredis.h>

#define START_MS  20000
#define STOP_MS   10000
#define ANSWER_MS 10000

struct redisd {
	int port;
	int number;      /* database number */
	char *directory; /* NULL for the shared server, which tests/support/run starts and stops */
	char *socket;
	char *url;
	char *unix_url;
	const char *const *options;
	struct process *process; /* NULL while stopped, and for the shared server */
	redisContext *context;   /* NULL before the first command and after a broken connection */
};

static struct redisd *new_handle(int port, const char *socket, int number)
{
	struct redisd *r = calloc(1, sizeof *r);

	r->port = port;
	r->number = number;
	r->socket = strdup(socket);
	r->url = suite_text("redis://127.0.0.1:%d/%d", port, number);
	r->unix_url = suite_text("unix://%s", socket);
	return r;
}

static void disconnect(struct redisd *r)
{
	if (r->context)
		redisFree(r->context);
	r->context = NULL;
}

static void remove_files(void *directory)
{
	suite_remove(directory);
}

struct redisd *redisd_new(void)
{
	static const char *const none[] = {NULL};

	return redisd_new_with(none);
}

struct redisd *redisd_new_with(const char *const *options)
{
	char *directory = suite_path("redis%d", suite_number());
	char *socket = suite_text("%s/redis.sock", directory);
	if (mkdir(directory, 0755) == -1)
		cr_assert_fail("cannot make %s: %s", directory, strerror(errno));
	struct redisd *r = new_handle(port_reserve(), socket, 0);
	r->directory = directory;
	r->options = options;
	suite_at_end(remove_files, directory);
	signal(SIGPIPE, SIG_IGN); /* hiredis writes to connections that the server has closed, as at a failover */
	redisd_start(r);
	return r;
}

/* A database of its own, because scanning the keys of all tests would keep Redis from answering them. */
struct redisd *redisd_shared(void)
{
	static struct redisd *shared;

	if (!shared) {
		const char *socket = suite_env("WSONCE_TEST_REDIS_SOCKET");
		int port = atoi(strrchr(suite_env("WSONCE_TEST_REDIS"), ':') + 1);
		struct redisd *all = new_handle(port, socket, 0);

		shared = new_handle(port, socket, (int)redisd_long(all, "INCR databases"));
		disconnect(all);
	}
	return shared;
}

const char *redisd_prefix(void)
{
	static char prefix[64];

	/* mkdtemp made the directory's last six letters unique for this run */
	if (!prefix[0])
		snprintf(prefix, sizeof prefix, "%s:", strrchr(suite_directory(), '/') + 1);
	return prefix;
}

const char *redisd_url(const struct redisd *r)
{
	return r->url;
}

const char *redisd_unix_url(const struct redisd *r)
{
	return r->unix_url;
}

int redisd_port(const struct redisd *r)
{
	return r->port;
}

static void connect_once(struct redisd *r)
{
	int64_t ms = wait_stretch_ms(ANSWER_MS);
	struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	disconnect(r);
	r->context = redisConnectUnixWithTimeout(r->socket, limit);
	if (!r->context || r->context->err)
		return;
	redisSetTimeout(r->context, limit);
	if (r->number)
		freeReplyObject(redisCommand(r->context, "SELECT %d", r->number));
}

/* Does it answer PING? "LOADING" is not an answer. */
static bool is_answering(struct redisd *r)
{
	if (r->process && !process_is_alive(r->process)) {
		char *log = process_output(r->process); /* Redis logs errors to standard output */
		cr_assert_fail("Redis has ended instead of starting: %s", log);
	}
	if (!r->context || r->context->err)
		connect_once(r);
	if (!r->context || r->context->err)
		return false;
	redisReply *reply = redisCommand(r->context, "PING");
	bool ok = reply && reply->type == REDIS_REPLY_STATUS;
	if (reply)
		freeReplyObject(reply);
	return ok;
}

static void must_be_ours(const struct redisd *r)
{
	if (!r->directory)
		cr_assert_fail("the shared Redis is for all tests: use redisd_new() to stop and start one");
}

static void must_be_running(const struct redisd *r)
{
	must_be_ours(r);
	cr_assert_not_null(r->process, "Redis is not running");
}

const char *redisd_program(void)
{
	const char *name = getenv("WSONCE_TEST_REDIS_SERVER");

	return name ? name : "redis-server";
}

void redisd_start(struct redisd *r)
{
	char port[16];
	/* if a name such as localhost has two addresses, sentinels use the first */
	const char *argv[60] = {
		redisd_program(), "--port", port,          "--bind", "127.0.0.1", "-::1",         "--unixsocket",
		r->socket,        "--dir",  r->directory,  "--save", "",          "--appendonly", "no",
		"--daemonize",    "no",     "--databases", "16",     NULL};
	size_t n = 0, count = 0;

	while (argv[n])
		n++;
	while (r->options && r->options[count])
		count++;
	cr_assert_lt(n + count, sizeof argv / sizeof *argv);
	memcpy(argv + n, r->options, count * sizeof *argv);
	must_be_ours(r);
	cr_assert_null(r->process, "redisd_start: it is running");
	snprintf(port, sizeof port, "%d", r->port);
	r->process = process_start(&(struct process_options){.argv = argv});
	if (!wait_until(is_answering(r), START_MS))
		cr_assert_fail("Redis does not answer: %s", process_last_words(r->process));
}

static void end(struct redisd *r, int signo)
{
	must_be_running(r);
	process_signal(r->process, signo);
	if (process_wait(r->process, STOP_MS) == -1)
		cr_assert_fail("Redis did not stop");
	process_free(r->process);
	r->process = NULL;
	disconnect(r);
}

void redisd_stop(struct redisd *r)
{
	end(r, SIGTERM);
}

void redisd_kill(struct redisd *r)
{
	end(r, SIGKILL);
}

void redisd_restart(struct redisd *r)
{
	redisd_stop(r);
	redisd_start(r);
}

void redisd_pause(struct redisd *r)
{
	must_be_running(r);
	process_signal(r->process, SIGSTOP);
}

void redisd_resume(struct redisd *r)
{
	must_be_running(r);
	process_signal(r->process, SIGCONT);
}

static char *text_of(const redisReply *reply)
{
	char *text = NULL, *longer;

	switch (reply->type) {
	case REDIS_REPLY_INTEGER:
		text = suite_text("%lld", reply->integer);
		return text;
	case REDIS_REPLY_NIL:
		return NULL;
	case REDIS_REPLY_ARRAY:
		text = strdup("");
		for (size_t i = 0; i < reply->elements; i++) {
			char *element = text_of(reply->element[i]);

			longer = suite_text("%s%s%s", text, i ? "\n" : "", element ? element : "(nil)");
			text = longer;
		}
		return text;
	default:
		return strndup(reply->str, reply->len);
	}
}

static redisReply *ask(struct redisd *r, const char *fmt, va_list args)
{
	va_list again;
	redisReply *reply;

	if (!wait_until(is_answering(r), ANSWER_MS)) /* also finds a connection that broke since */
		cr_assert_fail("Redis at %s does not answer", r->url);
	va_copy(again, args);
	reply = redisvCommand(r->context, fmt, again);
	va_end(again);
	return reply;
}

/* Sentinel closes ordinary connections to a master that it demotes, at any time, so a GET is sent again. */
static char *run(struct redisd *r, const char *fmt, va_list args)
{
	redisReply *reply = ask(r, fmt, args);

	if (!reply && strncmp(fmt, "GET ", strlen("GET ")) == 0)
		reply = ask(r, fmt, args);
	if (!reply)
		cr_assert_fail("Redis did not answer '%s': %s", fmt, r->context->errstr);
	if (reply->type == REDIS_REPLY_ERROR)
		cr_assert_fail("Redis answered '%s' by: %s", fmt, reply->str);
	char *text = text_of(reply);
	freeReplyObject(reply);
	return text;
}

char *redisd_command(struct redisd *r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *text = run(r, fmt, args);
	va_end(args);
	return text;
}

long redisd_long(struct redisd *r, const char *fmt, ...)
{
	va_list args;
	char *end;

	va_start(args, fmt);
	char *text = run(r, fmt, args);
	va_end(args);
	long value = text ? strtol(text, &end, 10) : 0;
	if (!text || end == text || *end)
		cr_assert_fail("Redis answered '%s' by '%s' instead of a number", fmt, text ? text : "(nil)");
	return value;
}

long redisd_count(struct redisd *r, const char *prefix)
{
	const char *script = "local n = 0 local at = '0' repeat local page = redis.call('SCAN', at, 'MATCH', ARGV[1] "
			     ".. '*', 'COUNT', 1000) at = page[1] n = n + #page[2] until at == '0' return n";

	return redisd_long(r, "EVAL %s 0 %s", script, prefix);
}
