/* feed_connection.h: one connection to a feed: what it sends and when, and how its frames are read. */
#ifndef WSONCE_FEED_CONNECTION_H
#define WSONCE_FEED_CONNECTION_H

#include "intake/feed_client.h"
#include "intake/idle.h"

/* What a connection tells its client. feed_client.c has these. Called from the loop, never from inside a call of this
 * header. */
void feed_client_on_open(struct feed_client *c, struct feed_connection *conn);
/* The connection failed or ended. The client frees it, here or later. */
void feed_client_on_end(struct feed_client *c, struct feed_connection *conn, const struct dial_end *end);
/* A message was read. is_ready: a rule with `ready` matched in it. */
void feed_client_on_ready(struct feed_client *c, struct feed_connection *conn, bool is_ready);
/* The source's state has changed to this one, as far as conn shows. */
void feed_client_on_idle(struct feed_client *c, const struct feed_connection *conn, enum idle idle);
enum idle feed_client_idle(const struct feed_client *c);
/* A rule with ACTION_RECONNECT or ACTION_FATAL matched. frame is the start of the matched frame. The client may free
 * the connection. */
void feed_client_on_action(struct feed_client *c, struct feed_connection *conn, const struct profile_rule *rule,
			   const char *frame);
/* A frame matched this rule, or the fallback; feed_client_on_count counts it. */
void feed_client_on_rule(struct feed_client *c, const struct profile_rule *rule, struct slice frame);
/* Adds to the counters of this rule. */
void feed_client_on_count(struct feed_client *c, const struct profile_rule *rule, const struct rule_count *more);
/* An event with a sequence number (`gap` of the profile). Returns how many are missing before it. */
uint64_t feed_client_on_number(struct feed_client *c, const struct session_event *event);
/* The server sent data that was ignored. */
void feed_client_on_trouble(struct feed_client *c, const char *trouble);

/* Makes the HTTP call of how, if it has one, and connects. parts, the client's, must outlive the connection; how is
 * copied. */
struct feed_connection *feed_connection_new(const struct feed_client_parts *parts, const struct session_dial *how,
					    size_t mirror, struct feed_client *client);

/* Closes the connection with this code, or without a close frame if it is 0. on_end is not called. */
void feed_connection_free(struct feed_connection *conn, unsigned int code);

/* Sends a message of the profile's own. Does nothing if the connection is not open. */
void feed_connection_say(struct feed_connection *conn, struct slice message);

/* Call ten times a second. May call on_end. */
void feed_connection_tick(struct feed_connection *conn);

bool feed_connection_is_open(const struct feed_connection *conn);
int64_t feed_connection_since_ms(const struct feed_connection *conn);  /* loop clock, when it was created */
int64_t feed_connection_opened_ms(const struct feed_connection *conn); /* loop clock, when it was opened */

/* True if it has brought an event or a frame that a rule with `ready` matched. */
bool feed_connection_is_good(const struct feed_connection *conn);
/* True if it has brought an event, a dead letter, or what a filter leaves out. */
bool feed_connection_has_data(const struct feed_connection *conn);

/* True while it may still subscribe: messages wait for the rate, or a call of a rule waits for its answer. */
bool feed_connection_is_talking(const struct feed_connection *conn);

/* True if it is older than max_age_s allows. */
bool feed_connection_is_too_old(const struct feed_connection *conn);

/* True if reading is paused, or resumed less than 5 s ago and data is still unread. */
bool feed_connection_is_behind(const struct feed_connection *conn);

/* The connection has a successor. It stays until its acks are sent or until_ms has passed, and longer while it is
 * behind. */
void feed_connection_retire(struct feed_connection *conn, int64_t until_ms);
bool feed_connection_is_done(const struct feed_connection *conn);

#endif
