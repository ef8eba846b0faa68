/* feed_client.c owns the client of a feed that a profile describes: when to connect, to which URL, and when to hang up.
 * feed/session.c reads frames, net/dial.c makes a connection, and intake/feed_connection.c sends on it.
 *
 *	down ──▶ calling (HTTP) ──▶ connecting ──▶ open ──▶ down …            and with overlap_s
 *	                                            └──▶ open, with a successor ──▶ open (the successor)
 *
 * If the subscription changes, a successor is made, too. It takes over only when the other connections of the source
 * are subscribed to what this one drops.
 *
 * One timer checks all deadlines ten times a second. */
#include "intake/feed_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "feed/secrets.h"
#include "intake/feed_call.h"
#include "intake/feed_connection.h"
#include "event/line_minutes.h"
#include "event/rejected.h"

#define TICK_MS       100
#define MIN_MS        250 /* first wait after a connection without an event or a `ready` frame */
#define MAX_MS        30000
#define STOPPED_WAITS 20   /* of the longest wait: the time for which a source is stopped, ten minutes by default */
#define SUCCESSOR_MS  1000 /* minimum age of a connection before it gets a successor */
#define OWING_MS      2000 /* how long a replaced connection may stay to send its acks */
#define TELL_MS       60000
#define MUTE_MS       5000 /* a connection closed sooner, and without data, may have been refused */
#define MUTE_ENDS     5    /* after this many in a row, one is tried without the cursor */
#define RESUMES       8    /* every eighth try in a row does not use the feed's own URL to resume */
#define TOLD_ENDS     3    /* connections in a row whose opening and end are logged; later ones only at debug */
#define EXAMPLE_BYTES 160

enum state { STATE_STANDBY, STATE_DOWN, STATE_CALLING, STATE_CONNECTING, STATE_OPEN, STATE_STOPPED };
static const char *const state_names[] = {"standby", "down", "calling", "connecting", "open", "stopped"};

/* How far a connection is with a change of the subscription, or with its successor. */
struct progress {
	bool is_ready;    /* a `ready` rule matched, or without one, a message came */
	bool is_stale;    /* it was made before a change */
	int64_t said_ms;  /* loop clock, when it was told of a change; 0: never */
	int64_t asked_ms; /* loop clock, when it first asked for a successor; 0: never */
	bool is_refused;  /* a rule of the profile has refused that successor */
};

struct feed_client {
	struct feed_client_parts p;
	enum state state;
	uv_timer_t tick;
	unsigned int number;          /* number of the line */
	struct feed_client *beside;   /* next in the ring of the source's lines or shards */
	size_t mirror;                /* mirror dialled last; 0: the URL itself */
	struct feed_connection *now;  /* NULL: none */
	struct feed_connection *next; /* its successor */
	struct feed_connection *old;  /* its predecessor, which may still owe acks */
	struct backoff backoff;
	int64_t retry_ms;    /* loop clock, when to connect next; 0: not planned */
	int64_t closed_ms;   /* loop clock, when the last connection that was not refused ended; 0: none yet */
	int64_t refused_ms;  /* as in struct source_view */
	size_t failures;     /* failures since the last good connection; selects the mirror */
	bool has_ready;      /* the profile has a `ready` rule */
	bool is_unconfirmed; /* no such rule matched in time, and no event came */
	bool has_subscribed; /* since the start, a connection had nothing more to say */
	enum idle idle;
	struct progress of_now, of_next;
	bool is_waiting;               /* next waits for feed_client_turn() to take over */
	char words[EXAMPLE_BYTES + 1]; /* last frame, kept until the connection is good */
	unsigned int mute_ends;        /* connections in a row that may have been closed because of the cursor */
	char *withheld;                /* the cursor, while a connection is tried without it; else NULL */
	int64_t withheld_s;            /* Unix time when that cursor last moved */
	struct secrets *secrets;
	char *redacted_url;
	char error[400];
	int64_t warned_ms;  /* loop clock, when a failure was last logged as a warning; 0: it works */
	bool has_asked;     /* the feed has asked for a wait above the cap since the last good connection */
	size_t ends;        /* open connections that ended since the last good one */
	int64_t trouble_ms; /* loop clock, when invalid data was last logged; 0: never */
	int64_t last_message_ms;
	uint64_t data;
	int64_t data_ms;
	uint64_t connects;
	uint64_t replies;
	struct rule_count *rules;
	struct gaps *gaps; /* NULL: no contiguous `gap` */
	/* Frames that match no rule: counts since they were last logged. */
	int64_t told_ms;
	uint64_t unmatched;
	uint64_t events;
	uint64_t barren;  /* dead letters since the last event */
	uint64_t strange; /* frames that matched no rule in the worst minute that was logged since data came */
	char example[EXAMPLE_BYTES + 1];
};

static int64_t now_ms(const struct feed_client *c)
{
	return (int64_t)uv_now(c->p.loop);
}

static const char *name_of(const struct feed_client *c)
{
	return c->p.profile->name;
}

