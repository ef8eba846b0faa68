/* rejected.h: why messages become dead letters in this process, told in the log once a minute. */
#ifndef WSONCE_REJECTED_H
#define WSONCE_REJECTED_H

#include <stddef.h>
#include <stdint.h>

/* A message has become a dead letter, for this reason. Keeps the heads of both. */
void rejected_checkin(const char *reason, const char *message, size_t len);

/* Logs how many messages became dead letters since the last such line, the commonest reason and an example of it: at
 * once, but one line a minute at most. It is a warning where nothing at all was stored in that time, and else for
 * information. To be called each second; now_ms is the loop clock. */
void rejected_watch(int64_t now_ms);

#endif
