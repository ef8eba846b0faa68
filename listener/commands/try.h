/* try.h: a short look at a feed, without a listener. */
#ifndef WSONCE_TRY_H
#define WSONCE_TRY_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/* What a feed did within some seconds. */
struct try_seen {
	uint64_t connects;
	uint64_t messages;
	uint64_t events;
	uint64_t repeated;  /* events with the id of an earlier one */
	int64_t time_us;    /* of the last event, since 1970; 0: none that can be read */
	bool has_payload;   /* the last event has a payload */
	bool has_type;      /* the last event of a plain source has a type */
	bool is_stopped;    /* a rule or a close code stopped the feed */
	char error[300];    /* of the last attempt to connect, or of the connection; "": none */
	char rejected[200]; /* why a message would be a dead letter; "": none would */
};

/* Connects to the feed of a profile or of a plain --source, until its first event (of a plain one until its second, or
 * a second later) or dead letter, an error, or the time is over. Returns 0; or -1 with a sentence in seen->error if it
 * could not try. */
int try_look(const struct config *config, const struct profile *p, int64_t seconds, struct try_seen *seen);

#endif