/* All shards together are one line, since items move between them: it is connected if all are. */
static bool is_line_open(const struct feed_client *c)
{
	const struct feed_client *other = c;
	bool is_any = false;

	if (!c->p.profile->shard.number)
		return c->state == STATE_OPEN;
	do {
		bool is_part = other->state != STATE_STANDBY && !other->p.profile->shard.is_joining;

		if (is_part && other->state != STATE_OPEN)
			return false;
		is_any |= is_part;
		other = other->beside;
	} while (other != c);
	return is_any;
}

/* Records if the line is connected. Lines of a source that sends an event only to some listeners cannot be compared. */
static void note_line(const struct feed_client *c)
{
	const struct profile *p = c->p.profile;
	const char *name = profile_row_source(p);

	if (p->fleet == FLEET_SHARED || (p->shard.number && c->p.config->readers))
		return;
	line_minutes_want(&line_minutes, name, c->number, c->state != STATE_STANDBY || is_line_open(c));
	if (c->gaps)
		line_minutes_number(&line_minutes, name, c->number);
	line_minutes_connect(&line_minutes, name, c->number, is_line_open(c), clock_ms(CLOCK_REALTIME), now_ms(c));
}

static void set_state(struct feed_client *c, enum state state)
{
	enum log_level level = state == STATE_OPEN && c->ends <= TOLD_ENDS ? LOG_INFO : LOG_DEBUG;
	enum state old = c->state;

	if (old == state)
		return;
	c->state = state;
	note_line(c);
	log_one_of_many(level, now_ms(c), "source connection", "source=%s from=%s to=%s url=%s", name_of(c),
			state_names[old], state_names[state], c->redacted_url);
}

/* --- a cursor that is withheld --- */

static void forget_withheld(struct feed_client *c)
{
	free(c->withheld);
	c->withheld = NULL;
	c->mute_ends = 0;
}

/* A feed may refuse a cursor without saying so. But it may also be down, so the cursor counts as refused only if a
 * connection without it, right after one with it, has brought data. */
static void withhold_cursor(struct feed_client *c)
{
	struct slice mark = session_mark(c->p.session);
	json_auto_t *names = json_pack("[s]", "cursor");

	c->withheld = memory_strndup(mark.at, mark.len);
	c->withheld_s = session_moved_s(c->p.session);
	session_clear(c->p.session, names);
}

/* --- ends --- */

static void drop(struct feed_connection **at, unsigned int code)
{
	struct feed_connection *conn = *at;

	*at = NULL;
	if (conn)
		feed_connection_free(conn, code);
}

static unsigned int code_of(const struct feed_client *c)
{
	return (unsigned int)c->p.profile->close_code_on_stop;
}

static void keep_error(struct feed_client *c, const char *reason)
{
	snprintf(c->error, sizeof(c->error), "%s", reason);
	secrets_mask(c->secrets, c->error);
	make_line(c->error);
}

/* Returns a random wait, or the maximum if the profile wants no jitter. */
static int64_t draw_wait(struct feed_client *c)
{
	if (c->p.profile->backoff.jitter)
		return backoff_next(&c->backoff, backoff_draw());
	return backoff_longest(&c->backoff);
}

/* Updates the failures after the connection, which was the current one, has ended. One that was refused does not count
 * for resume_window_s. */
static void judge_end(struct feed_client *c, const struct feed_connection *conn)
{
	int64_t opened_ms = feed_connection_opened_ms(conn);

	if (feed_connection_is_good(conn) || (opened_ms && now_ms(c) - opened_ms >= MUTE_MS))
		c->closed_ms = now_ms(c);
	if (!backoff_judge(&c->backoff, feed_connection_is_good(conn), now_ms(c) - feed_connection_since_ms(conn)))
		return;
	c->warned_ms = c->has_asked = 0;
	c->ends = c->failures = 0;
}

static void on_tick(uv_timer_t *timer);

static void retry_later(struct feed_client *c, const char *reason, int64_t asked_ms, bool is_at_once)
{
	bool was_open = c->state == STATE_OPEN;
	bool may_hurry = is_at_once && !c->backoff.tries; /* only once, because the drawn wait counts as a try */
	bool is_long = asked_ms > c->backoff.cap_ms;
	bool is_first_dial =
		!was_open && c->failures == c->ends; /* its reason says more than that a connection ended */
	bool is_warning =
		!c->warned_ms || is_first_dial || now_ms(c) - c->warned_ms >= TELL_MS || (is_long && !c->has_asked);
	int64_t wait = draw_wait(c) + asked_ms;
	enum log_level level;

	if (c->mute_ends >= MUTE_ENDS)
		withhold_cursor(c);
	wait = (may_hurry || c->withheld) && wait > TICK_MS ? TICK_MS : wait;
	keep_error(c, reason);
	counters.source_disconnects++;
	c->failures++;
	c->ends += was_open;
	level = is_warning ? LOG_WARN : was_open && c->ends <= TOLD_ENDS ? LOG_INFO : LOG_DEBUG;
	log_of_many(c->warned_ms ? LOG_AGAIN : LOG_NEW, level, now_ms(c),
		    was_open ? "source connection lost, will retry" : "cannot connect to source, will retry",
		    "source=%s url=%s reason=%s retry_ms=%lld failures=%zu", name_of(c), c->redacted_url, c->error,
		    (long long)wait, c->failures);
	c->has_asked |= is_long;
	c->warned_ms = is_warning ? now_ms(c) : c->warned_ms;
	c->retry_ms = now_ms(c) + wait;
	set_state(c, STATE_DOWN);
	if (!c->old) /* without a predecessor there is no deadline before then */
		uv_timer_start(&c->tick, on_tick, (uint64_t)wait, TICK_MS);
}

