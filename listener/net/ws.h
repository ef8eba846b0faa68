/* ws.h: what all WebSocket connections share: the libwebsockets context, the assembly of messages
 * from frames, and when to read. */
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

#define WS_PING_PAYLOAD "wsonce" /* libwebsockets tells of no pong without one */

struct ws;
struct ws_link;

/* Bytes of a message, as they come: a whole frame of it or a part of one. */
struct ws_piece {
	const char *bytes; /* may be NULL if there are none */
	size_t len;
	uint64_t rest; /* bytes of the same frame that are still to come */
	bool is_final; /* the frame is the last one of the message */
	bool is_text;  /* the message is */
};

/* How an owner of connections takes messages. */
struct ws_reader {
	/* A whole message; bytes live for the call. Returns 0, or -1 to end the connection. */
	int (*on_message)(struct ws_link *link, const char *message, size_t len, bool is_text);
	/* A message over the limit has ended: its head, the SHA-256 and length of the whole. NULL: such
	 * a message ends the connection at once with 1009. */
	void (*on_too_long)(struct ws_link *link, const char *head, size_t len, const uint8_t *digest, uint64_t total);
	/* Of a feed, which has no replay: it is stopped last, and has the time it needs for a message. NULL: of a
	 * producer. */
	const struct ws_feed *feed;
};

/* What libwebsockets does for producers. */
struct ws_feed {
	void (*set_reading)(struct ws_link *link, bool is_reading);
	void (*want_write)(struct ws_link *link);
	void (*kill)(struct ws_link *link); /* not in this call */
};

/* Reasons not to read from one connection. */
enum ws_hold {
	WS_HOLD_ACKS = 1,    /* its acks pile up */
	WS_HOLD_DRAIN = 2,   /* what it sends now, it will be told to send elsewhere */
	WS_HOLD_REST = 4,    /* too much of what it sent is no event */
	WS_HOLD_OWED = 8,    /* so many of its messages are not answered, or as a feed not acked, by us */
	WS_HOLD_UNSENT = 16, /* a feed has not read so much of what we sent */
};

/* One open WebSocket connection; a member of its owner's struct. */
struct ws_link {
	struct list link; /* of struct ws */
	struct ws *ws;    /* NULL: not open */
	struct lws *wsi;  /* NULL: of a feed */
	int fd;
	uv_poll_t *poll; /* by which libwebsockets waits for it */
	const struct ws_reader *reader;
	const struct ws_feed *feed; /* NULL: of a producer */
	bool is_begun;              /* its first frame has been looked at */
	bool is_unmasked;           /* that frame has no mask */
	struct list half;           /* of struct ws, while it has an unfinished message */
	int64_t half_ms;            /* loop clock, when that began, or when we last kept it waiting */
	char *bytes;                /* the message so far, if it did not come in one piece */
	size_t len;
	size_t size;
	size_t limit;             /* bytes of a message */
	uint64_t total;           /* bytes of the message so far, also of what is not kept */
	EVP_MD_CTX *digest;       /* not NULL: the message is over the limit, only the head is kept */
	unsigned int holds;       /* enum ws_hold */
	bool has_peer_closed;     /* by a close frame, or we by force: what comes after it is not read */
	struct list lively;       /* of struct ws, if it has been heard lately */
	unsigned int quiet;       /* times that all were stopped since then */
	int64_t heard_ms;         /* loop clock, last sign of life, or when we last kept it waiting */
	int64_t pinged_ms;        /* loop clock, when it was to be pinged since then; 0: not */
	const char *fault;        /* why its connection is ended on this side; NULL: it is not */
	int64_t ping_interval_ms; /* 0: it is not pinged */
	bool is_ping_due;         /* at the next writable callback */
	int64_t last_message_ms;  /* loop clock; set when the connection opens, too, and later by the time unread */
	int64_t unread_ms;        /* loop clock, since when it is not read from; 0: it is */
};

