/* feed_connection.h: one connection of a conversation: what is sent on it and when, and how its frames are read. */
#ifndef WSONCE_FEED_CONNECTION_H
#define WSONCE_FEED_CONNECTION_H

#include "intake/feed_client.h"

/* Called from the loop, never from inside a call of this header. */
struct feed_connection_owner {
	void (*on_open)(void *arg, struct feed_connection *conn);
	/* There is no connection, or none any more; the owner frees the line, in this call if it likes. */
	void (*on_end)(void *arg, struct feed_connection *conn, const struct dial_end *end);
	/* A message has been read; is_ready: a rule with `ready` matched. */
	void (*on_ready)(void *arg, struct feed_connection *conn, bool is_ready);
	/* A rule reconnects or is fatal; frame is the head of what matched. The owner may free the line. */
	void (*on_action)(void *arg, struct feed_connection *conn, const struct profile_rule *rule, const char *frame);
	void (*on_rule)(void *arg, const struct profile_rule *rule, struct slice frame);
	/* What the frames of this rule came to. */
	void (*on_count)(void *arg, const struct profile_rule *rule, const struct rule_count *more);
	/* An event with a number of the profile's gap. */
	void (*on_number)(void *arg, const struct session_event *event);
	/* A server gave a value that may be a token. */
	void (*on_secret)(void *arg, const char *text, size_t len);
};

/* Begins to connect as how says, after its HTTP call if there is one. parts must outlive the line, how is copied. */
struct feed_connection *feed_connection_new(const struct feed_client_parts *parts, const struct session_dial *how,
					    size_t mirror, const struct feed_connection_owner *owner, void *arg);

/* Ends the connection, if there is still one, with this code; 0: without a word. on_end is not called. */
void feed_connection_free(struct feed_connection *conn, unsigned int code);

/* To be called ten times a second. May end in on_end. */
void feed_connection_tick(struct feed_connection *conn);

bool feed_connection_is_open(const struct feed_connection *conn);
int64_t feed_connection_since_ms(const struct feed_connection *conn); /* loop clock, when it was begun */

/* Is it older than max_age_s allows? */
bool feed_connection_is_too_old(const struct feed_connection *conn);

/* Is it not read from at present, or is what came meanwhile not read yet, though not for longer than 5 s? */
bool feed_connection_is_behind(const struct feed_connection *conn);

/* It has a successor: it stays until nothing is owed on it, at most until then; longer while it is behind. */
void feed_connection_retire(struct feed_connection *conn, int64_t until_ms);
bool feed_connection_is_done(const struct feed_connection *conn);

#endif
