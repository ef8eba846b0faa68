/* A complete run of the program: exit status and output. The program is WSONCE_TEST_BIN, or build/wsonce. */
#ifndef SUPPORT_RUN_H
#define SUPPORT_RUN_H

#include <jansson.h>
#include <stdbool.h>

struct database;
struct process;

/* A completed run. */
struct run {
	int status;
	char *output;
	char *errors;
};

/* Runs the program with these words (split at spaces) and env (as in process.h) or NULL. Fails the test if it takes
 * more than 15 s (stretched). */
struct run run_in(const char *const env[], const char *words);

/* The same with the printf-like words of an operator's command, on this database, the shared Redis and this test's
 * claim prefix. The timeout is a minute. */
struct run run_on(const struct database *db, const char *words, ...) __attribute__((format(printf, 2, 3)));

/* Start it without waiting for its end. process_free ends it. */
struct process *run_start_on(const struct database *db, const char *words, ...) __attribute__((format(printf, 2, 3)));

/* Run it as run_on, require this exit status, and read its output. The tree is the caller's. */
json_t *run_json(const struct database *db, int status, const char *words, ...) __attribute__((format(printf, 3, 4)));

/* Like run_on; requires this exit status and, if not NULL, that the output contains this. If it fails, the message
 * includes standard error. */
#define run_expect(db, wanted, part, ...) \
	do { \
		struct run run_expected = run_on(db, __VA_ARGS__); \
		cr_assert_eq(run_expected.status, wanted, "status %d, not %d: %s%s", run_expected.status, wanted, \
			     run_expected.output, run_expected.errors); \
		const char *run_part = part; \
		cr_assert(!run_part || strstr(run_expected.output, run_part), "no \"%s\" in: %s%s", run_part, \
			  run_expected.output, run_expected.errors); \
	} while (0)

/* The same, awaited: status shows what a listener reports each second, so a new one has not yet said that it can store.
 */
#define run_await(db, wanted, part, deadline_ms, ...) \
	do { \
		struct run run_last; \
		const char *run_wanted = part; \
		await((run_last = run_on(db, __VA_ARGS__), \
		       run_last.status == (wanted) && (!run_wanted || strstr(run_last.output, run_wanted))), \
		      deadline_ms, "status %d, not %d, or no \"%s\" in: %s%s", run_last.status, wanted, \
		      run_wanted ? run_wanted : "", run_last.output, run_last.errors); \
	} while (0)

/* Like run_expect, but for standard error. */
#define run_expect_error(db, wanted, part, ...) \
	do { \
		struct run run_expected = run_on(db, __VA_ARGS__); \
		cr_assert_eq(run_expected.status, wanted, "status %d, not %d: %s%s", run_expected.status, wanted, \
			     run_expected.output, run_expected.errors); \
		cr_assert(strstr(run_expected.errors, part), "no \"%s\" in: %s", part, run_expected.errors); \
	} while (0)

/* Is text exactly one non-empty line with its newline? */
bool run_is_one_line(const char *text);

/* Requires that these words are refused with status 2 and one line that contains this. */
void run_expect_refusal_in(const char *const env[], const char *words, const char *name);

#endif