/* Whose memory the messages in pieces are a part of. The functions are called with owner, from the loop. */
struct ws_budget {
	void *owner;
	void (*charge)(void *owner, long bytes); /* so many more, or fewer */
	bool (*is_full)(const void *owner);
	bool (*is_full_for_producers)(const void *owner); /* sooner */
};

/* Makes the context on loop. config and the budget's owner must outlive it; budget is copied. NULL if it cannot. */
struct ws *ws_open(uv_loop_t *loop, const struct config *config, const struct ws_budget *budget);

struct lws_context *ws_context(const struct ws *ws);
void *ws_owner(const struct ws *ws); /* of the budget */
uv_loop_t *ws_loop(const struct ws *ws);

/* So many bytes more, or fewer, of the budget are an owner's of connections. */
void ws_charge(struct ws *ws, long bytes);

/* For a vhost: struct ws pings and hangs up itself. */
const lws_retry_bo_t *ws_no_keepalive(const struct ws *ws);

/* Sets in info what a vhost needs to listen on ADDR:PORT or unix:PATH. The texts live until the next
 * call. config.c has checked the address. */
void ws_listen_address(struct lws_context_creation_info *info, const char *address);

/* A connection is open (called in the callback that says so), or gone. wsi is NULL for a feed. */
void ws_link_open(struct ws *ws, struct ws_link *link, struct lws *wsi, int fd, const struct ws_reader *reader);
void ws_link_close(struct ws_link *link);

/* Takes a piece of a message. Returns 0, or -1 if the connection must end. */
int ws_link_receive(struct ws_link *link, const struct ws_piece *piece);

/* What a close frame's payload is worth: 0 if it is right, else the code that says what is wrong. */
unsigned int ws_judge_close(const char *in, size_t len);

/* From now on nothing is read that comes, as after a close frame. */
void ws_link_ignore(struct ws_link *link);

/* Does the kernel have something of the peer that was not read yet? A loop that stood still (SIGSTOP, a machine that
 * was paused) runs its timers before it reads. */
bool ws_link_has_unread(const struct ws_link *link);

/* The peer has answered a ping. */
void ws_link_heard(struct ws_link *link);

/* To be called after a write outside of a callback: libwebsockets may wait for something else now. */
void ws_link_hook(struct ws_link *link);

/* Has the peer reset the connection of this socket? What it had sent before can still be read, unless libwebsockets is
 * made to write to it. */
bool ws_is_reset(int fd);

/* Asks for a writable callback. */
void ws_link_want_write(struct ws_link *link);

/* Pings this often instead of by --ping-interval; 0: never. */
void ws_link_set_ping(struct ws_link *link, int64_t interval_ms);

/* Takes messages of so many bytes instead of --max-message. */
void ws_link_set_limit(struct ws_link *link, size_t bytes);

/* Is a ping due? Says so once. */
bool ws_link_take_ping(struct ws_link *link);

/* Stops reading from this connection for a reason, or takes the reason back. */
void ws_link_hold(struct ws_link *link, enum ws_hold reason, bool is_held);

/* A close frame with 1001 is on its way: from now on reads and drops until the peer ends the
 * connection. Closing a socket that has something unread would send a RST, which takes the last acks and
 * the close frame with it. Returns false if it is so already. */
bool ws_link_leave(struct ws_link *link);

/* Ends a connection, also one that is no WebSocket yet, from the loop, at once but not in this call. */
void ws_kill(struct ws *ws, struct lws *wsi);

/* Stops reading from all connections of producers, or from all, also new ones; or goes on. */
void ws_set_pressure(struct ws *ws, enum pressure pressure);

/* As PRESSURE_ALL, for good. */
void ws_stop(struct ws *ws);

/* Called by ws_close: of the feeds' connections, which are not libwebsockets'. */
void ws_on_close(struct ws *ws, void (*on_close)(void *arg), void *arg);

/* Ends all connections. The loop must be run until it has nothing more to do. */
void ws_close(struct ws *ws);

/* After the loop has ended. */
void ws_free(struct ws *ws);

#endif