/* The account may be put right, and the feed may have meant a trouble that passes. */
static void stop_for_long(struct feed_client *c, const char *reason)
{
	int64_t wait = STOPPED_WAITS * c->backoff.cap_ms;

	keep_error(c, reason);
	log_error("source has stopped: fix the profile or the account", "source=%s url=%s reason=%s retry_ms=%lld",
		  name_of(c), c->redacted_url, c->error, (long long)wait);
	drop(&c->old, code_of(c));
	drop(&c->next, code_of(c));
	drop(&c->now, code_of(c));
	c->retry_ms = now_ms(c) + wait;
	set_state(c, STATE_STOPPED);
}

/* --- a cursor that the feed refuses --- */

/* True if words mention the cursor; "cursor=" does not count, since it may be an echoed query string. */
static bool names_cursor(const char *words)
{
	const char *at = words;

	while ((at = strcasestr(at, "cursor")) && (at[6] == '=' || strncasecmp(at + 6, "%3d", 3) == 0))
		at += 6;
	return at;
}

/* True if a connection without events ended because the feed refused the cursor. Feeds say so in the answer to the
 * handshake, in a close frame, or in an error message; 410 (gone) and 416 (not in the range) need no words. A page that
 * refuses access may quote the request, or have styles with cursors. */
static bool refuses_cursor(const struct feed_client *c, const struct dial_end *end)
{
	bool has_said = end && (end->close_code || (end->status / 100 == 4 && end->status != 429 &&
						    !feed_call_is_about_access(end->status)));
	bool is_gone = end && (end->status == 410 || end->status == 416);

	return is_gone || (has_said && names_cursor(end->reason)) ||
	       (names_cursor(c->words) && strcasestr(c->words, "error"));
}

static void clear(struct feed_client *c, const json_t *names)
{
	session_clear(c->p.session, names);
	if (c->p.callbacks->on_clear)
		c->p.callbacks->on_clear(c->p.arg, NULL, names);
}

static void drop_cursor(struct feed_client *c, struct slice cursor, int64_t moved_s, const char *words)
{
	json_auto_t *names = json_pack("[s]", "cursor");
	char from[TIMESTAMP_SIZE], to[TIMESTAMP_SIZE], text[EXAMPLE_BYTES];

	snprintf(text, sizeof(text), "%.*s", (int)cursor.len, cursor.at);
	secrets_mask(c->secrets, text);
	keep_error(c, words);
	log_warn("source refused the cursor, reading on without it: events may be missing",
		 "source=%s from=%s to=%s cursor=%s reason=%s", name_of(c), timestamp_print(moved_s * 1000000, from),
		 timestamp_print((int64_t)time(NULL) * 1000000, to), text, c->error);
	clear(c, names);
}

static void drop_withheld(struct feed_client *c)
{
	drop_cursor(c, (struct slice){c->withheld, strlen(c->withheld)}, c->withheld_s,
		    "it closes connections with the cursor, and sends events on one without it");
	c->error[0] = '\0';
	forget_withheld(c);
}

/* Drops the cursor if the feed refused it, since it would refuse it again. end is NULL if we closed the connection. */
static void judge_cursor(struct feed_client *c, const struct dial_end *end)
{
	struct slice mark = c->p.profile->cursor.is_for_fill ? (struct slice){NULL, 0} : session_mark(c->p.session);
	bool is_mute =
		end &&
		(end->was_open
			 ? !feed_connection_has_data(c->now) && now_ms(c) - feed_connection_opened_ms(c->now) < MUTE_MS
			 : end->status == 400 || (feed_call_is_about_access(end->status) && names_cursor(end->reason)));

	if (c->withheld) {
		session_restore(c->p.session, (struct slice){c->withheld, strlen(c->withheld)}, c->withheld_s);
		forget_withheld(c);
	} else if (!feed_connection_is_good(c->now) && mark.at && refuses_cursor(c, end)) {
		drop_cursor(c, mark, session_moved_s(c->p.session), *c->words ? c->words : end->reason);
	} else {
		c->mute_ends = mark.at && is_mute ? c->mute_ends + 1 : 0;
	}
	*c->words = '\0';
}

/* --- connections and their successors --- */

/* True while the predecessor is still being read (at most three connections at once), or the successor has not sent all
 * its subscriptions. */
