/* ingest.h: the server that producers connect to, at /events. */
#ifndef WSONCE_INGEST_H
#define WSONCE_INGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "config/tokens.h"
#include "net/ws.h"

struct ingest;

/* Listens. Returns NULL and a sentence in error if it cannot. */
struct ingest *ingest_open(struct ws *ws, const struct config *config, char *error, size_t size);

size_t ingest_connections(const struct ingest *i);

/* The tokens that producers show, with what each has been used for, linked by next; NULL: none is demanded. */
const struct token *ingest_tokens(const struct ingest *i);
/* The same, for who lets in producers by another door. */
struct tokens *ingest_token_list(struct ingest *i);

/* Reads tokens and the server's certificates again, by fresh settings. Returns 0, and then ingest_take() puts them to
 * use, and disconnects producers that could not connect with them, or ingest_leave() forgets them; or -1 and a
 * sentence, and nothing has changed. */
int ingest_read_again(struct ingest *i, const struct config *fresh, char *error, size_t size);
void ingest_take(struct ingest *i);
void ingest_leave(struct ingest *i);

/* No new connections, and no more messages from those that are told of each one's end: what they
 * have not been told of they send elsewhere. */
void ingest_drain(struct ingest *i);

/* Sends the acks that wait, then ends every connection with 1001. */
void ingest_close(struct ingest *i);
bool ingest_is_closed(const struct ingest *i);

/* After the loop has ended. */
void ingest_free(struct ingest *i);

#endif
