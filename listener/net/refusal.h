/* refusal.h: a log line for a producer that was turned away, and not more than that. */
#ifndef WSONCE_REFUSAL_H
#define WSONCE_REFUSAL_H

#include <stdint.h>

struct refusals;

/* NULL if memory is out, which refusal_log() takes for "do not log". */
struct refusals *refusals_new(void);
void refusals_free(struct refusals *r);

/* Logs peer and status: once a minute for each peer, and for at most 20 peers a minute, so that
 * nobody can fill the log from outside. now_ms is the loop clock. */
void refusal_log(struct refusals *r, const char *peer, unsigned int status, int64_t now_ms);

#endif