static bool must_wait(const struct feed_client *c)
{
	return (c->now && c->old && feed_connection_is_behind(c->old)) ||
	       (c->next && feed_connection_is_talking(c->next));
}

/* Makes the successor the current connection. The old one stays until its acks are sent. */
static void promote(struct feed_client *c)
{
	if (c->now) {
		drop(&c->old, code_of(c));
		c->old = c->now;
		judge_end(c, c->old);
		feed_connection_retire(c->old, now_ms(c) + OWING_MS);
	}
	c->now = c->next;
	c->next = NULL;
	c->of_now = c->of_next;
	c->retry_ms = 0;
	c->error[0] = '\0';
	set_state(c, feed_connection_is_open(c->now) ? STATE_OPEN : STATE_CONNECTING);
	log_one_of_many(LOG_INFO, now_ms(c), "source connection has a successor", "source=%s url=%s", name_of(c),
			c->redacted_url);
}

void feed_client_on_open(struct feed_client *c, struct feed_connection *conn)
{
	c->connects++;
	counters.source_connects++;
	if (conn == c->next)
		return;
	c->error[0] = '\0';
	c->refused_ms = 0;
	set_state(c, STATE_OPEN);
}

/* The successor failed: keep the current connection until the feed closes it. */
static void on_successor_end(struct feed_client *c, const char *reason, int64_t asked_ms)
{
	keep_error(c, reason);
	c->retry_ms = now_ms(c) + draw_wait(c) + asked_ms;
	log_one_of_many(LOG_INFO, now_ms(c), "cannot connect the successor of a source connection, will retry",
			"source=%s reason=%s", name_of(c), c->error);
}

/* A feed that is down for a while (503), or seems to refuse the cursor, would refuse every listener. */
static void note_refusal(struct feed_client *c, const struct dial_end *end)
{
	if (end->was_open || (end->wait_ms && end->status / 100 == 5) || c->mute_ends)
		c->refused_ms = 0;
	else if (!c->refused_ms)
		c->refused_ms = now_ms(c);
}

void feed_client_on_end(struct feed_client *c, struct feed_connection *conn, const struct dial_end *end)
{
	int what = end->close_code ? profile_close(c->p.profile, (int)end->close_code) : -1;
	struct feed_connection **at = conn == c->old ? &c->old : conn == c->next ? &c->next : &c->now;
	bool is_successor = at == &c->next, is_now = at == &c->now;
	char reason[400];

	snprintf(reason, sizeof(reason), "%s", end->reason);
	if (is_now) {
		judge_cursor(c, end);
		judge_end(c, conn);
		line_minutes_lose(&line_minutes, profile_row_source(c->p.profile), c->number, end->unheard_ms,
				  clock_ms(CLOCK_REALTIME), now_ms(c));
		note_refusal(c, end);
	}
	drop(at, 0);
	if (what == CLOSE_RESET)
		clear(c, c->p.profile->reset_clear);
	if (what == CLOSE_FATAL && !(is_successor && c->is_waiting))
		stop_for_long(c, reason);
	else if (is_successor)
		on_successor_end(c, reason, end->wait_ms);
	else if (is_now && c->next)
		promote(c);
	else if (is_now)
		retry_later(c, reason, end->wait_ms, what == CLOSE_AT_ONCE);
}

/* A `ready` frame completes the handover to a successor. */
void feed_client_on_ready(struct feed_client *c, struct feed_connection *conn, bool is_ready)
{
	if (!is_ready && (c->has_ready || (conn == c->now && c->of_now.said_ms)))
		return;
	if (conn == c->now) {
		c->of_now.is_ready = true;
		c->of_now.is_refused = false;
		c->of_now.asked_ms = 0;
	}
	c->of_next.is_ready |= conn == c->next;
	if (conn == c->next && !c->is_waiting && !must_wait(c))
		promote(c);
}

void feed_client_on_idle(struct feed_client *c, const struct feed_connection *conn, enum idle idle)
{
	if (conn == c->now)
		c->idle = idle;
}

enum idle feed_client_idle(const struct feed_client *c)
{
	return c->idle;
}

/* The waits grow for a feed that asks each connection for a successor. */
static int64_t soonest_successor(struct feed_client *c)
{
	int64_t soonest = feed_connection_since_ms(c->now) + SUCCESSOR_MS, wait;
	bool may_hurry;

	judge_end(c, c->now);
	may_hurry = !c->backoff.tries;
	wait = draw_wait(c); /* counts as a try */
	wait = may_hurry ? 0 : wait;
	return soonest > now_ms(c) + wait ? soonest : now_ms(c) + wait;
}

static void judge_now(struct feed_client *c)
{
	judge_cursor(c, NULL);
	judge_end(c, c->now);
}

static void leave_now(struct feed_client *c, const char *reason, bool is_at_once)
{
	drop(&c->now, code_of(c));
	if (c->next)
		promote(c);
	else
		retry_later(c, reason, 0, is_at_once);
}

