/* The program's other commands, run on a test's own database with the test's claim prefix. */
#ifndef SUPPORT_PROGRAM_H
#define SUPPORT_PROGRAM_H

struct database;
struct process;

/* A run that is over. */
struct program {
	int status; /* exit status, or 128 + signal */
	char *output;
	char *errors;
};

/* Run wsonce with these printf-like words (split at spaces) to its end, within a minute (stretched).
 * program_free frees what it said. */
struct program program_run(const struct database *db, const char *words, ...) __attribute__((format(printf, 2, 3)));

/* Start it, and do not wait. process_free ends it. */
struct process *program_start(const struct database *db, const char *words, ...) __attribute__((format(printf, 2, 3)));

/* Run it; the test fails if the status is another, or if what it said (on either stream) does not hold
 * this text. */
void program_expect(const struct database *db, int status, const char *text, const char *words, ...)
	__attribute__((format(printf, 4, 5)));

void program_free(struct program *p);

#endif
