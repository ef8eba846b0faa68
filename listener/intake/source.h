/* source.h: the feeds that this listener dials. */
#ifndef WSONCE_SOURCE_H
#define WSONCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "intake/feed_client.h"
#include "net/ws.h"

struct sources;

/* Dials every URL and every feed of config, for ever. NULL and a sentence in error if it cannot. */
struct sources *sources_open(struct ws *ws, const struct config *config, char *error, size_t size);

/* What the admin pages show of source i: those that are URLs first. The texts live until the next call into the loop.
 */
struct source_view {
	const char *name;
	const char *url; /* without secrets */
	const char *state;
	const char *error; /* of the last attempt; "" */
	bool is_open;
	bool is_ready;           /* it is open, or another listener has it */
	int64_t last_message_ms; /* loop clock; 0: none so far */
	uint64_t connects;
	uint64_t messages; /* of one without a profile; its rules count the others */
	/* Of one that a profile describes; else NULL: */
	const struct profile *profile;
	const struct rule_count *rules; /* as in struct feed_client_view */
	struct sequence_gaps_count gaps;
};

size_t sources_count(const struct sources *s);
struct source_view sources_view(const struct sources *s, size_t i);

/* No more attempts, no more messages. */
void sources_close(struct sources *all);

/* After the loop has ended. */
void sources_free(struct sources *all);

#endif
