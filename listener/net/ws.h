/* ws.h: what all WebSocket connections share: the libwebsockets context, the assembly of messages from frames, and when
 * to read. */
#ifndef WSONCE_WS_H
#define WSONCE_WS_H

#include <libwebsockets.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "base/list.h"
#include "base/pressure.h"
#include "net/watch.h"

#define WS_PING_PAYLOAD "wsonce" /* libwebsockets does not report a pong without a payload */

struct ws;
struct ws_link;

/* Bytes of a message as they arrive: a whole frame, or part of one. */
struct ws_piece {
	const char *bytes; /* may be NULL if there are none */
	size_t len;
	uint64_t rest; /* bytes of the same frame that are still to come */
	bool is_final; /* the frame is the last one of the message */
	bool is_text;  /* the message is a text */
};

/* How the owner of a connection takes messages. */
struct ws_reader {
	/* A whole message, valid during the call. Returns 0, or -1 to end the connection. */
	int (*on_message)(struct ws_link *link, const char *message, size_t len, bool is_text);
	/* A message over the limit has ended: its head, and the SHA-256 and length of the whole. If NULL, such a
	 * message ends the connection at once with 1009. */
	void (*on_too_long)(struct ws_link *link, const char *head, size_t len, const uint8_t *digest, uint64_t total);
	/* Set for a feed: reading from it stops last, and a message may take any time. NULL: a producer. */
	const struct ws_feed *feed;
};

/* What dial.c does for a feed; for producers, libwebsockets does it. */
struct ws_feed {
	void (*set_reading)(struct ws_link *link, bool is_reading);
	void (*want_write)(struct ws_link *link);
	void (*kill)(struct ws_link *link); /* later, not in this call */
};

/* Reasons not to read from one connection. */
enum ws_hold {
	WS_HOLD_ACKS = 1,    /* its acks pile up */
	WS_HOLD_DRAIN = 2,   /* the listener is stopping */
	WS_HOLD_REST = 4,    /* it sends too much garbage */
	WS_HOLD_OWED = 8,    /* we owe too many answers to a producer, or acks to a feed */
	WS_HOLD_UNSENT = 16, /* a feed leaves too much of what we sent unread */
};

/* One open WebSocket connection; a member of its owner's struct. */
struct ws_link {
	struct list link; /* in a list of struct ws */
	struct ws *ws;    /* NULL: not open */
	struct lws *wsi;  /* NULL: a feed */
	int fd;
	struct watch watch; /* watch of a producer's socket */
	const struct ws_reader *reader;
	const struct ws_feed *feed; /* NULL: a producer */
	bool resends;               /* reading from it stops as early as from producers */
	bool is_begun;              /* its first frame was checked */
	bool is_unmasked;           /* that frame has no mask */
	struct list half;           /* in a list of struct ws, while it has an unfinished message */
	int64_t half_ms;            /* loop clock, when that began, or when reading last resumed */
	char *bytes;                /* the message so far, if it comes in pieces */
	size_t len;
	size_t size;
	size_t limit;             /* maximum bytes of a message */
	uint64_t total;           /* bytes of the message so far, including dropped ones */
	EVP_MD_CTX *digest;       /* not NULL: the message is over the limit, only the head is kept */
	unsigned int holds;       /* enum ws_hold */
	bool has_peer_closed;     /* read nothing more: it sent a close frame, or ws_link_ignore was called */
	struct list lively;       /* in a list of struct ws, if it has sent data lately */
	unsigned int quiet;       /* how often all reading was stopped since it last sent data */
	int64_t heard_ms;         /* loop clock, last sign of life, or when reading last resumed */
	int64_t pinged_ms;        /* loop clock, first ping since then; 0: none */
	const char *fault;        /* why this side ends the connection; NULL: it does not */
	int64_t ping_interval_ms; /* 0: no pings */
	bool is_ping_due;         /* send it in the next writable callback */
	int64_t last_message_ms;  /* loop clock, starts with the opening; moves on while reading is stopped */
	int64_t unread_ms;        /* loop clock, when reading was stopped; 0: it is not */
};

