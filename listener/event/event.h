/* event.h: the events in flight in this process, and their states. */
#ifndef WSONCE_EVENT_H
#define WSONCE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/profile.h"
#include "event/envelope.h"
#include "event/id_hash.h"
#include "base/list.h"

/* Where an event is. Each value is also a list in struct events, so "how many wait for Redis" is a length. Only
 * event_move() changes it, and asserts that event.c's table allows the step. docs/protocol.md's table is made from
 * these comments and that table by `make readme`. */
enum event_state {
	EV_CLAIMING,       /* sent SET NX GET, no answer yet; with --spool-after 0, first written to the spool */
	EV_HELD,           /* another listener is storing it, or should be */
	EV_BEHIND,         /* waits for another message with the same id */
	EV_BATCHED,        /* waits for the next batch */
	EV_STORING,        /* its batch is sent, no result yet */
	EV_BACKING_OFF,    /* waits for its next try and keeps its claim, unless Postgres refused it */
	EV_REFUSED,        /* waits to be recorded as a dead letter */
	EV_DEAD_LETTERING, /* its dead letter is sent, no result yet */
	EV_DONE,           /* committed or a dead letter: answered, then freed */
	EVENT_STATES
};

/* What an event in EV_HELD or EV_BACKING_OFF waits for; kept while the claim that ends the wait is sent. */
enum wait {
	WAIT_NONE,
	WAIT_LEADER, /* the leader of its source; it has not been claimed here */
	WAIT_OWNER,  /* the listener that has its claim */
	WAIT_TURN,   /* the current event with the same --order-pointer key */
	WAIT_EPOCH,  /* the database's epoch: it is committed if that has not changed */
	WAIT_RETRY,  /* its backoff: Postgres refused it */
	WAIT_SERVER, /* its backoff: Postgres could not store it, for a reason not known to lie in the event */
};

/* How an event ended. */
enum outcome {
	OUTCOME_PERSISTED, /* this process inserted the row */
	OUTCOME_DUPLICATE, /* the row existed, or another process has committed it */
	OUTCOME_REJECTED,  /* recorded as a dead letter */
};

struct event;
struct order_key;
struct spool_segment;

/* A sender that waits for the outcome of its messages. Must be the first member of its owner's struct. */
struct sender {
	/* Called once for each message handed in with this sender, when its event has settled. ev->reason says why if
	 * outcome is OUTCOME_REJECTED. ev is freed afterwards. */
	void (*answer)(struct sender *s, const struct event *ev, enum outcome outcome);
	const char *name; /* name of its token or certificate, or NULL */
	uint64_t n;       /* the sender's number for the message being handed in or answered */
	bool resends;     /* resends messages that were not answered, */
	bool forgets;     /* but not to another process */
};

/* A received message that belongs to an event. */
struct copy {
	struct copy *next;
	struct sender *sender; /* NULL: no answer is needed */
	uint64_t n;            /* sender->n when it was handed in */
};

/* One allocation: this struct, then id, type and the message; a profile's event has the lengths of id and type before
 * them. Owned by struct events. With thousands of events in flight, each is out of the processor's cache at its next
 * step, so the members that every step touches come first: a copy that another listener stores needs only three cache
 * lines. */
