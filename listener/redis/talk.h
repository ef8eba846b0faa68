/* talk.h: one connection to one server, from the name lookup to the end. Answers come in order and have a deadline. */
#ifndef WSONCE_REDIS_TALK_H
#define WSONCE_REDIS_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/tls.h"
#include "base/url.h"
#include "redis/reply.h"

struct talk;

struct talk_settings {
	const struct tls_trust *trust; /* NULL without TLS */
	int64_t timeout_ms;            /* for connecting, and for each answer */
	const char *password;          /* masked in errors; NULL if there is none */
	/* Called when it is connected. Commands sent from inside come first. Must not end the connection. */
	void (*on_open)(void *owner);
	/* Called when the connection has ended. Unanswered commands then get NULL. why may be NULL, and is valid during
	 * the call. Not called from inside talk_connect(). */
	void (*on_end)(void *owner, const char *why);
	/* Called for each error, before the callback of its command. May be NULL. */
	void (*on_error)(void *owner, const char *text);
	/* Called for each message of a subscribed channel, with asker. NULL: no subscriptions. */
	void (*on_message)(void *asker, const char *bytes, size_t len);
	void *owner;
	void *asker; /* passed to callbacks as owner */
};

struct talk *talk_new(uv_loop_t *loop, const struct talk_settings *settings);

/* Connects. Must not be connected. host is a name or an address, and must stay valid until on_end; nth selects one of
 * its addresses. If host is NULL, connects to the socket at path. */
void talk_connect(struct talk *s, const char *host, int port, unsigned int nth, const char *path);

/* Sends a command. Like redis_send(). */
int talk_ask(struct talk *s, const char *bytes, size_t len, redis_cb *cb, void *arg);

/* Formats and sends a command of these words. */
#define TALK_SAY(s, cb, arg, ...) talk_say(s, cb, arg, (const char *const[]){__VA_ARGS__, NULL})
int talk_say(struct talk *s, redis_cb *cb, void *arg, const char *const *words);

/* Sends AUTH, if login has a password. */
void talk_log_in(struct talk *s, const struct url *login, redis_cb *cb, void *arg);

/* Returns the number of commands without an answer. */
uint64_t talk_unanswered(const struct talk *s);

#define TALK_REPLICA "the server is a replica and takes no claims (READONLY)"

/* Ends the connection, if there is one. why is passed to on_end. */
void talk_end(struct talk *s, const char *why);

/* Ends the connection, calling on_end before this returns, and frees s. done is called from the loop when s is closed
 * and about to be freed. */
void talk_free(struct talk *s, void (*done)(void *arg), void *arg);

#endif