static void reconnect(struct feed_client *c, struct feed_connection *conn, const struct profile_rule *rule,
		      const char *reason)
{
	if (conn == c->old)
		return;
	if (conn == c->now && rule->overlap && c->p.profile->overlap_s) {
		c->of_now.asked_ms = c->of_now.asked_ms ? c->of_now.asked_ms : now_ms(c);
		if (!c->next && !c->retry_ms)
			c->retry_ms = soonest_successor(c);
		return;
	}
	if (conn == c->next) {
		drop(&c->next, code_of(c));
		c->of_now.is_refused = c->of_now.asked_ms;
		on_successor_end(c, reason, 0);
		return;
	}
	judge_now(c);
	leave_now(c, reason, false);
}

/* Dials another mirror next, although this one worked. The caller has logged a warning. */
void feed_client_redial(struct feed_client *c, const char *reason)
{
	size_t failures = c->failures;

	if (c->state != STATE_OPEN || !c->now)
		return;
	judge_now(c);
	c->warned_ms = now_ms(c);
	c->failures = failures;
	leave_now(c, reason, true);
}

void feed_client_on_action(struct feed_client *c, struct feed_connection *conn, const struct profile_rule *rule,
			   const char *frame)
{
	char reason[300];

	/* The URL may hold a secret. */
	snprintf(reason, sizeof(reason), "rule %s: %s", rule->name ? rule->name : "default",
		 rule->url ? "the feed names another URL" : frame);
	if (rule->action == ACTION_RECONNECT || (conn == c->next && c->is_waiting))
		reconnect(c, conn, rule, reason);
	else
		stop_for_long(c, reason);
}

/* --- counts --- */

static struct rule_count *count_of(struct feed_client *c, const struct profile_rule *rule)
{
	return &c->rules[profile_rule_index(c->p.profile, rule)];
}

void feed_client_on_rule(struct feed_client *c, const struct profile_rule *rule, struct slice frame)
{
	c->last_message_ms = now_ms(c);
	if (!c->now || !feed_connection_is_good(c->now))
		snprintf(c->words, sizeof(c->words), "%.*s",
			 (int)(frame.len < EXAMPLE_BYTES ? frame.len : EXAMPLE_BYTES), frame.at);
	if (rule == &c->p.profile->fallback && !c->unmatched)
		snprintf(c->example, sizeof(c->example), "%.*s",
			 (int)(frame.len < EXAMPLE_BYTES ? frame.len : EXAMPLE_BYTES), frame.at);
}

void feed_client_on_count(struct feed_client *c, const struct profile_rule *rule, const struct rule_count *more)
{
	struct rule_count *count = count_of(c, rule);

	count->frames += more->frames;
	c->unmatched += rule == &c->p.profile->fallback ? more->frames : 0;
	count->events += more->events;
	count->nothing += more->nothing;
	count->rejected += more->rejected;
	count->filtered += more->filtered;
	count->sends += more->sends;
	c->replies += more->sends;
	c->events += more->events;
	if (more->events || more->rejected || more->filtered) {
		c->data++;
		c->data_ms = now_ms(c);
		c->strange = 0;
		c->idle = more->events || more->filtered ? IDLE_NOT : c->idle; /* a refusal may answer a subscription */
	}
	c->barren = more->events ? 0 : c->barren + more->rejected;
	if (c->withheld && more->events)
		drop_withheld(c);
}

uint64_t feed_client_on_number(struct feed_client *c, const struct session_event *event)
{
	struct gap gap;

	return c->gaps && gaps_note(c->gaps, event->gap_key, event->gap_seq, &gap) ? gap.missing : 0;
}

/* Logs at most once a minute. */
void feed_client_on_trouble(struct feed_client *c, const char *trouble)
{
	AUTO_FREE char *text = memory_strdup(trouble);

	if (c->trouble_ms && now_ms(c) - c->trouble_ms < TELL_MS)
		return;
	secrets_mask(c->secrets, text);
	log_of_many(log_goes_on(c->trouble_ms, now_ms(c)), LOG_WARN, now_ms(c), "ignoring invalid data from a source",
		    "source=%s reason=%s", name_of(c), text);
	c->trouble_ms = now_ms(c);
}

/* Logs at most once a minute, as a warning if no event came in that time. */
static void tell_unmatched(struct feed_client *c)
{
	if (!c->unmatched || (c->told_ms && now_ms(c) - c->told_ms < TELL_MS))
		return;
	secrets_mask(c->secrets, c->example);
	log_of_many(log_goes_on(c->told_ms, now_ms(c)), c->events ? LOG_INFO : LOG_WARN, now_ms(c),
		    "frames of a source match no rule of its profile", "source=%s frames=%llu events=%llu example=%s",
		    name_of(c), (unsigned long long)c->unmatched, (unsigned long long)c->events, c->example);
	if (c->p.profile->ack_mode == ACK_MODE_NONE && !log_goes_on(c->told_ms, now_ms(c)))
		c->strange = 0;
	else if (c->unmatched > c->strange)
		c->strange = c->unmatched;
	c->told_ms = now_ms(c);
	c->unmatched = c->events = 0;
}

