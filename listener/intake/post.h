/* post.h: the HTTP server for producers: POST /events, answered when all its events are committed. */
#ifndef WSONCE_POST_H
#define WSONCE_POST_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "config/tokens.h"
#include "net/ws.h"

struct posts;

/* Listens on --ingest-http. tokens: the list of ingest.h, or NULL to read its own. On failure returns NULL with a
 * sentence in error. */
struct posts *posts_open(struct ws *ws, const struct config *config, struct tokens *tokens, char *error, size_t size);

/* Like ingest_read_again() and ingest_take(), which handle the tokens of a shared list. */
int posts_read_again(struct posts *all, const struct config *fresh, char *error, size_t size);
void posts_take(struct posts *all);

/* The tokens in use, for the admin pages. */
const struct tokens *posts_tokens(const struct posts *all);

/* Refuses new requests. Accepted ones are answered as they settle. */
void posts_drain(struct posts *all);

/* Answers all waiting requests with 503: some of their events may not be committed. */
void posts_give_up(struct posts *all);

/* True if all requests are answered. */
bool posts_are_answered(const struct posts *all);

/* Closes all connections. Run the loop until it has no more handles. */
void posts_close(struct posts *all);

/* Call after the loop has ended. NULL is allowed. */
void posts_free(struct posts *all);

#endif
