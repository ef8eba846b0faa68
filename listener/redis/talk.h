/* talk.h: the talk with one server, from the look-up of its name to its end: questions, and answers in the same
 * order, with a deadline. */
#ifndef WSONCE_REDIS_TALK_H
#define WSONCE_REDIS_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/tls.h"
#include "redis/reply.h"

struct talk;

struct talk_settings {
	const struct tls_trust *trust; /* NULL: in the clear */
	int64_t timeout_ms;            /* for connecting, and for each answer */
	const char *password;          /* which errors must not show; NULL: none */
	/* It is connected, and takes questions; those asked from inside come first. It must not be ended from inside.
	 */
	void (*on_open)(void *owner);
	/* It is over, and asks no more. Unanswered questions get NULL after this. why may be NULL, and lives for the
	 * call. Not called from inside talk_connect(). */
	void (*on_end)(void *owner, const char *why);
	/* An answer that is an error, before it is told to who asked; NULL: nobody else wants to know. */
	void (*on_error)(void *owner, const char *text);
	void *owner;
	void *asker; /* the owner that answers are told to */
};

struct talk *talk_new(uv_loop_t *loop, const struct talk_settings *settings);

/* Connects; it must not be connected. host is a name or an address, whose nth address is taken, and lives until on_end;
 * NULL: the socket at path. */
void talk_connect(struct talk *s, const char *host, int port, unsigned int nth, const char *path);

/* Asks a question, as redis_send(). */
int talk_ask(struct talk *s, const char *bytes, size_t len, redis_cb *cb, void *arg);

/* Questions not answered. */
uint64_t talk_unanswered(const struct talk *s);

/* Ends the connection, if there is one. */
void talk_end(struct talk *s, const char *why);

/* Ends it, and frees s: done is called from the loop when nothing of it is left. on_end is called before this
 * returns. */
void talk_free(struct talk *s, void (*done)(void *arg), void *arg);

bool reply_is_error(const struct redis_reply *reply, const char *code);

#endif
