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

/* Creates the state that all connections share. config and ws must outlive it. has_tls: some URLs are wss://. On
 * failure returns NULL with a sentence in error. */
struct dialler *dialler_open(struct ws *ws, const struct config *config, bool has_tls, char *error, size_t size);

/* Call after the loop has ended. Frees all connections, too. NULL is allowed. */
void dialler_free(struct dialler *all);

/* How a connection ended, or why it failed. */
struct dial_end {
	const char *reason; /* one sentence without control characters; may quote the server */
	bool was_open;
	unsigned int close_code; /* code in the server's close frame; 0: none */
	int status;              /* HTTP status that refused the handshake; 0: none */
	int64_t wait_ms;         /* from Retry-After */
	bool is_unanswered;      /* a ping was not answered */
	int64_t unheard_ms;      /* it was given up after so long without a sign of life; 0: it has not been given up */
};

/* The owner of a connection. All functions are called from the loop, never from inside a call of this header. */
struct dial_owner {
	void (*on_open)(void *arg);
	/* dial_leave and dial_send may be called from here. */
	void (*on_message)(void *arg, const char *message, size_t len, bool is_text);
	void (*on_too_long)(void *arg, const char *head, size_t len, const uint8_t *digest, uint64_t total);
	/* Called once, and nothing after it. The connection is freed afterwards. */
	void (*on_end)(void *arg, const struct dial_end *end);
};

/* Connects to url within --handshake-timeout. offer must live until on_open or on_end. nth is the number of failed
 * attempts: the nth address of the host is tried first, and every 250 ms the next one in parallel. Follows redirects to
 * the same host. */
struct dial *dial_start(struct dialler *all, const char *url, const struct upgrade_offer *offer, unsigned int nth,
			const struct dial_owner *owner, void *arg);

/* Queues a text message on an open connection. If the server does not read, the connection ends. */
void dial_send(struct dial *d, const char *text, size_t len);

/* Sets the ping interval of an open connection in place of --ping-interval; 0: no pings. */
void dial_set_ping(struct dial *d, int64_t interval_ms);

/* Stops or resumes reading from an open connection. */
void dial_hold(struct dial *d, bool is_held);

/* Loop clock, when the server last sent anything. Time during which it was not read does not count. */
int64_t dial_heard_ms(const struct dial *d, int64_t now_ms);
/* The same for messages only. */
int64_t dial_message_ms(const struct dial *d, int64_t now_ms);

/* dial_is_held: true if reading is stopped, for lack of memory or by dial_hold. dial_has_unread: true if the kernel
 * holds unread data. */
bool dial_is_held(const struct dial *d);
bool dial_has_unread(const struct dial *d);

/* Closes with this code and drops all further data. on_end is not called. Also allowed before the connection is open.
 */
void dial_leave(struct dial *d, unsigned int code);

/* Closes the connection at once without a close frame. on_end is not called. */
void dial_cut(struct dial *d);

#endif
