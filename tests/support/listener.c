/* A `wsonce listen` process: its command line, its ports, its admin endpoints. */
#include "listener.h"
#include "support.h"

#define READY_MS 15000
#define STOP_MS  30000
#define HTTP_MS  5000
#define ARGS_MAX 100

struct listener {
	struct process *process;
	int ingest_port;
	int admin_port;
	bool is_redis_away;
};

/* A command line being built; owns its strings. */
struct command {
	char *argv[ARGS_MAX + 1];
	int argc;
};

static void add(struct command *c, const char *word)
{
	cr_assert_lt(c->argc, ARGS_MAX, "too many arguments for a listener");
	c->argv[c->argc++] = strdup(word);
}

static void add_option(struct command *c, const char *flag, const char *value)
{
	if (!value)
		return;
	add(c, flag);
	add(c, value);
}

static void add_address(struct command *c, const char *flag, int port)
{
	char address[32];

	snprintf(address, sizeof address, "127.0.0.1:%d", port);
	add_option(c, flag, address);
}

static void add_words(struct command *c, char *text)
{
	char *at;

	for (char *word = strtok_r(text, " ", &at); word; word = strtok_r(NULL, " ", &at))
		add(c, word);
}

static void add_options(struct command *c, const struct listener *l, const struct listener_options *o)
{
	const char *program = getenv("WSONCE_TEST_BIN");
	bool is_claiming = !o->redis || strcmp(o->redis, "none") != 0;

	if (!o->postgres && !o->database)
		cr_assert_fail("listener_start needs .database or .postgres");
	add(c, program ? program : "build/wsonce");
	add(c, "listen");
	add_option(c, o->postgres && strncmp(o->postgres, "sqlite:", 7) == 0 ? "--store" : "--postgres",
		   o->postgres ? o->postgres : database_conninfo(o->database));
	add_option(c, "--redis", o->redis ? o->redis : redisd_url(redisd_shared()));
	if (is_claiming)
		add_option(c, "--claim-prefix", o->prefix ? o->prefix : redisd_prefix());
	add_option(c, "--source", o->source);
	add_option(c, "--spool", o->spool);
	add_address(c, "--admin", l->admin_port);
	if (!o->without_ingest)
		add_address(c, "--ingest", l->ingest_port);
}

/* The listener's environment: sets the given variables and removes the tests' own, which are not settings and would
 * cause warnings. Does not copy the strings to set. */
static char **make_env(const char *const *more, size_t *own)
{
	size_t n = 0, used = 0;

	while (environ[n])
		n++;
	while (more && more[used])
		used++;
	char **env = calloc(n + used + 1, sizeof *env);

	*own = 0;
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "WSONCE_TEST_", 12) == 0)
			env[(*own)++] = strndup(environ[i], strcspn(environ[i], "="));
	for (size_t i = 0; i < used; i++)
		env[*own + i] = (char *)more[i];
	return env;
}

static struct process *start_process(const struct command *c, const char *const *more)
{
	size_t own;
	char **env = make_env(more, &own);
	struct process *process = process_start_argv((const char *const *)c->argv, (const char *const *)env);

	while (own)
		free(env[--own]);
	free(env);
	return process;
}

struct listener *listener_start(const struct listener_options *options, const char *flags, ...)
{
	struct listener *l = calloc(1, sizeof *l);
	struct command c = {0};
	va_list args;
	char *text;

	l->ingest_port = options->ingest_port ? options->ingest_port : port_reserve();
	l->is_redis_away = options->is_redis_away;
	l->admin_port = options->admin_port ? options->admin_port : port_reserve();
	add_options(&c, l, options);
	va_start(args, flags);
	if (flags && vasprintf(&text, flags, args) >= 0) {
		add_words(&c, text);
		free(text);
	}
	va_end(args);
	l->process = start_process(&c, options->env);
	while (c.argc)
		free(c.argv[--c.argc]);
	if (!options->without_waiting)
		listener_wait_ready(l);
	return l;
}

/* /readyz answers 200 once Postgres is connected; Redis may not be connected yet. */
static bool is_ready(struct listener *l)
{
	int status;

	if (!process_is_alive(l->process))
		cr_assert_fail("the listener has ended with status %d instead of getting ready: %s",
			       process_wait(l->process, 0), process_last_words(l->process));
	char *page = listener_http(l, "/readyz", &status);
	bool is_degraded = page && strncmp(page, "degraded: redis", 15) == 0;
	free(page);
	return status == 200 && (!is_degraded || l->is_redis_away);
}

void listener_wait_ready(struct listener *l)
{
	if (!wait_until(is_ready(l), READY_MS))
		cr_assert_fail("the listener does not get ready: %s", process_last_words(l->process));
}

struct process *listener_process(struct listener *l)
{
	return l->process;
}

int listener_ingest_port(const struct listener *l)
{
	return l->ingest_port;
}

int listener_admin_port(const struct listener *l)
{
	return l->admin_port;
}

char *listener_http(struct listener *l, const char *path, int *status)
{
	return http_get(l->admin_port, path, HTTP_MS, status);
}

int listener_status(struct listener *l, const char *path)
{
	int status;

	free(listener_http(l, path, &status));
	return status;
}

/* Where the metric's value is in a line, or NULL if the line is about another metric. */
static const char *value_in_line(const char *line, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(line, name, len) != 0)
		return NULL;
	line += len;
	if (*line == '{') {
		const char *closing = strchr(line, '}');

		return closing ? closing + 1 : NULL;
	}
	return *line == ' ' ? line : NULL;
}

static bool has(char *page, const char *text)
{
	bool is_there = page && strstr(page, text);

	free(page);
	return is_there;
}

bool listener_page_has(struct listener *l, const char *path, const char *text)
{
	return has(listener_http(l, path, NULL), text);
}

bool listener_has_logged(struct listener *l, const char *text)
{
	return has(process_errors(l->process), text);
}

int listener_count_logged(struct listener *l, const char *text)
{
	char *log = process_errors(l->process);
	int n = 0;

	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	free(log);
	return n;
}

double listener_metric(struct listener *l, const char *name)
{
	int status, found = 0;
	double sum = 0;
	char *body = listener_http(l, "/metrics", &status), *at;

	if (status != 200)
		cr_assert_fail("/metrics answers %d: %s", status, process_last_words(l->process));
	for (char *line = strtok_r(body, "\r\n", &at); line; line = strtok_r(NULL, "\r\n", &at)) {
		const char *value = value_in_line(line, name);

		if (value) {
			sum += strtod(value, NULL);
			found++;
		}
	}
	free(body);
	if (!found)
		cr_assert_fail("no metric %s in /metrics", name);
	return sum;
}

int listener_stop(struct listener *l)
{
	process_signal(l->process, SIGTERM);
	int status = process_wait(l->process, STOP_MS);
	if (status == -1)
		cr_assert_fail("the listener does not end on SIGTERM: %s", process_last_words(l->process));
	return status;
}

void listener_kill(struct listener *l)
{
	process_signal(l->process, SIGKILL);
	if (process_wait(l->process, STOP_MS) == -1)
		cr_assert_fail("the listener does not end on SIGKILL");
}

void listener_free(struct listener *l)
{
	if (!l)
		return;
	process_free(l->process);
	free(l);
}
