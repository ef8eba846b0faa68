/* live.h: a conversation with a feed for a while, without a listener around it. */
#ifndef WSONCE_LIVE_H
#define WSONCE_LIVE_H

#include <stdio.h>

#include "commands/dispatch.h"
#include "config/profile.h"

/* The profile of --profile FILE, or of --feed NAME if file is NULL; says what is doubtful. NULL after saying why: the
 * exit status is STATUS_USAGE. */
struct profile *live_profile(const char *file, const char *feed);

/* Talks to the feed of a profile for so many seconds (0: until Ctrl-C), then prints what came of each rule, as text or
 * JSON. A terminal is told each second. Returns the exit status: STATUS_FAILED if no connection was made. */
int live_try(const struct invocation *in, const struct profile *p, int64_t seconds, bool is_json);

/* Writes each message of the feed into out, a line each, until so many have come (0: any number), the seconds are over
 * (0: never), or Ctrl-C. */
int live_record(const struct invocation *in, const struct profile *p, FILE *out, int64_t messages, int64_t seconds);

#endif
