/* session.h: the state of one source with a profile: variables, cursor, the next URL and the messages to send. It also
 * parses messages into events. No I/O and no clock: intake/ has those. */
#ifndef WSONCE_FEED_SESSION_H
#define WSONCE_FEED_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/profile.h"
#include "feed/vars.h"

struct session;

/* p must outlive the session. is_recording: for `try --frames`; secrets stay symbolic, as ${env:X}. */
struct session *session_new(const struct profile *p, bool is_recording);
void session_free(struct session *s);

/* --- connecting --- */

enum session_how { HOW_FRESH, HOW_REDIRECT, HOW_RESUME, HOW_HTTP };
extern const char *const session_how_names[];

/* The next connection. Valid until the next call of session_connect or session_renew. */
struct session_dial {
	enum session_how how;
	const char *url;             /* with secrets; NULL: unknown, or with HOW_HTTP known only after the call */
	const char *redacted_url;    /* url without secrets, for logs; NULL with url */
	struct slice url_json;       /* the URL as JSON; null if unknown */
	const struct slice *on_open; /* JSON texts to send after the handshake, in order */
	size_t on_open_count;
	const char *fault; /* a secret cannot be read: one sentence; do not connect */
};

/* Chooses the next connection. Call it once per connection, since it uses up a redirect from a rule. closed_ms is when
 * the last connection ended (0: none did, so the time of the stored cursor counts; -1: don't resume), on the clock of
 * now_ms; both are for resume_window_s. mirror is 0 for `url` and n for the n-th mirror, modulo the number of URLs.
 * With HOW_HTTP, make the call of url_http, pass its answer to session_answer, and call session_renew. */
void session_connect(struct session *s, int64_t now_ms, int64_t closed_ms, size_t mirror, struct session_dial *dial);
/* The same connection with the current variables. Call after session_answer. */
void session_renew(struct session *s, size_t mirror, struct session_dial *dial);
/* The URL that a rule has set for the next connection, as JSON, or {NULL, 0}. */
struct slice session_redirect(struct session *s);

/* Renders a template as JSON. Returns {NULL, 0} if it has no value, or if a secret cannot be read: then *fault is a
 * sentence, else NULL. Each ${counter} takes the next number. A signature may cover a whole request, so the time is
 * that of the last URL (session_connect, session_renew, session_render_text). Valid until the next call. */
struct slice session_render(struct session *s, const json_t *t, const char **fault);
/* The same for a text, which is returned as a plain text, not as JSON. is_url: it is a URL. */
const char *session_render_text(struct session *s, const char *t, bool is_url, const char **fault);
/* From now on adds the signatures that s makes, and the texts that the feed sets variables to, to secrets, which must
 * outlive s. */
struct secrets;
void session_hide_secrets(struct session *s, struct secrets *secrets);

/* Captures variables from the answer to an HTTP call. Returns false if it is not JSON or lacks one of them. */
bool session_answer(struct session *s, const struct profile_http *http, const char *body, size_t len);

/* A variable as JSON, or {NULL, 0} if it is not set. Valid until the variable changes. */
struct slice session_var(const struct session *s, const char *name);
/* Returns the variable's number times factor and unit_ms, in milliseconds; or fallback if the result is not from 1 ms
 * to one day. */
int64_t session_var_ms(const struct session *s, const char *name, int64_t unit_ms, double factor, int64_t fallback);
/* Clears the variables in the array names, as a rule's `clear` does. Those in the profile's `vars` return to their
 * initial value. */
void session_clear(struct session *s, const json_t *names);

/* Returns the variables that the source has set, as a JSON object, for a listener that takes over. Its only secrets are
 * those that the source has sent. Valid until the next call. */
struct slice session_save(struct session *s);
bool session_load(struct session *s, struct slice saved);

/* Returns a sentence about invalid input ignored since the last call (a value too long to keep, a cursor of another
 * kind), or NULL. */
const char *session_trouble(struct session *s);

/* --- messages --- */

/* One event of a message. Valid until the callback returns. */
struct session_event {
	const struct profile_rule *rule;
	struct slice id;
	struct slice type; /* "" if there is none */
	struct slice time; /* decoded; at is NULL if absent */
	enum timestamp_unit time_unit;
	struct slice payload; /* JSON; at is NULL if absent */
	struct slice cursor;  /* JSON; for session_advance once this event is durable; at is NULL if absent */
	struct slice gap_key; /* decoded; at is NULL if absent */
	struct slice gap_seq; /* JSON, or the digits of a text; with gap_key for gaps_note */
	uint64_t missing;     /* numbers missing before it in its series, as far as the callee knows */
};

