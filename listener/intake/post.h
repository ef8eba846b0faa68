/* post.h: the server of producers without WebSocket: POST /events, answered when all of it is committed. */
#ifndef WSONCE_POST_H
#define WSONCE_POST_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "config/tokens.h"
#include "net/ws.h"

struct posts;

/* Listens on --ingest-http. tokens: those of the other producers, or NULL: it has its own. NULL and a sentence in error
 * if it cannot. */
struct posts *posts_open(struct ws *ws, const struct config *config, struct tokens *tokens, char *error, size_t size);

/* As ingest_read_again() and what follows it in ingest.h; tokens that are those of the other producers are theirs. */
int posts_read_again(struct posts *all, const struct config *fresh, char *error, size_t size);
void posts_take(struct posts *all);
void posts_leave(struct posts *all);

/* Those that posts have, for operators. */
const struct tokens *posts_tokens(const struct posts *all);

/* Requests are refused from now on; those that were taken are answered as they settle. */
void posts_drain(struct posts *all);

/* What has not settled is not committed, as far as is known: says so to those who wait. */
void posts_give_up(struct posts *all);

/* Has everybody got an answer? */
bool posts_are_answered(const struct posts *all);

/* Ends all connections. The loop must be run until it has nothing more to do. */
void posts_close(struct posts *all);

/* After the loop has ended. NULL is allowed. */
void posts_free(struct posts *all);

#endif
