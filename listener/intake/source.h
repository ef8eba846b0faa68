/* source.h: the feeds that this listener dials. */
#ifndef WSONCE_SOURCE_H
#define WSONCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "intake/feed_client.h"
#include "net/ws.h"
#include "fleet/presence.h"
#include "fleet/reading.h"

struct sources;

/* Connects and reconnects to every URL and feed of config. presence (NULL: there is no fleet) reports them, and must
 * outlive the result. On failure returns NULL with a sentence in error. */
struct sources *sources_open(struct ws *ws, struct presence *presence, const struct config *config, char *error,
			     size_t size);

/* What the admin pages show about source i, where each line counts as a source. Plain URLs come first. The texts are
 * valid until the loop runs again. */
struct source_view {
	const char *source;
	const char *name;        /* the same, with /2 etc. for lines after the first */
	size_t place;            /* below sources_places(): never changes while the listener runs */
	unsigned int number;     /* number of the line, from 0 */
	const struct line *line; /* NULL: none is recorded, or it is the first shard's */
	const char *url;         /* without secrets */
	const char *state;
	const char *error; /* error of the last attempt, or "" */
	bool is_open;
	bool is_ready;           /* open and not unconfirmed, or read by another listener */
	int64_t last_message_ms; /* loop clock; 0: none yet */
	int64_t data_ms;         /* as in struct feed_client_view */
	uint64_t id;             /* identifies the source in presence; 0: there is no presence */
	uint64_t connects;
	uint64_t barren;               /* as in struct feed_client_view */
	uint64_t messages;             /* messages of a plain URL; for a profile see rules */
	const struct silence *silence; /* other listeners hear the source, and this line does not; else NULL */
	/* NULL for a plain URL: */
	const struct profile *profile;
	const struct rule_count *rules; /* as in struct feed_client_view */
	struct sequence_gaps_count gaps;
	uint64_t filled; /* missing numbers that were fetched later */
};

/* Returns the number of sources, which changes when a list that is divided (shards.h) does. */
size_t sources_count(const struct sources *s);
size_t sources_places(const struct sources *s);
struct source_view sources_view(const struct sources *s, size_t i);
/* True if a line of the source of i is ready. */
bool sources_are_ready(const struct sources *s, size_t i);

/* Reads the divided lists again; config has the new settings. */
void sources_reload(struct sources *all);

/* Disconnects all sources for good. */
void sources_close(struct sources *all);

/* Call after the loop has ended. */
void sources_free(struct sources *all);

#endif