/* Callbacks, called in the order in which their work must be done. Only on_event and on_reject are required. */
struct session_handler {
	void (*on_event)(void *ctx, const struct session_event *event);
	/* Write a dead letter: the message or a part of it, and a reason in one sentence. */
	void (*on_reject)(void *ctx, struct slice bytes, const char *why);
	/* Send this JSON now. */
	void (*on_send)(void *ctx, struct slice frame);
	/* The frame matched a rule with ACTION_RECONNECT or ACTION_FATAL. The session has kept the rule's url. */
	void (*on_action)(void *ctx, const struct profile_rule *rule, struct slice frame);
	/* A control frame has a cursor: pass it to session_advance when everything before it is durable. */
	void (*on_cursor)(void *ctx, struct slice cursor);
	/* Send this JSON when all events of this message so far are durable. */
	void (*on_ack)(void *ctx, struct slice frame);
	/* This rule or the fallback matched. For counters, `ready` and `http`. Called before the others. */
	void (*on_rule)(void *ctx, const struct profile_rule *rule, struct slice frame);
	/* The frame has no list at the place that the rule's `explode` names. */
	void (*on_no_list)(void *ctx, struct slice frame);
	/* `where` has filtered out an element. */
	void (*on_filtered)(void *ctx);
	/* A frame of the message begins; called before its other callbacks. */
	void (*on_frame)(void *ctx);
	/* The frame matches hold_until. If NULL, the session itself releases the cursor that session_advance holds,
	 * which is right for a caller with one connection at a time. */
	void (*on_release)(void *ctx);
};

/* Reads one WebSocket message, which may be any bytes. Returns its number of events, after all calls of handler. */
size_t session_read(struct session *s, const char *message, size_t len, const struct session_handler *handler,
		    void *ctx);
/* Reads one of the messages of a text. Subtracts what its events and answers repeat from *room, which is at first the
 * SESSION_ROOM() of the whole text. */
size_t session_read_part(struct session *s, const char *message, size_t len, size_t *room,
			 const struct session_handler *handler, void *ctx);

/* As session_render, with a time of its own, for a template that points into frame: the current or the last frame of
 * the message, or none. With is_message, {"text": T} is the text T. If a secret cannot be read, session_trouble says
 * so. */
struct slice session_render_frame(struct session *s, const json_t *t, bool is_message, struct slice frame);

/* The part of a session that producers do not share. Starts as all zeros. */
struct session_self {
	struct vars vars;
	int64_t counted;
	bool is_known; /* it has been exchanged before */
};

/* Swaps the session's state with self. Call before and after reading a message of self. */
void session_exchange(struct session *s, struct session_self *self);
void session_self_free(struct session_self *self);
/* Memory of its variables in bytes. */
size_t session_self_bytes(const struct session_self *self);
/* Sets a variable to a JSON value. */
void session_set(struct session *s, const char *name, struct slice value);

/* Returns how many events and dead letters a text of len bytes may give without max_elements: an event takes 500 bytes
 * of memory, but an element of the text as few as two. */
#define SESSION_USUAL(len) (10000 + (len) / 64)
/* Returns how many bytes the events of such a text may repeat of it and of variables, and answers of variables. */
#define SESSION_ROOM(len) (16 * ((len) + (1 << 20)))

/* --- the cursor --- */

/* Call when everything up to this cursor is durable, in the order in which this session returned the cursors. */
void session_advance(struct session *s, struct slice cursor, int64_t now_s);
/* The same, but never held: for a caller with several connections. */
void session_advance_at_once(struct session *s, struct slice cursor, int64_t now_s);
/* Releases the cursor that session_advance holds. */
void session_release(struct session *s);
/* The cursor to resume from, rewound, as JSON, or {NULL, 0}. Valid until the next call. */
struct slice session_cursor(struct session *s);
/* session_mark: the high-water mark, to be stored. session_restore: sets it from the store, before the first
 * connection, with the time when it was stored. */
struct slice session_mark(struct session *s);
bool session_restore(struct session *s, struct slice mark, int64_t since_s);
/* Returns the kind of the cursor's values, on the heap. Values of different kinds cannot be compared. is_anew: a kind
 * whose values always replace the last one, even a larger one. */
char *session_cursor_kind(const struct profile *p, bool is_anew);
/* Unix time when the mark last moved. */
int64_t session_moved_s(const struct session *s);

#endif
