/* live.h: connects to a feed for a while, without a listener. */
#ifndef WSONCE_LIVE_H
#define WSONCE_LIVE_H

#include <stdio.h>

#include "commands/dispatch.h"
#include "commands/segments.h"
#include "config/profile.h"

/* Returns the profile of --profile FILE, or of --feed NAME if file is NULL, and warns of what is doubtful in it. NULL
 * after printing why: the exit status is STATUS_USAGE. */
struct profile *live_profile(const char *file, const char *feed);

/* Connects to the feed for some seconds (0: until Ctrl-C), then prints what each rule did, as text or JSON. Returns the
 * exit status: STATUS_FAILED if no connection was made, or if a rule or a close code ended the feed for good.
 * is_expecting: also if no event came, or more than 1 % of what came is unknown or rejected; prints nothing if all is
 * well. */
int live_try(const struct invocation *in, const struct profile *p, int64_t seconds, bool is_json, bool is_expecting);

/* Writes the messages of the feed to lines, one per line, or else to segments, until there are enough (messages; 0: any
 * number), the time is over (seconds; 0: never), a write fails, or Ctrl-C. Returns the exit status. */
int live_record(const struct invocation *in, const struct profile *p, FILE *lines, struct segments *segments,
		int64_t messages, int64_t seconds);

/* What a feed did within some seconds. */
struct live_seen {
	uint64_t connects;
	uint64_t messages;
	uint64_t events;
	bool has_time;      /* the last event has a time that can be read */
	bool is_stopped;    /* a rule or a close code ended the feed for good */
	char error[300];    /* of the last attempt to connect, or of the connection; "": none */
	char rejected[200]; /* why a message would be a dead letter; "": none would */
};

/* Connects to the feed of a profile or of a plain --source, until its first event or dead letter, an error, or the time
 * is over. Returns 0; or -1 with a sentence in seen->error if it could not try. */
int live_look(const struct config *config, const struct profile *p, int64_t seconds, struct live_seen *seen);

#endif