struct event {
	struct list link;      /* in the list of its state */
	struct list wait_link; /* in a queue of hold.c, in EV_HELD and EV_BACKING_OFF */
	int64_t due_ms;        /* loop clock, when its wait in hold.c ends */
	size_t message_len;
	enum event_state state;
	uint16_t id_len;   /* 0: the message has no usable id, and becomes a dead letter */
	uint16_t asks;     /* answers that named another owner; sets the next delay */
	uint16_t owner;    /* owner of the claim that it was last held for, as in roster.h; 0 if none */
	uint16_t put_offs; /* how often the store postponed it for a reason not known to lie in the event */
	bool is_claimed;   /* as far as we know, our claim is in Redis */
	enum wait wait;
	bool is_unseen;  /* a consumer's statement neither inserted its row nor saw one; it is sent once more */
	uint8_t doubts;  /* marks found but not trusted, because the database's epoch was unknown */
	bool is_counted; /* counted as a duplicate because a claim or mark was found */
	bool is_in_table;
	bool is_loose; /* has an id, was refused without a claim, and is not in the table */
	bool has_time;
	bool is_back;           /* was only on disk, so its source has an answer */
	bool is_unclaimed;      /* to be claimed when it is on disk */
	bool is_ours;           /* argument for claiming_take() when its turn comes */
	bool is_filling;        /* as in struct feed_event */
	bool is_kept;           /* came_us was given: it is the received_at of an exported row */
	bool is_handed;         /* the second connection did not store it; the first one tries */
	bool may_have_row;      /* it was sent, and another transaction or a lost one may store it */
	uint8_t lines;          /* lines of its source on which it came: bit 0 is the first one */
	uint8_t also_lines;     /* the same for `also` */
	struct id_hash id_hash; /* hash of the id, with the key of struct events */
	struct event *in_chain; /* next in its chain of the hash table */
	const char *id;
	int64_t received_us;           /* loop clock, first copy */
	int64_t held_ms;               /* loop clock, when it was first held */
	struct list order_link;        /* in events.ordered */
	struct list spool_link;        /* in a list of spooling.c, or empty */
	struct spool_segment *segment; /* segment of its record; NULL: not on disk */
	struct spool_segment *doubted; /* segment of an older record, which may be lost, until the other is written */
	uint64_t ordinal;              /* ordinal of its record */
	struct order_key *order;       /* NULL: no --order-pointer key */
	unsigned int copies;           /* messages that settle with it */
	uint32_t attempts;             /* failed stores, by this listener */
	struct copy first;
	struct event *behind;  /* the newest event that waits behind it; a list. Owned by struct events */
	size_t bytes;          /* memory charged to the budget, with its copies */
	char *reason;          /* why it is or may become a dead letter; heap, or NULL */
	const uint8_t *digest; /* SHA-256 (32 bytes) of the whole message if `message` keeps only its head; else NULL */
	const char *type;
	uint32_t type_len;
	uint16_t after_ms[PROFILE_LINES_MAX]; /* per line of its source: from came_us to the line's first copy */
	uint32_t also_ms;                     /* from came_us to the first copy from `also` */
	const char *message;                  /* the bytes received, which a dead letter keeps; see source */
	const char *source;   /* its profile's source: if it has an id, `message` is only its payload. Else NULL */
	const char *from;     /* its origin, unless source or a sender's name says it; or NULL. Not owned */
	const char *also;     /* another source, from which copies have joined; or NULL */
	int64_t came_us;      /* Unix time when its bytes were read; strictly increasing unless the clock is set back */
	int64_t won_ms;       /* received_at of its row, Unix time; from a mark only the minute; 0: unknown */
	int64_t time_us;      /* its own Unix time, if has_time */
	struct slice payload; /* inside message, or a constant */
	uint64_t passed;      /* rows this process had stored when the event was first postponed */
	int64_t lease_ms;     /* loop clock, before the claim was sent or renewed */
	int64_t claim_ms;     /* part of the claim's value, in ms since 1970; unique per claim */
};

/* All events of the process. */
struct events {
	struct list lists[EVENT_STATES];
	size_t counts[EVENT_STATES];
	size_t message_bytes[EVENT_STATES];
	struct id_hash_key key;
	struct event **table; /* hash table by id_hash: heads of chains */
	size_t chains;        /* size of the table: a power of two, or 0 */
	size_t in_table;      /* events in the table */
	struct list ordered;  /* in order of arrival */
	size_t bytes;         /* sum of the events' bytes */
	size_t messages;      /* messages in flight: the sum of the events' copies */
	size_t away;          /* messages in flight that are only on disk */
	size_t back;          /* events that were, and have come back */
	size_t deferred;      /* events in WAIT_LEADER */
};

/* An event that has failed is stored in a statement of its own: it would probably fail again, and then the events of
 * its statement must be sent again in smaller ones. */
static inline bool event_has_failed(const struct event *ev)
{
	return ev->attempts || ev->put_offs;
}

/* Prefetch distance, in events: a step takes about 20 ns, a read from memory five times as long. */
#define EVENT_FETCH 6

/* Prefetches the cache lines that a copy stored elsewhere touches. ev may have been freed. */
static inline void event_fetch(const void *ev)
{
	__builtin_prefetch(ev);
	__builtin_prefetch((const char *)ev + 64);
	__builtin_prefetch((const char *)ev + 128);
}

/* The name of the source or sender that ev came from first; "" if there is none. */
static inline const char *event_origin(const struct event *ev)
{
	return ev->source ? ev->source : ev->from ? ev->from : "";
}

