/* log_spell.h: the log of a failure that repeats. */
#ifndef WSONCE_LOG_SPELL_H
#define WSONCE_LOG_SPELL_H

#include <stdbool.h>
#include <stdint.h>

/* A failure that repeats. It is logged when it begins, once a minute with a count, and when it is over. All zero at
 * first. Times are milliseconds of the loop clock. */
struct log_spell {
	int64_t began_ms;
	int64_t told_ms; /* of the last line */
	int64_t last_ms; /* of the last failure */
	int64_t times;   /* failures since it began; 0: not failing */
};

/* Something failed, for a reason, which may be NULL. Returns true if that was logged. */
bool log_spell_on(struct log_spell *s, int64_t now_ms, const char *event, const char *reason);
/* Something worked. Ends the spell if nothing has failed for ten seconds. event is logged then, unless it is NULL. */
void log_spell_off(struct log_spell *s, int64_t now_ms, const char *event);

#endif
