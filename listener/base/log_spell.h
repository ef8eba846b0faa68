/* log_spell.h: logs failures that repeat themselves, or that many share, without flooding the log. */
#ifndef WSONCE_LOG_SPELL_H
#define WSONCE_LOG_SPELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

/* A repeated failure. It is logged when it begins, then once a minute with a count, and when it is over. Starts as all
 * zeros. Times are milliseconds of the loop clock. */
struct log_spell {
	const char *target; /* the webhook, one of many, which each line names; NULL: none */
	int64_t began_ms;
	int64_t told_ms; /* time of the last line */
	int64_t last_ms; /* time of the last failure */
	int64_t times;   /* failures since it began; 0: not failing */
};

/* Call after a failure. reason may be NULL. Returns true if the failure was logged. */
bool log_spell_on(struct log_spell *s, int64_t now_ms, const char *event, const char *reason);
/* Call after a success. Ends the spell if nothing has failed for ten seconds, and then logs event unless it is NULL. */
void log_spell_off(struct log_spell *s, int64_t now_ms, const char *event);
/* Ends the spell at once, so that the next failure is logged. */
void log_spell_end(struct log_spell *s, const char *event);

/* Logs a line about one of many sources, which may all fail or connect together, as when their host is down: of a
 * minute's lines only the first twenty, and the others at debug. more_lines is how many the minute before lacks.
 * Warnings that repeat an earlier one of their source have a limit of their own, so that they hide no new failure; so
 * have those of webhooks. */
enum log_kind { LOG_NEW, LOG_AGAIN, LOG_NEW_OF_WEBHOOKS, LOG_AGAIN_OF_WEBHOOKS };
#define log_one_of_many(...) log_of_many(LOG_NEW, __VA_ARGS__)
#define log_of_many(kind, level, ms, event, fields, ...) \
	do { \
		size_t more_lines = 0; \
		enum log_level limited = log_limit_lines(kind, level, ms, &more_lines); \
\
		log_write(limited, event, fields " more_lines=%zu", __VA_ARGS__, more_lines); \
	} while (0)
/* True if the next line about a failure last logged at told_ms (0: never) repeats that one. */
bool log_goes_on(int64_t told_ms, int64_t now_ms);
enum log_level log_limit_lines(enum log_kind kind, enum log_level level, int64_t now_ms, size_t *more);

#endif