/* Logs once that the feed has not answered the first messages, or has asked for a successor and refuses each, and when
 * that is over. Call while a connection is open. */
static void tell_unconfirmed(struct feed_client *c)
{
	int64_t limit_ms = c->p.config->handshake_timeout_s * 1000;
	bool is_good =
		feed_connection_is_good(c->now) && (!c->of_now.is_refused || now_ms(c) - c->of_now.asked_ms < limit_ms);

	if (is_good && c->is_unconfirmed)
		log_one_of_many(LOG_INFO, now_ms(c), "source has confirmed the subscription", "source=%s", name_of(c));
	c->is_unconfirmed &= !is_good;
	if (is_good || c->is_unconfirmed || !c->has_ready || feed_connection_is_behind(c->now) ||
	    now_ms(c) - feed_connection_opened_ms(c->now) < limit_ms)
		return;
	c->is_unconfirmed = true;
	secrets_mask(c->secrets, c->words);
	log_one_of_many(LOG_WARN, now_ms(c), "source does not confirm the subscription", "source=%s url=%s last=%s",
			name_of(c), c->redacted_url, *c->error ? c->error : c->words);
}

/* --- connecting --- */

static bool is_dialled_beside(const struct feed_client *c, size_t mirror)
{
	const struct feed_client *other = c->beside;

	while (other != c && (other->mirror != mirror || other->state < STATE_CALLING || other->state > STATE_OPEN))
		other = other->beside;
	return other != c;
}

/* Each line has a mirror of its own, and after failures takes the next one that no other line has: there are at least
 * as many URLs as lines. The result is used modulo their number, and also selects the address of a host. */
static size_t choose_mirror(struct feed_client *c)
{
	size_t at = c->number + c->failures, urls = json_array_size(c->p.profile->mirrors) + 1;

	while (!c->p.profile->shard.number && is_dialled_beside(c, at % urls))
		at++;
	c->mirror = at % urls;
	return at;
}

/* The URL may lead to a host that is down, or that the profile does not name. */
static bool doubts_resume(const struct feed_client *c)
{
	const char *url = c->p.profile->url_resume;

	return url && strncmp(url, "${", 2) == 0 && c->failures % RESUMES == RESUMES - 1;
}

static void connect_now(struct feed_client *c)
{
	struct session_dial dial = {0};
	struct feed_connection **at = c->now ? &c->next : &c->now;
	size_t mirror = choose_mirror(c);

	c->retry_ms = 0;
	*(c->now ? &c->of_next : &c->of_now) = (struct progress){0};
	session_connect(c->p.session, now_ms(c), doubts_resume(c) ? -1 : c->closed_ms, mirror, &dial);
	secrets_read(c->secrets, c->p.profile->root);
	free(c->redacted_url);
	c->redacted_url = memory_strdup(dial.redacted_url ? dial.redacted_url : "");
	secrets_mask(c->secrets, c->redacted_url); /* it may come from a feed */
	make_line(c->redacted_url);
	if (at == &c->now)
		set_state(c, dial.how == HOW_HTTP ? STATE_CALLING : STATE_CONNECTING);
	*at = feed_connection_new(&c->p, &dial, mirror, c);
}

/* --- deadlines --- */

static void look_at_successor(struct feed_client *c)
{
	int64_t limit_ms = c->p.profile->overlap_s * 1000;

	if (!c->next || must_wait(c) ||
	    (!c->of_next.is_ready && now_ms(c) - feed_connection_since_ms(c->next) < limit_ms))
		return;
	if (feed_connection_is_open(c->next)) {
		c->of_next.is_ready = true;
		if (!c->is_waiting)
			promote(c);
		return;
	}
	drop(&c->next, code_of(c));
	on_successor_end(c, "the successor was not ready in time", 0);
}

/* Replaces a connection that has reached max_age_s; with overlap_s, connects its successor first. */
static void look_at_age(struct feed_client *c)
{
	if (!c->now || c->next || c->retry_ms || !feed_connection_is_too_old(c->now))
		return;
	if (c->p.profile->overlap_s) {
		c->retry_ms = now_ms(c);
		return;
	}
	if (feed_connection_is_behind(c->now))
		return;
	judge_end(c, c->now);
	drop(&c->now, code_of(c));
	retry_later(c, "the connection has reached max_age_s", 0, true);
}

/* Logs the end of a series of failures that were not logged one by one. */
static void tell_recovery(struct feed_client *c)
{
	if (c->ends <= TOLD_ENDS || c->state != STATE_OPEN ||
	    now_ms(c) - feed_connection_since_ms(c->now) < BACKOFF_GOOD_MS)
		return;
	log_one_of_many(LOG_INFO, now_ms(c), "source connection is stable again", "source=%s url=%s failures=%zu",
			name_of(c), c->redacted_url, c->failures);
	c->ends = 0;
}

