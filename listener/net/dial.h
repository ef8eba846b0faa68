/* dial.h: one connection to a feed, from the lookup of its name to its end. */
#ifndef WSONCE_DIAL_H
#define WSONCE_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "net/upgrade.h"
#include "net/ws.h"

struct dialler;
struct dial;

/* What all connections to feeds share. config and ws must outlive it. has_tls: some will be wss://. NULL and a sentence
 * in error if it cannot. */
struct dialler *dialler_open(struct ws *ws, const struct config *config, bool has_tls, char *error, size_t size);

/* After the loop has ended, with all connections. NULL is allowed. */
void dialler_free(struct dialler *all);

/* How a connection ended, or why there is none. */
struct dial_end {
	const char *reason; /* one sentence, control characters replaced; it may hold words of the server */
	bool was_open;
	unsigned int close_code; /* of the server's close frame; 0: none */
	int status;              /* of the HTTP answer that refused; 0: there was none */
	int64_t wait_ms;         /* that the server asks to be left alone */
};

/* Who takes what a connection brings. All functions are called from the loop, never from inside a call of this
 * header. */
struct dial_owner {
	void (*on_open)(void *arg);
	/* Called in a message's call: dial_leave and dial_send are allowed. */
	void (*on_message)(void *arg, const char *message, size_t len);
	void (*on_too_long)(void *arg, const char *head, size_t len, const uint8_t *digest, uint64_t total);
	/* Once, and nothing after it; the connection is freed then. */
	void (*on_end)(void *arg, const struct dial_end *end);
};

/* Connects to url, a text, within --handshake-timeout. offer must live until on_open or on_end. nth: how many attempts
 * have failed: the nth address of its host is tried first, and each 250 ms the next one, too. Redirects to the same
 * host are followed. */
struct dial *dial_start(struct dialler *all, const char *url, const struct upgrade_offer *offer, unsigned int nth,
			const struct dial_owner *owner, void *arg);

/* Sends a text message on an open connection, sooner or later. A server that does not read ends its connection. */
void dial_send(struct dial *d, const char *text, size_t len);

/* Pings this often instead of by --ping-interval; 0: never. For an open connection. */
void dial_set_ping(struct dial *d, int64_t interval_ms);

/* Stops reading from an open connection, or goes on. */
void dial_hold(struct dial *d, bool is_held);

/* Loop clock, when the server last sent anything at all; the time that it was not read from does not count. */
int64_t dial_heard_ms(const struct dial *d, int64_t now_ms);
/* The same, of messages alone. */
int64_t dial_message_ms(const struct dial *d, int64_t now_ms);

/* Is it not read from at present, for lack of memory or by dial_hold? Has the kernel something of it? */
bool dial_is_held(const struct dial *d);
bool dial_has_unread(const struct dial *d);

/* Says goodbye with this code and drops what still comes. on_end is not called any more. Also for one that is not open
 * yet. */
void dial_leave(struct dial *d, unsigned int code);

/* Ends it at once, without a word, and on_end is not called any more. */
void dial_cut(struct dial *d);

#endif
