/* long_head.h: handshakes whose head is longer than LONG_HEAD_BYTES, or malformed. */
#ifndef WSONCE_LONG_HEAD_H
#define WSONCE_LONG_HEAD_H

#include <libwebsockets.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "net/watch.h"

#define LONG_HEAD_BYTES 4096 /* maximum size of a head */
/* libwebsockets' memory for such a head: a line of four bytes takes at most eleven there. */
#define LONG_HEAD_ROOM (4 * LONG_HEAD_BYTES)

/* A handshake; a member of its owner's struct. All zeros: not watched. */
struct long_head {
	struct lws *wsi;
	struct watch watch;
	void (*on_long)(struct long_head *head);
	size_t len;  /* bytes so far */
	size_t line; /* bytes of the line that has not ended */
	bool has_line;
	bool is_whole;
	/* For finding malformed heads: */
	bool has_cr;    /* the last byte was a CR */
	bool has_colon; /* the line has what makes it well-formed */
	bool has_request_line;
	size_t host; /* bytes of "host:" that the line begins with */
	size_t hosts;
	bool is_malformed;
};

/* Watches a connection that has sent nothing yet. on_long is called once, later, before libwebsockets reads the bytes
 * beyond the limit, or the rest of a malformed head; it must end the connection. End the watch before the struct is
 * freed, and before the connection becomes a WebSocket. */
void long_head_watch(struct long_head *head, uv_loop_t *loop, struct lws *wsi, void (*on_long)(struct long_head *head));

/* Answers a handshake with a status, Connection: close, and the header lines in extra (each with its CR LF, or "").
 * Returns -1, which tells libwebsockets to close the connection. */
int long_head_answer(struct lws *wsi, unsigned int status, const char *extra);

/* Returns 400 if the head is malformed, 431 if it is too long. */
unsigned int long_head_status(const struct long_head *head);
/* Answers with that status, and reads what has arrived, since closing a socket with unread bytes can destroy the
 * answer. */
void long_head_refuse(struct long_head *head);

#endif