/* True if all subscriptions are sent. A quiet feed need not answer them if the profile has no `ready` rule. */
static bool has_said_all(const struct feed_client *c)
{
	return c->state == STATE_OPEN && !feed_connection_is_talking(c->now) &&
	       (feed_connection_is_good(c->now) ||
		(!c->has_ready && now_ms(c) - feed_connection_opened_ms(c->now) >= MUTE_MS));
}

static void on_tick(uv_timer_t *timer)
{
	struct feed_client *c = timer->data;

	if (c->now)
		feed_connection_tick(c->now);
	if (c->next)
		feed_connection_tick(c->next);
	if (c->old)
		feed_connection_tick(c->old);
	if (c->old && feed_connection_is_done(c->old))
		drop(&c->old, code_of(c));
	c->has_subscribed |= has_said_all(c);
	look_at_successor(c);
	look_at_age(c);
	tell_unmatched(c);
	if (c->state == STATE_OPEN)
		tell_unconfirmed(c);
	tell_recovery(c);
	gaps_tell(c->gaps, name_of(c), c->secrets, now_ms(c));
	if (c->retry_ms && now_ms(c) >= c->retry_ms && !c->next && !must_wait(c))
		connect_now(c);
}

/* --- life --- */

static bool has_ready(const struct profile *p)
{
	for (size_t i = 0; i < p->rule_count; i++)
		if (p->rules[i].ready)
			return true;
	return false;
}

struct feed_client *feed_client_new(const struct feed_client_parts *parts)
{
	struct feed_client *c = memory_calloc(1, sizeof(*c));
	const struct profile *p = parts->profile;

	c->p = *parts;
	c->beside = c;
	if (parts->beside) {
		c->number = p->shard.number ? 0 : parts->beside->number + 1;
		c->beside = parts->beside->beside;
		parts->beside->beside = c;
	}
	c->backoff.base_ms = p->backoff.min_ms > 0 ? p->backoff.min_ms : MIN_MS;
	c->backoff.cap_ms = p->backoff.max_ms > 0 ? p->backoff.max_ms : MAX_MS;
	c->has_ready = has_ready(p);
	c->secrets = secrets_new();
	secrets_read(c->secrets, p->root);
	session_hide_secrets(parts->session, c->secrets);
	c->redacted_url = memory_strdup(p->redacted_url ? p->redacted_url : "");
	c->rules = memory_calloc(p->rule_count + 1, sizeof(*c->rules));
	c->gaps = p->gap.seq && p->gap.contiguous ? gaps_new() : NULL;
	uv_timer_init(parts->loop, &c->tick);
	c->tick.data = c;
	return c;
}

void feed_client_start(struct feed_client *c)
{
	bool is_stopped = c->state == STATE_STOPPED;

	if (uv_is_active((uv_handle_t *)&c->tick))
		return;
	c->refused_ms =
		!is_stopped && c->retry_ms > now_ms(c) ? now_ms(c) : 0; /* it has failed before, and still waits */
	c->retry_ms = c->retry_ms > now_ms(c) ? c->retry_ms : now_ms(c);
	if (!is_stopped)
		set_state(c, STATE_DOWN);
	uv_timer_start(&c->tick, on_tick, 0, TICK_MS);
}

void feed_client_stop(struct feed_client *c, unsigned int code)
{
	uv_timer_stop(&c->tick);
	if (c->now)
		judge_end(c, c->now);
	drop(&c->old, code);
	drop(&c->next, code);
	drop(&c->now, code);
	if (c->state > STATE_DOWN && c->state < STATE_STOPPED) /* else a start keeps the wait */
		c->retry_ms = 0;
	c->refused_ms = 0;
	c->is_unconfirmed = false;
	c->is_waiting = false;
	c->idle = IDLE_NOT;
	if (c->barren) /* nothing will show here that the feed is good again */
		rejected_forget();
	c->barren = c->strange = 0;
	if (c->state != STATE_STOPPED)
		set_state(c, STATE_STANDBY);
}

void feed_client_forget_numbers(struct feed_client *c)
{
	gaps_forget(c->gaps);
}

/* Returns true if a connection is open. Else starts a new one: the old one's first messages are already rendered, and
 * the reason for which a source has stopped may be gone. */
static bool begin_change(struct feed_client *c)
{
	bool is_open = c->now && feed_connection_is_open(c->now);

	if (!uv_is_active((uv_handle_t *)&c->tick)) {
		c->retry_ms = c->state == STATE_STOPPED ? 0 : c->retry_ms;
		set_state(c, STATE_STANDBY);
		return false;
	}
	drop(&c->next, code_of(c));
	c->is_waiting = true;
	if (!is_open && (c->now || c->state == STATE_STOPPED)) {
		drop(&c->now, code_of(c));
		set_state(c, STATE_DOWN);
		c->retry_ms = now_ms(c);
	}
	return is_open;
}

void feed_client_renew(struct feed_client *c)
{
	if (!begin_change(c))
		return;
	c->of_now.is_stale = true;
	c->retry_ms = now_ms(c);
}