void events_init(struct events *es);
/* Frees all events without answering their senders. */
void events_clear(struct events *es);

/* Makes an event for this message, with one copy. state is EV_CLAIMING, EV_BEHIND (pass it to event_put_behind()), or
 * EV_REFUSED (give it a reason). view is NULL if the message has no usable id. Only events in EV_CLAIMING enter the
 * table, so later messages with the id of a refused event are events of their own. now_us is the loop clock. */
struct event *event_new(struct events *es, enum event_state state, const char *message, size_t len,
			const struct envelope_view *view, struct sender *sender, int64_t now_us);

/* Sets the digest of the whole message when only its head was kept. Copies 32 bytes. */
void event_set_digest(struct event *ev, const uint8_t *digest);
/* Replaces the reason by a copy of text. */
void event_set_reason(struct event *ev, const char *text);
/* The SHA-256 of the message, 32 bytes. For a profile's event it covers the lengths, id and type before the payload:
 * many events may have the same payload. */
void event_digest(const struct event *ev, uint8_t *digest);
/* The first 8 bytes of the digest as a number, as in a dead mark. */
uint64_t event_digest_head(const struct event *ev);

/* The name of the first sender that has one, or NULL. */
const char *event_sender(const struct event *ev);

/* The source in its row: that of its profile, the name of the first sender that has one, or `from`; or NULL. */
const char *event_source(const struct event *ev);

/* Sets the key of the hashes, and hashes all events again. It is random at first. */
void events_set_key(struct events *es, const struct id_hash_key *key);

/* Sets view's id_hash. event_find() and event_new() need it. */
void events_hash(const struct events *es, struct envelope_view *view);

/* Returns the event in the table with this view's id, or NULL. */
struct event *event_find(const struct events *es, const struct envelope_view *view);
/* The same by the hash alone. */
struct event *event_find_hash(const struct events *es, const struct id_hash *hash);
/* Prefetches the head of the hash's chain, or its first event. */
void events_fetch_chain(const struct events *es, const struct id_hash *hash);
void events_fetch_event(const struct events *es, const struct id_hash *hash);

/* Returns ev or the event behind it that has exactly this message (and, with a profile, this type); or NULL. */
struct event *event_with_message(struct event *ev, const char *message, size_t len, const struct envelope_view *view);

/* Adds more, in EV_BEHIND, to the events behind ev, as the newest or the oldest. If that makes too many, removes and
 * returns the oldest, which the caller must move to another state; else returns NULL. */
struct event *event_put_behind(struct event *ev, struct event *more, bool is_newest);
/* The event behind ev to try next: the newest of those tried least often. Skips those that were refused without a try;
 * NULL if no others wait. */
struct event *event_next(const struct event *ev);
/* How often storing ev has failed or was postponed. */
uint32_t event_tries(const struct event *ev);
/* next, which waits behind ev, takes over ev's place in the table, its claim and the events behind it. ev leaves the
 * table. */
void event_give_place(struct events *es, struct event *ev, struct event *next);

/* Adds a copy of the event's message. */
void event_add_copy(struct events *es, struct event *ev, struct sender *sender);

void event_move(struct events *es, struct event *ev, enum event_state to);
/* The only way to change what ev waits for. */
void event_set_wait(struct events *es, struct event *ev, enum wait wait);
/* Moves ev to the next batch: it has a claim, or the unique key will decide. */
void event_send(struct events *es, struct event *ev);

/* Answers every copy and frees the event, which must be in EV_DONE. The first copy gets outcome; the others get
 * OUTCOME_DUPLICATE if that was OUTCOME_PERSISTED. */
void event_finish(struct events *es, struct event *ev, enum outcome outcome);

/* Frees an event that is on disk and in EV_HELD or EV_BATCHED. Its messages still count as in flight. Its senders, none
 * of which resends, are answered as if it were stored. */
void event_put_away(struct events *es, struct event *ev);

/* The event received first, or NULL. */
const struct event *events_oldest(const struct events *es);
/* Returns a Unix time, at most now_us: events received before it get no more rows, unless they are exported ones. */
int64_t events_settled_us(const struct events *es, int64_t now_us);
/* The number of events received before us (loop clock). Takes time in proportion to the result. */
size_t events_before(const struct events *es, int64_t us);

const char *event_state_name(enum event_state state);

#endif
