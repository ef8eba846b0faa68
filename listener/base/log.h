/* log.h: one line per log entry on standard error, as key=value text or as JSON. */
#ifndef WSONCE_LOG_H
#define WSONCE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* Drops lines below level. instance, unless NULL, is put on every line; it is not copied. */
void log_setup(enum log_level level, enum log_format format, const char *instance);

/* Writes one line. event says what happened, in a few words. fields is a printf format of key=%spec words with one
 * blank between them, such as "addr=%s took_ms=%ld". Each value is quoted as the output format needs, so it may hold
 * anything. The known specs are %s %d %u %ld %lu %lld %llu %zu %.1f. A NULL string is left out with its key. */
void log_write(enum log_level level, const char *event, const char *fields, ...) __attribute__((format(printf, 3, 4)));

/* A failure that repeats. It is logged when it begins, once a minute with a count, and when it is over. All zero at
 * first. Times are milliseconds of the loop clock. */
struct log_spell {
	int64_t began_ms;
	int64_t told_ms; /* of the last line */
	int64_t last_ms; /* of the last failure */
	int64_t times;   /* failures since it began; 0: there is no spell */
};

/* Something failed. Returns true if that was logged. */
bool log_spell_on(struct log_spell *s, int64_t now_ms, const char *event, const char *reason);
/* Something worked. Ends the spell if nothing has failed for ten seconds; with NULL without a line. */
void log_spell_off(struct log_spell *s, int64_t now_ms, const char *event);

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
