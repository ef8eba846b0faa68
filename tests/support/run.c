/* Runs of the program that end by themselves: commands, and command lines that are refused. */
#include "run.h"
#include "support.h"

#define END_MS    15000
#define LONG_MS   60000
#define WORDS_MAX 40

static struct process *start(const char *const env[], const char *words)
{
	const char *argv[WORDS_MAX + 1] = {getenv("WSONCE_TEST_BIN") ? getenv("WSONCE_TEST_BIN") : "build/wsonce"};
	char *copy = strdup(words), *at;
	int n = 1;

	for (char *word = strtok_r(copy, " ", &at); word && n < WORDS_MAX; word = strtok_r(NULL, " ", &at))
		argv[n++] = word;
	return process_start_argv(argv, env);
}

static struct run wait_for_end(struct process *p, const char *words, int deadline_ms)
{
	struct run run = {.status = process_wait(p, deadline_ms)};

	run.output = process_output(p);
	run.errors = process_errors(p);
	cr_assert_neq(run.status, -1, "wsonce %s does not end: %s", words, process_last_words(p));
	process_free(p);
	return run;
}

struct run run_in(const char *const env[], const char *words)
{
	return wait_for_end(start(env, words), words, END_MS);
}

/* Passes the connections in the environment, because conninfo contains spaces. */
static struct process *start_on(const struct database *db, const char *words)
{
	char *postgres = suite_text("WSONCE_POSTGRES=%s", database_conninfo(db));
	char *redis = suite_text("WSONCE_REDIS=%s", redisd_url(redisd_shared()));
	char *prefix = suite_text("WSONCE_CLAIM_PREFIX=%s", redisd_prefix());
	return start((const char *const[]){postgres, redis, prefix, NULL}, words);
}

struct process *run_start_on(const struct database *db, const char *words, ...)
{
	va_list args;

	va_start(args, words);
	char *text = suite_vtext(words, args);
	va_end(args);
	return start_on(db, text);
}

struct run run_on(const struct database *db, const char *words, ...)
{
	va_list args;

	va_start(args, words);
	char *text = suite_vtext(words, args);
	va_end(args);
	return wait_for_end(start_on(db, text), text, LONG_MS);
}

json_t *run_json(const struct database *db, int status, const char *words, ...)
{
	va_list args;
	json_error_t error;

	va_start(args, words);
	char *text = suite_vtext(words, args);
	va_end(args);
	struct run run = run_on(db, "%s", text);
	json_t *root = json_loads(run.output, 0, &error);

	cr_assert_eq(run.status, status, "%s: %d: %s%s", text, run.status, run.output, run.errors);
	cr_assert(root, "%s: %s in: %s", text, error.text, run.output);
	return root;
}

bool run_is_one_line(const char *text)
{
	const char *end = strchr(text, '\n');

	return end && end > text && end[1] == '\0';
}

void run_expect_refusal_in(const char *const env[], const char *words, const char *name)
{
	struct run run = run_in(env, words);

	cr_assert_eq(run.status, 2, "wsonce %s: status %d: %s", words, run.status, run.errors);
	cr_assert(run_is_one_line(run.errors), "wsonce %s: not one line: %s", words, run.errors);
	cr_assert(strstr(run.errors, name), "wsonce %s: no \"%s\" in: %s", words, name, run.errors);
	cr_assert_str_eq(run.output, "");
}