static void tell(struct feed_client *c, const json_t *message)
{
	const char *trouble;

	feed_connection_say(c->now, session_render_frame(c->p.session, message, true, (struct slice){NULL, 0}));
	trouble = session_trouble(c->p.session);
	if (trouble)
		feed_client_on_trouble(c, trouble);
}

void feed_client_tell(struct feed_client *c, const json_t *message)
{
	if (!begin_change(c))
		return;
	c->of_now.said_ms = now_ms(c);
	if (!message)
		return;
	c->of_now.is_ready = false;
	tell(c, message);
}

void feed_client_tell_more(struct feed_client *c, const json_t *message)
{
	if (c->now && c->of_now.said_ms)
		tell(c, message);
}

bool feed_client_is_renewed(const struct feed_client *c)
{
	int64_t since_ms = c->of_now.said_ms || !c->now ? c->of_now.said_ms : feed_connection_opened_ms(c->now);

	if (c->state == STATE_STANDBY || c->state == STATE_STOPPED) /* a stopped one does not get what moves to it */
		return !c->is_waiting && (c->state == STATE_STANDBY || !c->p.profile->shard.is_joining);
	if (c->of_now.is_stale)
		return c->next && c->of_next.is_ready && !must_wait(c);
	return c->state == STATE_OPEN && !feed_connection_is_talking(c->now) &&
	       (c->of_now.is_ready || now_ms(c) - since_ms >= c->p.profile->overlap_s * 1000);
}

void feed_client_turn(struct feed_client *c)
{
	c->is_waiting = false;
	if (c->next && c->of_next.is_ready)
		promote(c);
}

void feed_client_set_session(struct feed_client *c, struct session *session)
{
	c->p.session = session;
	session_hide_secrets(session, c->secrets);
	c->closed_ms = 0;
	forget_withheld(c);
}

void feed_client_mask(const struct feed_client *c, char *text)
{
	secrets_mask(c->secrets, text);
}

void feed_client_hide(const struct feed_client *c, struct session *s)
{
	session_hide_secrets(s, c->secrets);
}

void feed_client_close(struct feed_client *c)
{
	uv_close((uv_handle_t *)&c->tick, NULL);
}

void feed_client_free(struct feed_client *c)
{
	if (!c)
		return;
	secrets_free(c->secrets);
	free(c->withheld);
	free(c->redacted_url);
	free(c->rules);
	gaps_free(c->gaps);
	free(c);
}

struct source_view feed_client_view(const struct feed_client *c)
{
	/* One that has stopped and was left to others may be dialled again when its wait is over. */
	bool is_over =
		c->state == STATE_STOPPED && !uv_is_active((const uv_handle_t *)&c->tick) && now_ms(c) >= c->retry_ms;
	enum state state = is_over ? STATE_STANDBY : c->state;
	/* A feed that waits for acks may send nothing more. */
	bool has_stalled = c->p.profile->ack_mode != ACK_MODE_NONE && c->state == STATE_OPEN &&
			   now_ms(c) - feed_connection_opened_ms(c->now) >= TELL_MS;
	bool goes_on = has_stalled || log_goes_on(c->told_ms, now_ms(c));
	bool is_talking = c->now && feed_connection_is_talking(c->now);
	bool is_waited_for = c->has_ready && c->state == STATE_OPEN && !feed_connection_is_good(c->now);
	bool is_subscribing = (is_talking || is_waited_for) && !c->has_subscribed && !c->p.profile->shard.is_joining;

	return (struct source_view){
		.number = c->number,
		.url = c->redacted_url,
		.state = state_names[state],
		.error = *c->error                    ? c->error
			 : c->is_unconfirmed          ? "the feed does not confirm the subscription"
			 : c->idle == IDLE_UNANSWERED ? "a ping was not answered, and the feed has sent no event since"
			 : c->idle                    ? "the feed was silent for too long, and has sent no event since"
			 : is_subscribing             ? "it has not subscribed to everything yet"
						      : "",
		.is_open = c->state == STATE_OPEN,
		.is_unconfirmed = c->is_unconfirmed || c->idle,
		.is_standby = state == STATE_STANDBY,
		.is_stopped = state == STATE_STOPPED,
		.is_behind = c->now && feed_connection_is_behind(c->now),
		.is_talking = is_talking,
		.is_next_talking = c->next && feed_connection_is_talking(c->next),
		.is_subscribing = is_subscribing,
		.is_told = c->now && c->of_now.said_ms,
		.open_ms = c->state == STATE_OPEN ? feed_connection_opened_ms(c->now) : 0,
		.refused_ms = c->refused_ms,
		.last_message_ms = c->last_message_ms,
		.data = c->data,
		.data_ms = c->data_ms,
		.barren = has_stalled || now_ms(c) - c->data_ms < REJECTED_RUN_MS ? c->barren : 0,
		.strange = now_ms(c) - c->data_ms >= TELL_MS && goes_on ? c->strange : 0,
		.rules = c->rules,
		.connects = c->connects,
		.replies = c->replies,
		.gaps = gaps_count(c->gaps),
	};
}
