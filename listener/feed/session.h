/* session.h: the conversation with one source, as its profile wants it: variables, cursor, which URL is next, what to
 * say; and from each message to the events in it. No I/O and no clock: intake/ and `wsonce try` do those. */
#ifndef WSONCE_FEED_SESSION_H
#define WSONCE_FEED_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/profile.h"

struct session;
struct variable;

/* p lives as long as the session. is_recording: for `try --frames`; secrets stay symbolic, as ${env:X}. */
struct session *session_new(const struct profile *p, bool is_recording);
void session_free(struct session *s);

/* --- connecting --- */

enum session_how { HOW_FRESH, HOW_REDIRECT, HOW_RESUME, HOW_HTTP };
extern const char *const session_how_names[];

/* What the next connection is to be. All of it lives until the next call of session_connect or session_renew. */
struct session_dial {
	enum session_how how;
	const char *url;       /* secrets and all; NULL: it cannot be known, or, with HOW_HTTP, not before the call */
	const char *shown;     /* the same for logs, without secrets; NULL with url */
	struct slice url_json; /* the URL as JSON; null if it cannot be known */
	const struct slice *on_open; /* JSON texts to send after the upgrade, in order */
	size_t on_open_count;
	const char *fault; /* a secret that cannot be read: one sentence; do not connect then */
};

/* Decides on the next connection. Call it once for each. A redirect that a rule has named is used once. now_ms and
 * closed_ms, when the last connection ended (0: there was none), are of one clock, for resume_window_s. mirror: 0 is
 * the url itself, n the n-th mirror, counted round. With HOW_HTTP make the call of url_http, give its answer to
 * session_answer, and then call session_renew. */
void session_connect(struct session *s, int64_t now_ms, int64_t closed_ms, size_t mirror, struct session_dial *dial);
/* The same connection with the variables of now: after session_answer. */
void session_renew(struct session *s, size_t mirror, struct session_dial *dial);
/* The URL that a rule has named for the next connection, as JSON; {NULL, 0}: none. */
struct slice session_redirect(struct session *s);

/* A template rendered as JSON; {NULL, 0} if it says nothing, or a secret cannot be read (then *fault is a sentence,
 * else NULL). Each ${counter} of it is the next number. Lives until the next call. */
struct slice session_render(struct session *s, const json_t *t, const char **fault);
/* The same of a text: the text itself, not as JSON. */
const char *session_render_text(struct session *s, const char *t, bool is_url, const char **fault);

/* Takes variables from the answer to an HTTP call. false: it is not JSON, or lacks one of them. */
bool session_answer(struct session *s, const struct profile_http *http, const char *body, size_t len);

/* A variable as JSON; {NULL, 0}: not set. Lives until the variable changes. */
struct slice session_var(const struct session *s, const char *name);
/* A number in a variable times factor, in milliseconds of unit_ms each; fallback if it is not a number from 1 ms to a
 * day. */
int64_t session_var_ms(const struct session *s, const char *name, int64_t unit_ms, double factor, int64_t fallback);
/* Drops variables, as a rule's clear does: names is an array. One of the profile's vars gets its first value back. */
void session_clear(struct session *s, const json_t *names);

/* The variables that the source has set, as a JSON object, for a listener that goes on in another's place; secrets are
 * not in it unless the source has sent them. Lives until the next call. */
struct slice session_save(struct session *s);
bool session_load(struct session *s, struct slice saved);

/* What the source did wrong since the last call and was ignored (a value too long to be kept, a cursor of another
 * kind): one sentence, or NULL. */
const char *session_trouble(struct session *s);

/* --- messages --- */

/* One event of a message. All of it lives until the callback returns. */
struct session_event {
	struct slice id;
	struct slice type; /* "" if there is none */
	struct slice time; /* as written, decoded; at NULL: none */
	enum timestamp_unit time_unit;
	struct slice payload; /* JSON; at NULL: there is none */
	struct slice cursor;  /* JSON, for session_advance once this event is durable; at NULL: none */
	struct slice gap_key; /* decoded; at NULL: none */
	struct slice gap_seq; /* JSON; with gap_key for gaps_note */
};

/* What a message calls for, in the order in which it is to be done. Every function is needed. */
struct session_handler {
	void (*on_event)(void *ctx, const struct session_event *event);
	/* A dead letter: bytes of the message, or all of it, and one sentence. */
	void (*on_reject)(void *ctx, struct slice bytes, const char *why);
	/* To be sent now; JSON. */
	void (*on_send)(void *ctx, struct slice frame);
	/* ACTION_RECONNECT or ACTION_FATAL, and the frame that said it. The session has kept the rule's url. */
	void (*on_action)(void *ctx, const struct profile_rule *rule, struct slice frame);
	/* A control frame carried a cursor: for session_advance when all before it is durable. */
	void (*on_cursor)(void *ctx, struct slice cursor);
	/* To be sent when all events of this message so far are durable; JSON. */
	void (*on_ack)(void *ctx, struct slice frame);
	/* This rule matched (the fallback if none did): for counters, `ready`, `http`. Called before the others. */
	void (*on_rule)(void *ctx, const struct profile_rule *rule, struct slice frame);
	/* An element that `where` leaves out. */
	void (*on_filtered)(void *ctx);
	/* A frame of the message begins, before all that is called for it. NULL: nobody cares. */
	void (*on_frame)(void *ctx);
	/* Of a caller that reads several connections in one session: whether hold_until holds the cursor of the one
	 * that the message came by, and that a frame of it has ended that. NULL: there is one connection at a time, and
	 * session_advance holds the cursor. */
	bool (*is_held)(void *ctx);
	void (*on_release)(void *ctx);
};

/* Reads one WebSocket message: of the text that came, whatever it is. Returns its events, after calling handler for all
 * that it calls for. */
size_t session_read(struct session *s, const char *message, size_t len, const struct session_handler *handler,
		    void *ctx);

/* The same as session_render, of a template that points into frame, the one at hand or the last of the message. */
struct slice session_render_frame(struct session *s, const json_t *t, struct slice frame);

/* What many producers who share a session do not share. Zero at first. */
struct session_self {
	struct variable *variables;
	size_t count;
	int64_t counted;
	bool is_known; /* it has been here before */
};

/* Exchanges what the session remembers for self's. Before and after the reading of its message. */
void session_exchange(struct session *s, struct session_self *self);
void session_self_free(struct session_self *self);
/* Bytes of memory of its variables. */
size_t session_self_bytes(const struct session_self *self);
/* Sets a variable: JSON. */
void session_set(struct session *s, const char *name, struct slice value);

/* --- the cursor --- */

/* All up to this cursor is durable: of the session that sent it, in its order. */
void session_advance(struct session *s, struct slice cursor, int64_t now_s);
/* The same, by a caller that keeps what is held to itself. */
void session_advance_at_once(struct session *s, struct slice cursor, int64_t now_s);
/* What session_advance holds counts from now on. */
void session_release(struct session *s);
/* The cursor to ask from next time, rewound, as JSON; {NULL, 0}: none. Lives until the next call. */
struct slice session_cursor(struct session *s);
/* The high-water mark itself, as it is to be stored; and from the store, before the first connection, with the time of
 * storing. */
struct slice session_mark(struct session *s);
bool session_restore(struct session *s, struct slice mark, int64_t since_s);
/* What its values are, on the heap: two of different kinds cannot be compared. is_anew: they take the place of any. */
char *session_cursor_kind(const struct profile *p, bool is_anew);
/* When the mark moved last, by the times that were told. */
int64_t session_moved_s(const struct session *s);

#endif
