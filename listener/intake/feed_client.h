/* feed_client.h: the client of one feed that a profile describes. It connects and reconnects. */
#ifndef WSONCE_FEED_CLIENT_H
#define WSONCE_FEED_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "feed/gap.h"
#include "feed/session.h"
#include "net/dial.h"
#include "net/request.h"

struct feed_client;
struct feed_connection;

/* Callbacks for arriving data, called from the loop. on_frame, on_clear, on_read, is_owing and on_close may be NULL. */
struct feed_callbacks {
	/* A connection is open. The result is passed to the other callbacks as `of`. */
	void *(*on_open)(void *arg, struct feed_connection *conn);
	/* A message has come. The callbacks for its events follow, as in session.h, and then on_read. A plain source
	 * gets only on_read; its on_message returns true if the message is an event. */
	bool (*on_message)(void *of, const char *message, size_t len);
	void (*on_frame)(void *of);
	void (*on_event)(void *of, const struct session_event *event);
	void (*on_reject)(void *of, struct slice bytes, const char *why);
	void (*on_cursor)(void *of, struct slice cursor);
	void (*on_ack)(void *of, struct slice frame);
	/* Drop these variables: a rule on the connection `of` says so, or, if of is NULL, a connection has ended. */
	void (*on_clear)(void *arg, void *of, const json_t *names);
	/* As in session.h; may be NULL. */
	void (*on_release)(void *of);
	void (*on_read)(void *of);
	void (*on_too_long)(void *of, const char *head, size_t len, const uint8_t *digest, uint64_t total);
	/* Returns true if the connection still owes acks. Then it is not closed at once. */
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
	void *arg;                  /* passed to the callbacks */
	struct feed_client *beside; /* the line of the same source that was made last; NULL: this is the first one */
};

/* parts is copied; what it points to must outlive the client. Does not connect yet. */
struct feed_client *feed_client_new(const struct feed_client_parts *parts);

/* Connects and reconnects until feed_client_stop, which sends a close frame with this code, or none if it is 0. A
 * stopped client can be started again. */
void feed_client_start(struct feed_client *c);
void feed_client_stop(struct feed_client *c, unsigned int code);

/* Closes the open connection, which brings no messages, and dials again, first at another mirror if no other line of
 * the source uses that one. reason is one sentence. */
void feed_client_redial(struct feed_client *c, const char *reason);

/* Call when others read the source from now on: what they get is not missing here. */
void feed_client_forget_numbers(struct feed_client *c);

/* Replaces the session, which the caller frees. Only while the client is stopped. */
void feed_client_set_session(struct feed_client *c, struct session *session);

/* Call when the session's first messages have changed: makes another connection, and keeps the open one. */
void feed_client_renew(struct feed_client *c);
/* The same, but sends this message (NULL: none) on the open connection. If none is open yet, connects anew. */
void feed_client_tell(struct feed_client *c, const json_t *message);
/* Sends another message on the connection on which feed_client_tell() sent, if it is still the current one. */
void feed_client_tell_more(struct feed_client *c, const json_t *message);
/* True if the feed has confirmed the change: the new connection is ready, or the open one is ready again. Also true
 * without a change. */
bool feed_client_is_renewed(const struct feed_client *c);
/* Closes the connection from before the change. */
void feed_client_turn(struct feed_client *c);

/* Overwrites the secrets of the profile and of the feed's answers with asterisks. */
void feed_client_mask(const struct feed_client *c, char *text);
/* The same for the signatures that s, a session of the same profile, will make. */
void feed_client_hide(const struct feed_client *c, struct session *s);

/* Call after feed_client_stop. Closes the timer; run the loop until it has no more handles. */
void feed_client_close(struct feed_client *c);
/* Call after the loop has ended. NULL is allowed. */
void feed_client_free(struct feed_client *c);

/* Sends an ack, as the profile's send_rate_per_s allows. */
void feed_connection_send(struct feed_connection *conn, struct slice frame);
/* Stops or resumes reading from the connection, which stops while too many acks are owed. */
void feed_connection_hold(struct feed_connection *conn, bool is_held);

/* Counters for the frames that a rule matched. */
struct rule_count {
	uint64_t frames;
	uint64_t events;
	uint64_t nothing; /* frames without an event */
	uint64_t rejected;
	uint64_t filtered;
	uint64_t sends;
};

/* A line as the admin pages show it. profiled.c and source.c set the last members. */
struct source_view {
	unsigned int number; /* number of the line, from 0 */
	const char *url;     /* without secrets; "" before the first connection */
	const char *state;
	const char *error; /* error of the last attempt, or "" */
	bool is_open;
	bool is_unconfirmed;  /* no answer to the first messages, or silent again, until one comes */
	bool is_standby;      /* not started */
	bool is_stopped;      /* stopped for long, because of a rule or a close code */
	bool is_behind;       /* reading is paused, or was until a moment ago */
	bool is_talking;      /* its subscriptions are not all sent */
	bool is_next_talking; /* those of its successor are not */
	bool is_subscribing;  /* the same, for the first time since the start */
	bool is_told;         /* a list was changed on its connection, by a message */
	int64_t open_ms;      /* loop clock, when the connection was opened; 0: it is not open */
	int64_t refused_ms;   /* loop clock, first of the attempts since then that failed; 0: none, or we shall wait */
	int64_t last_message_ms; /* loop clock; 0: none yet */
	/* Messages with data (events, dead letters, or elements that a filter drops), and the time of the last one. A
	 * feed that has lost our subscription may still send heartbeats. */
	uint64_t data;
	int64_t data_ms;
	const struct rule_count *rules; /* one for each rule of the profile, then one for unmatched frames */
	uint64_t connects;
	uint64_t barren;  /* dead letters since the last event */
	uint64_t strange; /* frames of a minute that match no rule, if it had no data; else 0 */
	uint64_t replies;
	struct gaps_count gaps;
	uint64_t filled; /* missing numbers that were fetched later */
	const char *source;
	const char *name;              /* the same, with /2 etc. for lines after the first */
	size_t place;                  /* below sources_places(): never changes while the listener runs */
	const struct line *line;       /* NULL: none is recorded, or it is the first shard's */
	bool is_ready;                 /* open, subscribed and not unconfirmed, or read by another listener */
	uint64_t id;                   /* identifies the source in the fleet */
	uint64_t messages;             /* messages of a plain URL; for a profile see rules */
	const char *list;              /* why its newest list is not in use, or "" */
	const struct silence *silence; /* other listeners hear the source, and this line does not; else NULL */
	const struct profile *profile; /* NULL for a plain URL, which has no rules */
};

/* The texts are valid until the loop runs again. */
struct source_view feed_client_view(const struct feed_client *c);

#endif
