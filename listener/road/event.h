/* event.h: one event at work in this process, its states, and the table of all of them. */
#ifndef WSONCE_EVENT_H
#define WSONCE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "road/envelope.h"
#include "base/list.h"

/* Where an event is. Each value is also a list in struct events, so "how many wait for Redis" is a length. Only
 * event_move() changes it, and asserts that event.c's table allows the step. docs/protocol.md's table is made from
 * these comments and that table by `make readme`. */
enum event_state {
	EV_CLAIMING,    /* SET NX GET is sent, its answer not seen */
	EV_HELD,        /* another listener is at work on it, or should be */
	EV_BEHIND,      /* another message with its id is at work */
	EV_LOOKING,     /* its key is in an MGET whose answer is not seen */
	EV_BATCHED,     /* waits for the next batch */
	EV_STORING,     /* its batch is sent, the result not seen */
	EV_COUNTING,    /* Postgres refused it; the fleet's count of tries is asked for */
	EV_BACKING_OFF, /* keeps its claim for the backoff; then gives it back if it was refused, not only postponed */
	EV_REFUSED,     /* waits to be recorded as a dead letter */
	EV_BURYING,     /* its dead letter is sent, the result not seen */
	EV_DONE,        /* committed or a dead letter: answered, then freed */
	EVENT_STATES
};

/* How an event ended. */
enum outcome {
	OUTCOME_PERSISTED, /* this process inserted the row */
	OUTCOME_DUPLICATE, /* the row was there, or is known to be committed elsewhere */
	OUTCOME_REJECTED,  /* recorded as a dead letter */
};

struct event;

/* Who sent a message and wants to know how it ended: the first member of its owner's struct. */
struct sender {
	/* Called once for each message handed in with this sender, when its event has settled.
	 * reason is NULL but for OUTCOME_REJECTED. ev is freed afterwards. */
	void (*answer)(struct sender *s, const struct event *ev, enum outcome outcome);
	const char *name; /* of its token or certificate; NULL: none is known */
	uint64_t n;       /* the sender's number of the message that is handed in, or answered */
};

/* A received message that belongs to an event. */
struct copy {
	struct copy *next;
	struct sender *sender; /* NULL: nobody waits for an answer */
	uint64_t n;            /* the sender's, when it was handed in */
};

/* One allocation: this struct, then id, type and the message (of a profile's event, first their lengths). Owned by
 * struct events. With ten thousand of them at work each is out of the processor's cache when its turn comes, so what
 * each step touches comes first: three lines of the cache for a copy that another listener stores. */
struct event {
	struct list link;      /* in the list of its state */
	struct list wait_link; /* in hold.c's list, in EV_HELD and EV_BACKING_OFF */
	int64_t due_ms;        /* loop clock, when hold.c hands it out */
	size_t message_len;
	enum event_state state;
	uint16_t id_len;   /* 0: the message has no usable id, and never leaves the dead-letter way */
	uint16_t looks;    /* MGETs since it was held: sets the next delay */
	uint16_t owner;    /* of the claim that it was held for last, as in owners.h; 0: of none */
	uint16_t put_offs; /* times that the store gave it back, for no fault of its own as far as is known */
	bool is_claimed;   /* our value is, as far as we know, in Redis */
	bool is_deferred;  /* left to the preferred instance, and not looked at since */
	bool has_turn;     /* left to others while Redis is away, until our turn has come */
	bool is_unseen;    /* a consumer's statement neither made its row nor saw it: it is asked once more */
	uint8_t doubts;    /* times that a mark of it was read, and not believed before Postgres told its epoch */
	bool is_counted;   /* among the duplicates, by a claim or mark that was there */
	bool is_in_table;
	bool is_stray; /* came without an id, or behind another, or was refused at the door */
	bool is_loose; /* has an id, is refused without a claim, and is not in the table */
	bool has_time;
	bool is_put_off;        /* in EV_BACKING_OFF: keeps its claim afterwards, too */
	bool is_handed;         /* the second connection did not store it: it is the first one's */
	uint32_t id_hash;       /* keyed_hash() */
	struct event *in_chain; /* the next one in its chain of the table */
	const char *id;
	const void *ahead;      /* in hold.c's list some places behind it: to be fetched, and never looked into */
	int64_t received_us;    /* loop clock, first copy */
	int64_t held_ms;        /* loop clock, when it was first held */
	struct list order_link; /* in the list of strays, or of those that are none */
	unsigned int copies;    /* messages that settle with it */
	uint32_t attempts;      /* failed stores, the fleet's count where Redis told it */
	struct copy first;
	struct event *behind;  /* the newest of the messages that wait behind it, and so on; owned by struct events */
	size_t bytes;          /* of the budget, copies included */
	char *reason;          /* why it is or may become a dead letter; heap, or NULL */
	const uint8_t *digest; /* 32 bytes of SHA-256 over the message, if it was longer than what
				* message keeps; else NULL */
	const char *type;
	uint32_t type_len;
	const char *message;  /* the bytes that were received: dead letters keep them */
	const char *source;   /* of a profile, by its name; message is the payload then if there is an id. Else NULL */
	const char *from;     /* who sent it, where neither source nor a sender's name says it; or NULL. Outlives it */
	int64_t came_us;      /* since 1970, when its bytes were read: of each event a later moment */
	int64_t time_us;      /* its own time since 1970, if has_time */
	struct slice payload; /* inside message, or a constant */
	uint64_t passed;      /* rows stored by this process when the event was put off first */
	int64_t lease_ms;     /* loop clock, before the claim was sent or renewed */
	int64_t claim_ms;     /* part of the claim's value, in ms since 1970; never the same twice */
};

