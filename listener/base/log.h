/* log.h: one line per log entry on standard error, as key=value text or as JSON. */
#ifndef WSONCE_LOG_H
#define WSONCE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* Drops lines below level. instance, unless NULL, is put on every line; it is not copied. */
void log_setup(enum log_level level, enum log_format format, const char *instance);

/* Writes one line. event says what happened, in a few words. fields is a printf format of key=%spec words with one
 * blank between them, such as "addr=%s took_ms=%ld". Each value is quoted as the output format needs, so it may hold
 * anything. The known specs are %s %d %u %ld %lu %lld %llu %zu %.1f. A NULL string is left out with its key. */
void log_write(enum log_level level, const char *event, const char *fields, ...) __attribute__((format(printf, 3, 4)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
