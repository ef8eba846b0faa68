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

/* Connects and reconnects to every URL and feed of config. presence (NULL: this listener is alone) reports them, and
 * must outlive the result. On failure returns NULL with a sentence in error. */
struct sources *sources_open(struct ws *ws, struct presence *presence, const struct config *config, char *error,
			     size_t size);

/* Returns the number of sources, which changes when a list that is divided (shards.h) does. */
size_t sources_count(const struct sources *s);
size_t sources_places(const struct sources *s);
/* Each line counts as a source. Plain URLs come first. The texts are valid until the loop runs again. */
struct source_view sources_view(const struct sources *s, size_t i);
/* True if a line of the source of i is ready. */
bool sources_are_ready(const struct sources *s, size_t i);

/* Reads the divided lists again; config has the new settings. */
void sources_reload(struct sources *all);

/* Overwrites the secrets of the sources with asterisks: those in the URLs of plain ones, and of profiles. */
void sources_mask(const struct sources *s, char *text);

/* Disconnects all sources for good. */
void sources_close(struct sources *all);

/* Call after the loop has ended. */
void sources_free(struct sources *all);

#endif
