/* upgrade.h: the opening handshake with a feed. */
#ifndef WSONCE_UPGRADE_H
#define WSONCE_UPGRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/url.h"
#include "net/deflate.h"

#define UPGRADE_WORDS_MOST 200 /* bytes of a refusal's body that are quoted */

struct upgrade;

/* What the request contains besides the URL. */
struct upgrade_offer {
	const char *headers; /* more header lines, each with its CRLF; NULL: none */
	char *const *subprotocols;
	size_t subprotocol_count; /* if not 0, the server must choose one */
	bool has_deflate;         /* offer permessage-deflate */
	size_t max_message;       /* bytes; used after the handshake. 0: --max-message */
	bool resends;             /* used after the handshake: ws_link_set_resends */
};

enum upgrade_result {
	UPGRADE_MORE, /* the answer is incomplete */
	UPGRADE_DONE, /* frames follow */
	UPGRADE_MOVED,
	UPGRADE_REFUSED,
};

/* Prepares the handshake for url. offer must outlive it. Returns NULL if the system has no random bytes. */
struct upgrade *upgrade_new(const struct url *url, const struct upgrade_offer *offer);

void upgrade_free(struct upgrade *u);

/* Copies the next unsent bytes of the request to room. Returns their number, 0 at the end. */
size_t upgrade_take(struct upgrade *u, char *room, size_t size);

/* Reads the answer and sets *used to how many of the bytes belong to it. Do not call again after a result other than
 * UPGRADE_MORE. */
enum upgrade_result upgrade_receive(struct upgrade *u, const char *bytes, size_t len, size_t *used);

/* What is known about the answer so far. */
struct upgrade_answer {
	/* Why it is UPGRADE_REFUSED or UPGRADE_MOVED: one sentence, followed by the first bytes of the body if the
	 * status was not 101. Control characters are replaced. */
	char reason[120 + UPGRADE_WORDS_MOST];
	int status;                 /* status of a refusal, whose body may still be missing; 0: none so far */
	int64_t wait_s;             /* after a refusal: Retry-After, at most an hour; else a second for 429 and 503 */
	char *location;             /* UPGRADE_MOVED: the location, as the server wrote it */
	struct deflate_terms terms; /* UPGRADE_DONE: the agreed compression */
};
const struct upgrade_answer *upgrade_answer(const struct upgrade *u);

#endif