/* All events of the process. */
struct events {
	struct list lists[EVENT_STATES];
	size_t counts[EVENT_STATES];
	size_t message_bytes[EVENT_STATES];
	struct event **table; /* chains, by the ids' hashes */
	size_t chains;        /* in the table: a power of two, or 0 */
	size_t in_table;      /* events */
	struct list ordered;  /* all but strays, in the order of coming */
	struct list strays;   /* the others, in that order too */
	size_t bytes;         /* sum of the events' bytes */
	size_t messages;      /* sum of the events' copies: in flight */
};

/* Such an event does not share a statement with others: it would fail with it again, and each of its failures costs
 * them a few more statements. */
static inline bool event_has_failed(const struct event *ev)
{
	return ev->attempts || ev->put_offs;
}

/* So many events before it is needed one is fetched: a step takes some 20 ns, and memory five times as long. */
#define EVENT_FETCH 6

/* ev is needed soon: what a loser's steps touch is on its way from memory. ev may be gone. */
static inline void event_fetch(const void *ev)
{
	__builtin_prefetch(ev);
	__builtin_prefetch((const char *)ev + 64);
	__builtin_prefetch((const char *)ev + 128);
}

void events_init(struct events *es);
/* Frees all events without answering anybody. */
void events_clear(struct events *es);

/* An event for this message, with one copy, in state (EV_CLAIMING, EV_BEHIND, or EV_REFUSED, to be given a
 * reason). view may be NULL for a message without a usable id. Only an event that begins in EV_CLAIMING gets
 * into the table: another message with the id of a refused one is an event of its own, and one in EV_BEHIND is
 * for event_put_behind(). now_us is the loop clock. */
struct event *event_new(struct events *es, enum event_state state, const char *message, size_t len,
			const struct envelope_view *view, struct sender *sender, int64_t now_us);

/* Gives the event the digest of a message of which only the head was kept. Copies 32 bytes. */
void event_set_digest(struct event *ev, const uint8_t *digest);
/* Replaces the reason by a copy of text. */
void event_set_reason(struct event *ev, const char *text);
/* The SHA-256 of the message, 32 bytes. Of a profile's event, of id and type with their lengths before them, too:
 * its message, which is the payload, says neither, and may be that of many events. */
void event_digest(const struct event *ev, uint8_t *digest);
/* Its first 8 bytes as a number: what a dead mark says. */
uint64_t event_digest_head(const struct event *ev);

/* The name of the first who sent its message and has one, or NULL. */
const char *event_sender(const struct event *ev);

/* The event of this view that is at work now, or NULL. */
struct event *event_find(const struct events *es, const struct envelope_view *view);

/* ev or the event behind it that has this message, to the byte, and of a profile's event the type; NULL if there is
 * none. */
struct event *event_with_message(struct event *ev, const char *message, size_t len, const struct envelope_view *view);

/* Lets more, in EV_BEHIND, wait behind ev, as the newest (or oldest) of those that do. If there are too many
 * then, returns the oldest, which waits no more, is in no table and has to be moved on; else NULL. */
struct event *event_put_behind(struct event *ev, struct event *more, bool is_newest);
/* The event behind ev that is to be tried before the others: the newest of those tried least often. NULL if
 * there is none, but for those that were given a reason instead of a try. */
struct event *event_next(const struct event *ev);
/* How often ev was tried in vain. */
uint32_t event_tries(const struct event *ev);
/* next, which waits behind ev, takes its place: in the table, at the head of the others behind it, and of its
 * claim. ev is then in no table. */
void event_give_place(struct events *es, struct event *ev, struct event *next);

/* One more copy of an event's message. */
void event_add_copy(struct events *es, struct event *ev, struct sender *sender);

void event_move(struct events *es, struct event *ev, enum event_state to);

/* Answers every copy and frees the event, which must be in EV_DONE. The first copy gets outcome;
 * the others of a persisted event are duplicates. */
void event_finish(struct events *es, struct event *ev, enum outcome outcome);

/* The event that came first of those that are here; NULL if there is none. */
const struct event *events_oldest(const struct events *es);
/* How many came before this moment of the loop clock. Looks at no others. */
size_t events_before(const struct events *es, int64_t us);

const char *event_state_name(enum event_state state);

#endif
