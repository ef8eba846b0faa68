/* ingest.h: the server that producers connect to, at /events. */
#ifndef WSONCE_INGEST_H
#define WSONCE_INGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "config/tokens.h"
#include "net/ws.h"

struct ingest;

/* Listens. On failure returns NULL with a sentence in error. */
struct ingest *ingest_open(struct ws *ws, const struct config *config, char *error, size_t size);

size_t ingest_connections(const struct ingest *i);

/* Any page can make a browser connect to any address it can reach, such as one behind a firewall or on loopback; the
 * browser names the page in Origin. Other clients send none. */
bool ingest_allows_origin(const struct config *config, const char *origin);

/* The tokens and their counters, linked by next. NULL: no token is required. */
const struct token *ingest_tokens(const struct ingest *i);
/* The same list, for post.c. */
struct tokens *ingest_token_list(struct ingest *i);

/* Reads tokens and certificates again, with fresh settings. Returns 0; then call ingest_take() to use them, which
 * disconnects producers that would now be refused, or ingest_leave() to discard them. If a file cannot be read, changes
 * nothing and returns -1 with a sentence in error. */
int ingest_read_again(struct ingest *i, const struct config *fresh, char *error, size_t size);
void ingest_take(struct ingest *i);
void ingest_leave(struct ingest *i);

/* Accepts no new connections and stops reading from producers that get acks, since they send unacked messages again to
 * another listener. */
void ingest_drain(struct ingest *i);

/* Sends the queued acks, then closes every connection with 1001. */
void ingest_close(struct ingest *i);
bool ingest_is_closed(const struct ingest *i);

/* Call after the loop has ended. */
void ingest_free(struct ingest *i);

#endif
