#include "program.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "process.h"
#include "redisd.h"

#define END_MS    60000
#define WORDS_MAX 40

static struct process *start(const struct database *db, const char *words, va_list ap)
{
	const char *argv[WORDS_MAX + 1] = {getenv("WSONCE_TEST_BIN") ? getenv("WSONCE_TEST_BIN") : "build/wsonce"};
	const char *env[] = {NULL, NULL, NULL, NULL};
	char postgres[600], redis[300], prefix[200], *text, *at;
	struct process *p;
	int n = 1;

	cr_assert_gt(vasprintf(&text, words, ap), 0);
	for (char *word = strtok_r(text, " ", &at); word && n < WORDS_MAX; word = strtok_r(NULL, " ", &at))
		argv[n++] = word;
	snprintf(postgres, sizeof postgres, "WSONCE_POSTGRES=%s", database_conninfo(db));
	snprintf(redis, sizeof redis, "WSONCE_REDIS=%s", redisd_url(redisd_shared()));
	snprintf(prefix, sizeof prefix, "WSONCE_CLAIM_PREFIX=%s", redisd_prefix());
	env[0] = postgres;
	env[1] = redis;
	env[2] = prefix;
	p = process_start_argv(argv, env);
	free(text);
	return p;
}

static struct program finish(struct process *p)
{
	struct program run = {.status = process_wait(p, END_MS)};

	cr_assert_neq(run.status, -1, "it does not end: %s", process_last_words(p));
	run.output = process_output(p);
	run.errors = process_errors(p);
	process_free(p);
	return run;
}

struct process *program_start(const struct database *db, const char *words, ...)
{
	struct process *p;
	va_list ap;

	va_start(ap, words);
	p = start(db, words, ap);
	va_end(ap);
	return p;
}

struct program program_run(const struct database *db, const char *words, ...)
{
	struct program run;
	va_list ap;

	va_start(ap, words);
	run = finish(start(db, words, ap));
	va_end(ap);
	return run;
}

void program_expect(const struct database *db, int status, const char *text, const char *words, ...)
{
	struct program run;
	va_list ap;

	va_start(ap, words);
	run = finish(start(db, words, ap));
	va_end(ap);
	cr_assert_eq(run.status, status, "%s: status %d: %s%s", words, run.status, run.output, run.errors);
	cr_assert(strstr(run.output, text) || strstr(run.errors, text), "%s: no \"%s\" in: %s%s", words, text,
		  run.output, run.errors);
	program_free(&run);
}

void program_free(struct program *p)
{
	free(p->output);
	free(p->errors);
}