/* The budget that unfinished messages are charged to. The functions are called with owner, from the loop. */
struct ws_budget {
	void *owner;
	void (*charge)(void *owner, long bytes); /* bytes more, or fewer */
	bool (*is_full)(const void *owner);
	bool (*is_full_for_producers)(const void *owner); /* true sooner than is_full */
};

/* Creates the context on loop. config and the budget's owner must outlive it; budget is copied. Returns NULL on
 * failure. */
struct ws *ws_open(uv_loop_t *loop, const struct config *config, const struct ws_budget *budget);

struct lws_context *ws_context(const struct ws *ws);
void *ws_owner(const struct ws *ws); /* the budget's owner */
uv_loop_t *ws_loop(const struct ws *ws);

/* Charges bytes to the budget, or returns them if negative. */
void ws_charge(struct ws *ws, long bytes);

/* For a vhost: turns off libwebsockets' own pings and timeouts. */
const lws_retry_bo_t *ws_no_keepalive(const struct ws *ws);

/* Call in the callback that says that a connection is open; and when it is gone. wsi is NULL for a feed. */
void ws_link_open(struct ws *ws, struct ws_link *link, struct lws *wsi, int fd, const struct ws_reader *reader);
void ws_link_close(struct ws_link *link);

/* Adds a piece of a message. Returns 0, or -1 if the connection must end. */
int ws_link_receive(struct ws_link *link, const struct ws_piece *piece);

/* Checks a close frame's payload. Returns 0 if it is valid, else the close code to answer with. */
unsigned int ws_judge_close(const char *in, size_t len);

/* Drops all further data, as after a close frame. */
void ws_link_ignore(struct ws_link *link);

/* True if the kernel holds unread data. After SIGSTOP or a paused machine, the loop runs its timers before it reads. */
bool ws_link_has_unread(const struct ws_link *link);

/* Call when the peer has answered a ping. */
void ws_link_heard(struct ws_link *link);

/* Call after a write outside of a callback, because libwebsockets may have restarted its poll handle. */
void ws_link_hook(struct ws_link *link);

/* True if the peer has reset this socket. Data from before can still be read until libwebsockets writes to it. */
bool ws_is_reset(int fd);

/* Asks for a writable callback. */
void ws_link_want_write(struct ws_link *link);

/* Sets the ping interval in place of --ping-interval; 0: no pings. */
void ws_link_set_ping(struct ws_link *link, int64_t interval_ms);

/* Sets the maximum message size in place of --max-message. */
void ws_link_set_limit(struct ws_link *link, size_t bytes);

/* Says whether a feed sends again what was not acked. Then it waits as producers do, so that it leaves memory to feeds
 * that cannot. */
void ws_link_set_resends(struct ws_link *link, bool resends);

/* Returns true once for each ping that is due. */
bool ws_link_take_ping(struct ws_link *link);

/* Adds a reason not to read from this connection, or removes it. */
void ws_link_hold(struct ws_link *link, enum ws_hold reason, bool is_held);

/* Call after sending a close frame with 1001: reads and drops data until the peer closes. Closing a socket with unread
 * data would send a RST, which can destroy the last acks and the close frame. Returns false if this was called before.
 */
bool ws_link_leave(struct ws_link *link);

/* Closes a connection soon, from the loop, not in this call. It need not be a WebSocket yet. */
void ws_kill(struct ws *ws, struct lws *wsi);

/* Stops or resumes reading from all producers, or from all connections. New connections are included. */
void ws_set_pressure(struct ws *ws, enum pressure pressure);

/* Stops all reading for good. */
void ws_stop(struct ws *ws);

/* Sets a function that ws_close calls to close the feeds' connections, which libwebsockets does not know. */
void ws_on_close(struct ws *ws, void (*on_close)(void *arg), void *arg);

/* Closes all connections. Run the loop until nothing is left to do. */
void ws_close(struct ws *ws);

/* Call after the loop has ended. */
void ws_free(struct ws *ws);

#endif
