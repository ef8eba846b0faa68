/* feed_client.h: what is said with a feed that a profile describes, over one connection after another. */
#ifndef WSONCE_FEED_CLIENT_H
#define WSONCE_FEED_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "feed/session.h"
#include "intake/sequence_gaps.h"
#include "net/dial.h"
#include "net/request.h"

struct feed_client;
struct feed_connection; /* one connection of it */

/* Where what it brings goes. The functions are called from the loop. */
struct feed_callbacks {
	/* A connection is open. Returns what the others get as `of`. */
	void *(*on_open)(void *arg, struct feed_connection *conn);
	/* A message begins to be read; then come its events and so on, as in session.h; then it is read. Of a plain
	 * source nothing more comes: returns whether the message is an event. */
	bool (*on_message)(void *of, const char *message, size_t len);
	void (*on_frame)(void *of);
	void (*on_event)(void *of, const struct session_event *event);
	void (*on_reject)(void *of, struct slice bytes, const char *why);
	void (*on_cursor)(void *of, struct slice cursor);
	void (*on_ack)(void *of, struct slice frame);
	/* These variables are dropped, as a rule of the connection `of` says, or (NULL) for its end. */
	void (*on_clear)(void *arg, void *of, const json_t *names);
	/* As in session.h. */
	bool (*is_held)(void *of);
	void (*on_release)(void *of);
	void (*on_read)(void *of);
	void (*on_too_long)(void *of, const char *head, size_t len, const uint8_t *digest, uint64_t total);
	/* Are acks still to be sent over this connection? It is then not closed at once. */
	bool (*is_owing)(void *of);
	void (*on_close)(void *of);
};

struct feed_client_parts {
	uv_loop_t *loop;
	const struct config *config;
	struct dialler *dialler;
	struct requests *requests;
	const struct profile *profile;
	struct session *session;
	const struct feed_callbacks *callbacks;
	void *arg; /* passed to the callbacks */
};

/* parts is copied; what it points to must outlive the conversation. Nothing is dialled yet. */
struct feed_client *feed_client_new(const struct feed_client_parts *parts);

/* Connects, and comes back for ever, until feed_client_stop; code is that of the close frame, 0: none is sent. It may
 * be started again. */
void feed_client_start(struct feed_client *c);
void feed_client_stop(struct feed_client *c, unsigned int code);

/* While it is stopped: another session, in the place of the one that is freed. */
void feed_client_set_session(struct feed_client *c, struct session *session);

/* After feed_client_stop: no timer is left. The loop must be run until it has nothing more to do. */
void feed_client_close(struct feed_client *c);
/* After the loop has ended. NULL is allowed. */
void feed_client_free(struct feed_client *c);

/* Sends an ack, as the profile's send_rate_per_s allows. */
void feed_connection_send(struct feed_connection *conn, struct slice frame);
/* Stops reading from it for a while: too many acks are owed. */
void feed_connection_hold(struct feed_connection *conn, bool is_held);

/* What became of the frames that a rule matched. */
struct rule_count {
	uint64_t frames;
	uint64_t events;
	uint64_t nothing; /* frames without an event */
	uint64_t rejected;
	uint64_t filtered;
	uint64_t sends;
};

struct feed_client_view {
	const char *url; /* without secrets; "" before the first connection */
	const char *state;
	const char *error; /* of the last attempt; "" */
	bool is_open;
	bool is_standby; /* it was not started */
	bool is_stopped; /* for good: a rule or a close code said so */
	int64_t last_message_ms;
	const struct rule_count *rules; /* one for each of the profile's, and one for frames that match none */
	uint64_t connects;
	uint64_t replies;
	struct sequence_gaps_count gaps;
};

/* The texts live until the next call into the loop. */
struct feed_client_view feed_client_view(const struct feed_client *c);

#endif
