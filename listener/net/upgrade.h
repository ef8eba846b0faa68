/* upgrade.h: the opening handshake of a dialled feed. */
#ifndef WSONCE_UPGRADE_H
#define WSONCE_UPGRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/url.h"
#include "net/deflate.h"

struct upgrade;

/* What the request says and asks for, beside the URL. */
struct upgrade_offer {
	const char *headers; /* further lines of the request, each ended by CRLF; NULL: none */
	char *const *subprotocols;
	size_t subprotocol_count; /* if not 0, the server has to choose one of them */
	bool has_deflate;         /* permessage-deflate is offered */
	size_t max_message;       /* bytes; not for the handshake. 0: as --max-message says */
};

enum upgrade_result {
	UPGRADE_MORE, /* the answer is not complete */
	UPGRADE_DONE, /* from here on there are frames */
	UPGRADE_MOVED,
	UPGRADE_REFUSED,
};

/* May a header of this name be among those of an offer? Those of the handshake itself may not. */
bool upgrade_allows_header(const char *name);

/* For one connection to url; offer may be NULL. NULL if the system has no random bytes. */
struct upgrade *upgrade_new(const struct url *url, const struct upgrade_offer *offer);

void upgrade_free(struct upgrade *u);

/* Copies what is not yet sent of the request into room. Returns its length, 0 at the end. */
size_t upgrade_take(struct upgrade *u, char *room, size_t size);

/* Reads the answer; *used of the bytes belong to it. Not called again after it has returned anything
 * but UPGRADE_MORE. */
enum upgrade_result upgrade_receive(struct upgrade *u, const char *bytes, size_t len, size_t *used);

/* Why upgrade_receive returned UPGRADE_REFUSED or UPGRADE_MOVED: one sentence, and after a status other than
 * 101 the first 200 bytes of the body that came with it, control characters replaced. */
const char *upgrade_reason(const struct upgrade *u);

/* The status of an answer that refuses; 0: there is none so far. Its body may still be awaited. */
int upgrade_status(const struct upgrade *u);

/* Where UPGRADE_MOVED points to: as the server wrote it. */
const char *upgrade_location(const struct upgrade *u);

/* After UPGRADE_DONE: what was agreed of compression. */
struct deflate_terms upgrade_deflate(const struct upgrade *u);

/* How many seconds a server that refused asks to be left alone: its Retry-After, an hour at most; else a second
 * after 429 and 503, and 0 after the others. */
int64_t upgrade_wait_s(const struct upgrade *u);

#endif
