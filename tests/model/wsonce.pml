/* wsonce.pml: how an event gets its row, for INSTANCES listeners and EVENTS events, as a model for
 * spin. Its steps bear the names of the functions in listener/pipeline/pipeline*.c, claim.c and store_postgres.c, and
 * are as large as those: what a callback does in one turn of the loop is one step here. Between
 * any two steps anything else may happen, for any length of time.
 *
 * Properties (each is a bit of that name, asserted where it could break):
 *   never_doubled  an event has at most one row
 *   never_lost     if a listener that lives had an event and has it no more, then the event has a
 *                  row or a dead letter, or another listener that lives has it
 *   settle_knows   settle() is called only for an event with a committed row, or, if it says rejected,
 *                  with a committed dead letter: by a step before it, as the commit and its answer are two
 *   acks_true      likewise for an ack
 *   own_keys       a release or renewal touches a key only if it holds the very claim it is for, and an heir only
 *                  one of the owner that it takes for dead
 * and with -DCALM and pan -a, as an LTL property:
 *   always_settled once faults cease, every event in the memory of a living listener is settled, in
 *                  whatever order steps are taken, with keys that never expire and dead owners
 * One that the program does not promise, to show that it does not:
 *   row_or_letter  (ROW_OR_LETTER) an event does not have both a row and a dead letter
 *
 * Where the model allows more than the world does, so that nothing is missed:
 *   - No clocks. A lease or a mark may end at any moment, renewed or not; a listener may stop for
 *     any time between two steps. So no property rests on the TTL, and a pause needs no step of its
 *     own: it is a listener that takes none for a while.
 *   - A held copy may go to the store at any moment, not only after twice the TTL. That is also all
 *     that pipeline_drain() does to it, so draining needs no state of its own.
 *   - Redis may be away, answer with an error or lose its answer at each single question: a lost
 *     connection is that for all questions in turn. A mark, release or renewal may be lost likewise.
 *   - Commands on one connection may overtake each other.
 *   - A statement takes its rows one by one, not all or nothing; halving a batch is a part of that.
 * Where it allows less (bounds; the defaults are below, tests/model/run gives others):
 *   - INSTANCES (2 or 3) and EVENTS (1 or 2). Two events touch each other only through a listener (its
 *     batch, its connections, its death), and by row locks, for which see locks.pml.
 *   - LATE (0 to 2): how many commands of the whole fleet may be under way for long. Any other is
 *     carried out when it is sent, or never. They outlive their connection and their sender.
 *     Renewals are never late, and give_back() releases no claim that it does not have: where the
 *     comparison holds, both do no more than the end of a lease does.
 *   - TAKES: claims of one copy that Redis may have; then it goes to the store, as after twice the TTL, if it finds no
 *     other claim and no mark. A claim that finds one leaves nothing in Redis, and is not counted.
 *   - --max-attempts is 2.
 *   - DEATHS (kills, and drains that ran out of time), REFUSALS of rows by Postgres, REDELIVERIES of
 *     settled events to a listener. Not bounded: lost answers, lost connections to Postgres with
 *     the outcome unknown, expiries, flushes.
 *   - A listener that died stays dead. One that starts again has another nonce and an empty
 *     memory, so it is like another that has received nothing yet; but there are INSTANCES in all.
 *   - Postgres never forgets a commit. A Postgres that is away only delays.
 *   - With ALL_CLAIM, no copy is left to a leader: each is claimed when it comes.
 *   - With CALM, a held copy is claimed ASKS times; then it goes to the store.
 *   - Without TROUBLE, an event is not put off (by a server in trouble, by another transaction), letters are written,
 *     no listener gives its events to others because it cannot store, and no mark is in doubt.
 *   - Without HEIRS, nobody takes a dead owner's claim over before it expires. With it, any owner may be taken for
 *     dead at any time, since a pause or a lost connection looks like death; SYMMETRY does not know of it.
 *   - Without CHANNEL, no done channel is heard. With it, what it tells is never forgotten, and known to all at once.
 *   - Memory, reading that stops, and messages without an id are not modelled.
 * And without loss: SYMMETRY sorts the listeners after each step, since their names decide nothing. */

#ifndef INSTANCES
#define INSTANCES 3
#endif
#ifndef EVENTS
#define EVENTS 1
#endif
#ifndef LATE
#define LATE 1
#endif
#ifndef TAKES
#define TAKES 2
#endif
#ifndef ASKS
#define ASKS 1
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef REFUSALS
#define REFUSALS 1
#endif
#ifndef REDELIVERIES
#define REDELIVERIES 1
#endif

/* enum event_state of event.h, without EV_DONE, which lasts no longer than settle(), and with the
 * two ends of an event's time in memory. */
#define NOT_RECEIVED	0
#define EV_CLAIMING	1
#define EV_HELD		2
#define EV_BATCHED	3
#define EV_STORING	4
#define EV_BACKING_OFF	5
#define EV_REFUSED	6
#define EV_DEAD_LETTERING	7
#define FORGOTTEN	8
/* EV_STORING and EV_DEAD_LETTERING, committed: the answer is on its way */
#define STORE_PRESENT	9
#define STORE_DEAD_LETTERED	10
#define STORE_HAS_ROW	11
#define STATES		12

/* What a key holds: nothing, a mark, or a claim: the listener and which of its claims it is (in
 * the program, instance.nonce and the time). */
#define ABSENT		0
#define MARK_DONE	1
#define MARK_DEAD	2
#define CLAIM(i, n)	(3 + (i) * TAKES + (n) - 1)
#define IS_CLAIM(v)	((v) >= 3)
#define OWNER(v)	(((v) - 3) / TAKES)
#define NUMBER(v)	(((v) - 3) % TAKES + 1)

/* Commands that are sent and not waited for, or whose answer nobody waits for any more. */
#define NOTHING		0
#define SET_NX		1
#define RELEASE		2
#define RENEW		3
#define SET_DONE	4
#define SET_DEAD	5
#define INSERT		6
#define DEAD_LETTER		7
#define INHERIT		8
#define PUBLISH		9

#define COPY		(me * EVENTS + e)

/* Redis */
byte key[EVENTS];

/* Postgres */
byte row[EVENTS];
bit letter[EVENTS];
#ifdef CHANNEL
bit is_told[EVENTS];			/* the done channel has told of it */
#endif

/* Listeners */
bit is_up[INSTANCES] = 1;

/* Their copies: the members of struct event that decide something */
byte state[INSTANCES * EVENTS];
byte claim_ms[INSTANCES * EVENTS];	/* which claim of ours is_claimed means; 0: not is_claimed */
byte takes[INSTANCES * EVENTS];		/* claims so far that Redis may have: what the clock is in the program */
bit attempts[INSTANCES * EVENTS];	/* failed stores */
#ifdef HEIRS
byte owner[INSTANCES * EVENTS];		/* of the claim that it was held for last, and 1; 0: of none */
#define NOTE_OWNER(e)	owner[COPY] = OWNER(key[e]) + 1
#define FORGET_OWNER	owner[COPY] = 0
#else
#define NOTE_OWNER(e)	skip
#define FORGET_OWNER	skip
#endif

/* The network */
#if LATE
byte late_what[LATE];
byte late_value[LATE];
byte late_event[LATE];
#endif

/* Faults so far */
byte deaths, refusals, redeliveries;

bit never_doubled = 1, never_lost = 1, settle_knows = 1, acks_true = 1, own_keys = 1;

#ifdef ROW_OR_LETTER
bit row_or_letter = 1;
#endif
#define IS_IN_MEMORY(s)	((s) != NOT_RECEIVED && (s) != FORGOTTEN)
#define IS_RECORDED(e)	(row[e] || letter[e])

#include "shared.pml"

#ifdef CALM
byte asks[INSTANCES * EVENTS];	/* claims of a held copy */
#ifdef HOLD_FOR_EVER
#define MAY_ASK		true
#define SET_ASKS(n)	skip
#else
#define MAY_ASK		(asks[COPY] < ASKS)
#define SET_ASKS(n)	asks[COPY] = n
#endif
#define SWAP_ASKS(a, b)	SWAP(asks[a], asks[b])
#else
#define MAY_ASK		true
#define SET_ASKS(n)	skip
#define SWAP_ASKS(a, b)	skip
#endif

/* --- for a reader of a counterexample --- */

#ifdef TRACE
#define SAY(what)		printf("listener %d: ", me); printf(#what); printf("\n");
#define SAY_EVENT(what)		printf("listener %d, event %d: ", me, e); printf(#what); printf("\n");
#define SAY_WORLD(what)		printf(what); printf("\n");

inline show_state(s)
{
	if
	:: s == NOT_RECEIVED -> printf(" -");
	:: s == EV_CLAIMING -> printf(" claiming");
	:: s == EV_HELD -> printf(" held");
	:: s == EV_BATCHED -> printf(" batched");
	:: s == EV_STORING -> printf(" storing");
	:: s == EV_BACKING_OFF -> printf(" backing off");
	:: s == EV_REFUSED -> printf(" refused");
	:: s == EV_DEAD_LETTERING -> printf(" dead_lettering");
	:: s == FORGOTTEN -> printf(" forgotten");
	:: s == STORE_PRESENT || s == STORE_HAS_ROW -> printf(" present");
	:: s == STORE_DEAD_LETTERED -> printf(" dead_lettered");
	fi;
}

inline show_event(e)
{
	printf("\t\tevent %d: rows %d, dead letters %d, key", e, row[e], letter[e]);
	if
	:: key[e] == ABSENT -> printf(" absent");
	:: key[e] == MARK_DONE -> printf(" done");
	:: key[e] == MARK_DEAD -> printf(" dead");
	:: IS_CLAIM(key[e]) -> printf(" claim %d of listener %d", NUMBER(key[e]), OWNER(key[e]));
	fi;
	printf(", copies:");
	show_state(state[e]);
	show_state(state[EVENTS + e]);
#if INSTANCES == 3
	show_state(state[2 * EVENTS + e]);
#endif
	printf("\n");
}

inline show_all()
{
	show_event(0);
#if EVENTS == 2
	show_event(1);
#endif
}
#else
#define SAY(what)
#define SAY_EVENT(what)
#define SAY_WORLD(what)
#define show_all()	skip
#endif

/* --- for tests/simulation/steps: what each step does to the copy that takes it --- */

#ifdef TABLE
byte was_state, was_key;	/* key: absent, done, dead, own, another's */

#define SEEN(v, i)		(!IS_CLAIM(v) -> (v) : (OWNER(v) == (i) -> 3 : 4))
#define REMEMBER(i)		was_state = state[i]; was_key = SEEN(key[0], i);
#define TELL(what, i)		printf("step %d %d %d %d %d ", was_state, was_key, state[i], row[0], letter[0]); \
				printf(#what); printf("\n"); \
				assert(was_state + was_key < 99); /* else spin does not keep them */ \
				was_state = 0; was_key = 0;
#else
#define REMEMBER(i)
#define TELL(what, i)
#endif

/* --- listeners have no names --- */

#ifdef SYMMETRY
#if EVENTS == 1
#define WEIGHT_OF(c)	((((is_up[c] * STATES + state[c]) * (TAKES + 1) + claim_ms[c]) * (TAKES + 1) + takes[c]) * 2 + attempts[c])
#define WEIGHT(i)	WEIGHT_OF(i)
#else
#define WEIGHT_OF(c)	(((state[c] * (TAKES + 1) + claim_ms[c]) * (TAKES + 1) + takes[c]) * 2 + attempts[c])
#define WEIGHT(i)	((is_up[i] * 256 + WEIGHT_OF(i * EVENTS)) * 256 + WEIGHT_OF(i * EVENTS + 1))
#endif

hidden byte spare;

#define SWAP(a, b)	spare = a; a = b; b = spare
#define SWAP_COPY(a, b)	SWAP(state[a], state[b]); SWAP(claim_ms[a], claim_ms[b]); SWAP(takes[a], takes[b]); \
			SWAP(attempts[a], attempts[b]); SWAP_ASKS(a, b)

inline rename(value, i, j)
{
	if
	:: IS_CLAIM(value) && OWNER(value) == i -> value = CLAIM(j, NUMBER(value));
	:: IS_CLAIM(value) && OWNER(value) == j -> value = CLAIM(i, NUMBER(value));
	:: else
	fi;
}

inline sort_pair(i, j)
{
	if
	:: WEIGHT(i) > WEIGHT(j) ->
		SWAP(is_up[i], is_up[j]);
		SWAP_COPY(i * EVENTS, j * EVENTS);
		rename(key[0], i, j);
#if LATE
		rename(late_value[0], i, j);
#endif
#if LATE > 1
		rename(late_value[1], i, j);
#endif
#if EVENTS == 2
		SWAP_COPY(i * EVENTS + 1, j * EVENTS + 1);
		rename(key[1], i, j);
#endif
	:: else
	fi;
}

inline sort()
{
	sort_pair(0, 1);
#if INSTANCES == 3
	sort_pair(1, 2);
	sort_pair(0, 1);
#endif
}
#else
inline sort()
{
	show_all();
}
#endif

/* --- Redis and Postgres --- */

inline note_row_or_letter(e)
{
#ifdef ROW_OR_LETTER
	expect(row_or_letter, !(row[e] && letter[e]));
#else
	skip;
#endif
}

inline insert(e)
{
	if
#ifdef NO_UNIQUE_KEY
	:: row[e] < 2 -> row[e]++;
#else
	:: !row[e] -> row[e] = 1;		/* ON CONFLICT (event_id) DO NOTHING */
#endif
	:: else
	fi;
	expect(never_doubled, row[e] <= 1);
	note_row_or_letter(e);
}

/* sql/queries/write_dead_letters.sql: an event that is stored gets no letter */
inline dead_letter(e)
{
	letter[e] = letter[e] || !row[e];
	note_row_or_letter(e);
}

/* A command reaches its server. */
inline arrive(what, value, e)
{
	if
	:: what == SET_NX ->
		if
		:: key[e] == ABSENT -> key[e] = value;
		:: else
		fi;
	:: what == RELEASE ->			/* lua/release.lua */
		if
#ifdef RELEASE_WITHOUT_COMPARE
		:: key[e] != ABSENT ->
#else
#ifdef RELEASE_BY_OWNER
		:: IS_CLAIM(key[e]) && OWNER(key[e]) == OWNER(value) ->
#else
		:: key[e] == value ->
#endif
#endif
			expect(own_keys, key[e] == value);
			key[e] = ABSENT;
		:: else
		fi;
	:: what == RENEW ->			/* lua/renew.lua; there are no clocks to extend */
#ifdef RENEW_WITHOUT_COMPARE
		expect(own_keys, key[e] == ABSENT || key[e] == value);
#else
		skip;
#endif
#ifdef HEIRS
	:: what == INHERIT ->			/* lua/inherit.lua; whose claims they are, and ours */
#define DEAD_OWNER	((value) / 16 - 1)
		if
#ifdef INHERIT_WITHOUT_COMPARE
		:: true ->
#else
		:: key[e] == ABSENT || (IS_CLAIM(key[e]) && OWNER(key[e]) == DEAD_OWNER) ->
#endif
			expect(own_keys, key[e] == ABSENT || (IS_CLAIM(key[e]) && OWNER(key[e]) == DEAD_OWNER));
			key[e] = (value) % 16;
#ifndef INHERIT_WITHOUT_COMPARE
		:: else
#endif
		fi;
#endif
	:: what == SET_DONE -> key[e] = MARK_DONE;
	:: what == SET_DEAD -> key[e] = MARK_DEAD;
#ifdef CHANNEL
	:: what == PUBLISH -> is_told[e] = 1;
#endif
	:: what == INSERT -> insert(e);
	:: what == DEAD_LETTER -> dead_letter(e);
	fi;
}

/* A command is carried out now, or never, or later. */
inline send(what, value, e)
{
	if
	:: d_step { arrive(what, value, e); }
	:: skip;
#if LATE
	:: late_what[0] == NOTHING -> d_step { late_what[0] = what; late_value[0] = value; late_event[0] = e; }
#endif
#if LATE > 1
	:: late_what[0] != NOTHING && late_what[1] == NOTHING ->
		d_step { late_what[1] = what; late_value[1] = value; late_event[1] = e; }
#endif
	fi;
}

/* --- claim.c --- */

/* Tells the done channel of a commit. */
inline claim_publish(e)
{
#ifdef CHANNEL
	send(PUBLISH, 0, e);
#else
	skip;
#endif
}

inline claim_mark(what, e)
{
	send(what, 0, e);
	if
	:: what == SET_DONE -> claim_publish(e);
	:: what == SET_DEAD
	fi;
}

inline claim_release(e)
{
	if
	:: claim_ms[COPY] -> send(RELEASE, CLAIM(me, claim_ms[COPY]), e);
	:: !claim_ms[COPY]
	fi;
	claim_ms[COPY] = 0;
}

inline claim_renew(e)
{
	arrive(RENEW, CLAIM(me, claim_ms[COPY]), e);
}

/* --- pipeline.c: settle --- */

/* record is row[e] for OUTCOME_PERSISTED and OUTCOME_DUPLICATE, letter[e] for OUTCOME_REJECTED. */
inline ack(record)
{
	expect(acks_true, record);
}

/* Frees the event. What a freed event was is forgotten, so that equal states are one state. */
inline forget(e)
{
	state[COPY] = FORGOTTEN;
	claim_ms[COPY] = 0;
	SET_ASKS(0);
	attempts[COPY] = 0;
	FORGET_OWNER;
}

inline settle(e, record)
{
#ifndef ACK_BEFORE_COMMIT
	ack(record);
#endif
	expect(settle_knows, record);
	forget(e);
}

/* After copies have been dropped or died: has the last one gone, while somebody lives who had it? */
#if INSTANCES == 3
#define LIVES_WITH(e, what)	((is_up[0] && what(state[0 * EVENTS + e])) || \
				 (is_up[1] && what(state[1 * EVENTS + e])) || (is_up[2] && what(state[2 * EVENTS + e])))
#else
#define LIVES_WITH(e, what)	((is_up[0] && what(state[0 * EVENTS + e])) || (is_up[1] && what(state[1 * EVENTS + e])))
#endif
#define IS_FORGOTTEN(s)		((s) == FORGOTTEN)

inline check_lost(e)
{
	expect(never_lost, IS_RECORDED(e) || LIVES_WITH(e, IS_IN_MEMORY) || !LIVES_WITH(e, IS_FORGOTTEN));
}

/* --- claiming.c --- */

inline send_to_store(e)
{
	state[COPY] = EV_BATCHED;
	SET_ASKS(0);
	FORGET_OWNER;
#ifdef ACK_BEFORE_COMMIT
	ack(row[e]);
#endif
}

inline hold(e)
{
	state[COPY] = EV_HELD;
}

/* Sends SET NX GET. Redis finds the copy in EV_CLAIMING. */
inline take_claim(e)
{
	state[COPY] = EV_CLAIMING;
}

inline pipeline_receive(e)
{
	take_claim(e);
}

/* As well, but the copy is left to the leader of its source: nothing is sent. The leader may be dead, or may be the one
 * that never received the event. */
inline pipeline_receive_deferred(e)
{
	hold(e);
}

/* The wait for a leader or for another's claim is over; also claim_held(), if the leader is another one now. */
inline on_due(e)
{
	SET_ASKS(asks[COPY] + 1);
	take_claim(e);
}

/* Redis has the SET, and its answer reaches on_claimed(). */
inline on_claimed(e)
{
	if
	:: key[e] == ABSENT && takes[COPY] < TAKES ->		/* CLAIM_MINE */
		takes[COPY]++;
		key[e] = CLAIM(me, takes[COPY]);
		claim_ms[COPY] = takes[COPY];
		send_to_store(e);
	:: key[e] == ABSENT && takes[COPY] == TAKES -> send_to_store(e);
	:: IS_CLAIM(key[e]) && OWNER(key[e]) == me ->		/* CLAIM_MINE, by a SET before */
		claim_ms[COPY] = NUMBER(key[e]);
		send_to_store(e);
	:: IS_CLAIM(key[e]) && OWNER(key[e]) != me ->		/* CLAIM_OTHER */
#ifdef DROP_ON_LOST_CLAIM
		forget(e);
		check_lost(e);
#else
		NOTE_OWNER(e);
		hold(e);
#endif
	:: key[e] == MARK_DONE -> settle(e, row[e]);		/* CLAIM_DONE */
	:: key[e] == MARK_DEAD -> settle(e, letter[e]);		/* CLAIM_DEAD */
	fi;
}

/* The SET of a copy in EV_CLAIMING whose answer will not be seen. */
inline send_claim(e)
{
	if
	:: takes[COPY] < TAKES ->
		takes[COPY]++;
		send(SET_NX, CLAIM(me, takes[COPY]), e);
	:: else
	fi;
}

/* CLAIM_UNKNOWN: Redis could not be asked, and nothing was sent; or it answered with an error, or
 * not at all, and the claim may be ours all the same. */
inline on_claimed_unknown(e)
{
	claim_ms[COPY] = takes[COPY];
	send_to_store(e);
}

#ifdef HEIRS
/* on_owner_gone(): the owner that the copy waits for is taken for dead. The answer arrives as that of a claim, */
inline claim_inherit(e)
{
	takes[COPY]++;
	arrive(INHERIT, CLAIM(me, takes[COPY]) + 16 * owner[COPY], e);
	on_claimed(e);
}

/* or it is lost, and the claim may be ours. */
inline claim_inherit_unknown(e)
{
	takes[COPY]++;
	send(INHERIT, CLAIM(me, takes[COPY]) + 16 * owner[COPY], e);
	on_claimed_unknown(e);
}
#endif

/* --- storing.c, pipeline.c --- */

#define IS_AT_STORE(s)	((s) == EV_STORING || (s) == EV_DEAD_LETTERING || (s) >= STORE_PRESENT)

#if EVENTS == 1
#define STORE_IS_IDLE	(!IS_AT_STORE(state[me]))
#else
#define STORE_IS_IDLE	(!IS_AT_STORE(state[me * EVENTS]) && !IS_AT_STORE(state[me * EVENTS + 1]))
#define OTHER_COPY	(me * EVENTS + 1 - e)
#endif

inline fill_batch(e, from, to)
{
	state[COPY] = to;
#if EVENTS == 2
	if
	:: state[OTHER_COPY] == from && attempts[OTHER_COPY] == attempts[COPY] -> state[OTHER_COPY] = to;
	:: true					/* it is full, or the other of another kind */
	fi;
#endif
}

inline insert_next(e)
{
	fill_batch(e, EV_BATCHED, EV_STORING);
#ifdef DONE_MARK_BEFORE_COMMIT
	claim_mark(SET_DONE, e);
#endif
#ifdef TELL_BEFORE_COMMIT
	claim_publish(e);
#endif
}

inline dead_letter_next(e)
{
	fill_batch(e, EV_REFUSED, EV_DEAD_LETTERING);
}

/* Postgres commits. STORE_INSERTED and STORE_PRESENT differ in what is counted only. */
inline commit_insert(e)
{
	insert(e);
	state[COPY] = STORE_PRESENT;
}

/* The answer arrives: the row is there by another step, or this is not true. */
inline on_stored(e)
{
	claim_mark(SET_DONE, e);
	d_step { settle(e, row[e]); }
}

inline commit_letter(e)
{
	dead_letter(e);
	state[COPY] = (row[e] -> STORE_HAS_ROW : STORE_DEAD_LETTERED);
}

inline on_dead_lettered(e)
{
	if
	:: state[COPY] == STORE_DEAD_LETTERED -> claim_mark(SET_DEAD, e); d_step { settle(e, letter[e]); }
	:: state[COPY] == STORE_HAS_ROW -> claim_mark(SET_DONE, e); d_step { settle(e, row[e]); }
	fi;
}

/* Postgres refuses the row, this time (STORE_REFUSED) or for ever (STORE_HOPELESS). */
inline on_stored_refused(e)
{
	refusals++;
	if
	:: !attempts[COPY] -> attempts[COPY] = 1; state[COPY] = EV_BACKING_OFF;		/* fail_store() */
	:: state[COPY] = EV_REFUSED;		/* likewise, at its last attempt, and pipeline_refuse_event() */
	fi;
}

/* --max-age: too old at its turn. */
inline refuse_stale(e)
{
	state[COPY] = EV_REFUSED;
}

/* The second connection could not store it, was lost, or has stored it in another epoch: the first one tries. */
inline hand_over(e)
{
	send_to_store(e);
}

/* The server is in trouble, or another transaction has the row: STORE_LATER, STORE_BLOCKED. The claim is kept. */
inline put_off(e)
{
	state[COPY] = EV_BACKING_OFF;
}

/* STORE_NOT_DEAD_LETTERED */
inline on_not_dead_lettered(e)
{
	state[COPY] = EV_REFUSED;
}

/* A listener that cannot store leaves its events to others. */
inline release_and_hold(e)
{
	claim_release(e);
	SET_ASKS(0);
	hold(e);
}

/* on_mark(), before Postgres has said of late which epoch it is in. */
inline hold_on(e)
{
	hold(e);
}

inline give_back(e)
{
	claim_release(e);
	SET_ASKS(0);
	hold(e);				/* from where it may go to the store at once */
}

#define IS_RENEWED(s)	((s) == EV_BATCHED || IS_AT_STORE(s) || (s) == EV_BACKING_OFF || (s) == EV_REFUSED)

/* A step of a listener that lives, taken in one go; with CHOICE it may end in several ways. sort()
 * makes equal what differs only in the names of the listeners. */
#define STEP(condition, action)		d_step { is_up[me] && (condition) -> SAY_EVENT(action) REMEMBER(COPY) action; TELL(action, COPY) sort(); }
#define CHOICE(condition, action)	atomic { is_up[me] && (condition) -> SAY_EVENT(action) REMEMBER(COPY) action; d_step { TELL(action, COPY) sort(); } }
#define FAULT(condition, action)	atomic { IS_STORMY && is_up[me] && (condition) -> SAY(action) REMEMBER(me) action; \
						 d_step { TELL(action, me) sort(); } }

/* One event in one listener. */
proctype event(byte me; byte e)
{
end:	do
	:: STEP(state[COPY] == NOT_RECEIVED, pipeline_receive(e))
#ifndef ALL_CLAIM
	:: STEP(state[COPY] == NOT_RECEIVED, pipeline_receive_deferred(e))
#endif
	:: STEP(state[COPY] == EV_CLAIMING, on_claimed(e))
	:: STEP(state[COPY] == EV_HELD && MAY_ASK, on_due(e))
#ifdef CHANNEL
	:: STEP(state[COPY] == EV_HELD && is_told[e], settle(e, row[e]))	/* settle_told() */
#endif
#ifdef HEIRS
	:: STEP(state[COPY] == EV_HELD && owner[COPY] && takes[COPY] < TAKES, claim_inherit(e))
	:: CHOICE(IS_STORMY && state[COPY] == EV_HELD && owner[COPY] && takes[COPY] < TAKES, claim_inherit_unknown(e))
#endif
#ifndef HOLD_FOR_EVER
	:: STEP(state[COPY] == EV_HELD, send_to_store(e))		/* on_due(), pipeline_drain(), pipeline_probe() */
#endif
	:: CHOICE(state[COPY] == EV_BATCHED && STORE_IS_IDLE, insert_next(e))
	:: STEP(state[COPY] == EV_STORING, commit_insert(e))
	:: CHOICE(state[COPY] == STORE_PRESENT, on_stored(e))
	:: CHOICE(IS_STORMY && state[COPY] == EV_STORING && refusals < REFUSALS, on_stored_refused(e))
	:: CHOICE(state[COPY] == EV_BACKING_OFF, give_back(e))
#ifdef TROUBLE
	/* try_again(); give_back() without Redis or while draining sends it to the store, too */
	:: STEP(IS_STORMY && state[COPY] == EV_BACKING_OFF, send_to_store(e))
	:: STEP(state[COPY] == EV_BACKING_OFF && !claim_ms[COPY], take_claim(e))
	:: STEP(IS_STORMY && state[COPY] == EV_STORING, put_off(e))
	:: STEP(IS_STORMY && (state[COPY] == EV_STORING || state[COPY] == STORE_PRESENT), hand_over(e))
	:: STEP(IS_STORMY && state[COPY] == EV_DEAD_LETTERING, on_not_dead_lettered(e))
	:: CHOICE(IS_STORMY && state[COPY] == EV_BATCHED, release_and_hold(e))
	:: STEP(IS_STORMY && state[COPY] == EV_BATCHED, refuse_stale(e))
	:: STEP(IS_STORMY && state[COPY] == EV_CLAIMING && (key[e] == MARK_DONE || key[e] == MARK_DEAD), hold_on(e))
#endif
	:: CHOICE(state[COPY] == EV_REFUSED && STORE_IS_IDLE, dead_letter_next(e))
	:: STEP(state[COPY] == EV_DEAD_LETTERING, commit_letter(e))
	:: CHOICE(state[COPY] == STORE_DEAD_LETTERED || state[COPY] == STORE_HAS_ROW, on_dead_lettered(e))
	:: STEP(IS_STORMY && claim_ms[COPY] && IS_RENEWED(state[COPY]), claim_renew(e))
	/* The source sends it once more. */
	:: STEP(IS_STORMY && state[COPY] == FORGOTTEN && redeliveries < REDELIVERIES, redeliveries++; pipeline_receive(e))
	od
}

/* --- faults --- */

/* Redis is away, answers with an error, or the answer is lost with the connection. */
inline lose_answer(e)
{
	send_claim(e);
	on_claimed_unknown(e);
}

/* What was on its way to Postgres: it may be carried out though nobody waits for it any more. */
inline lose_statement(e)
{
	if
	:: state[COPY] == EV_STORING ->				/* on_unknown() in store_postgres.c */
		send(INSERT, 0, e);
	:: state[COPY] == STORE_PRESENT -> state[COPY] = EV_STORING;	/* likewise, and it is sent again */
	:: state[COPY] == EV_DEAD_LETTERING -> send(DEAD_LETTER, 0, e);
	:: state[COPY] == STORE_DEAD_LETTERED || state[COPY] == STORE_HAS_ROW -> state[COPY] = EV_DEAD_LETTERING;
	:: !IS_AT_STORE(state[COPY])
	fi;
}

inline lose_statements()
{
	lose_statement(0);
#if EVENTS == 2
	lose_statement(1);
#endif
}

inline lose_copy(e)
{
	if
	:: state[COPY] == EV_CLAIMING -> send_claim(e);
	:: state[COPY] != EV_CLAIMING
	fi;
	lose_statement(e);
	d_step { forget(e); takes[COPY] = 0; state[COPY] = NOT_RECEIVED; }
}

/* A dead listener is nobody who had the event: its copy is as if it had never been received. */
inline die()
{
	deaths++;
	lose_copy(0);
#if EVENTS == 2
	lose_copy(1);
#endif
	d_step {
		is_up[me] = 0;
		check_lost(0);
#if EVENTS == 2
		check_lost(1);
#endif
	}
}

/* Draining took too long: the claims go, and what is under way may still end well before the
 * process does. */
inline release_left()
{
	claim_release(0);
#if EVENTS == 2
	claim_release(1);
#endif
}

#if EVENTS == 1
#define HAS_CLAIMS	(claim_ms[me])
#else
#define HAS_CLAIMS	(claim_ms[me * EVENTS] || claim_ms[me * EVENTS + 1])
#endif

/* What happens to one listener and its connections. */
proctype listener_faults(byte me)
{
end:	do
	:: FAULT(deaths < DEATHS, die())					/* SIGKILL, on_last_answers() */
	:: FAULT(HAS_CLAIMS, release_left())					/* SIGTERM, on_drain_timeout() */
	:: FAULT(state[me * EVENTS] == EV_CLAIMING, lose_answer(0))
	:: FAULT(!STORE_IS_IDLE, lose_statements())
#if EVENTS == 2
	:: FAULT(state[me * EVENTS + 1] == EV_CLAIMING, lose_answer(1))
#endif
	od
}

/* What happens in Redis. */
proctype redis_faults()
{
end:	do
	/* A lease or the time of a mark ends. */
	:: d_step { IS_STORMY && key[0] != ABSENT -> SAY_WORLD("redis: the key of event 0 expires") key[0] = ABSENT; sort(); }
#if EVENTS == 2
	:: d_step { IS_STORMY && key[1] != ABSENT -> SAY_WORLD("redis: the key of event 1 expires") key[1] = ABSENT; sort(); }
	/* Redis loses its memory. With one event that is the same as the end of a lease. */
	:: d_step { IS_STORMY && key[0] != ABSENT && key[1] != ABSENT ->
		SAY_WORLD("redis: FLUSHALL") key[0] = ABSENT; key[1] = ABSENT; sort(); }
#endif
	od
}

#if LATE
#define EMPTY_SLOT(k)	late_what[k] = NOTHING; late_value[k] = 0; late_event[k] = 0;

/* Late commands arrive, or are lost after all. */
proctype network()
{
end:	do
	:: d_step { IS_STORMY && late_what[0] != NOTHING ->
		SAY_WORLD("network: a late command arrives") arrive(late_what[0], late_value[0], late_event[0]); EMPTY_SLOT(0) sort(); }
	:: d_step { IS_STORMY && late_what[0] != NOTHING -> SAY_WORLD("network: a late command is lost") EMPTY_SLOT(0) sort(); }
#if LATE > 1
	:: d_step { IS_STORMY && late_what[1] != NOTHING ->
		SAY_WORLD("network: a late command arrives") arrive(late_what[1], late_value[1], late_event[1]); EMPTY_SLOT(1) sort(); }
	:: d_step { IS_STORMY && late_what[1] != NOTHING -> SAY_WORLD("network: a late command is lost") EMPTY_SLOT(1) sort(); }
#endif
	od
}
#endif

init
{
	atomic {
		run event(0, 0);
		run event(1, 0);
		run listener_faults(0);
		run listener_faults(1);
#if EVENTS == 2
		run event(0, 1);
		run event(1, 1);
#endif
#if INSTANCES == 3
		run event(2, 0);
		run listener_faults(2);
#if EVENTS == 2
		run event(2, 1);
#endif
#endif
		run redis_faults();
#if LATE
		run network();
#endif
	}
}

#ifdef CALM
active proctype faults_cease()
{
	is_calm = 1;
}

#define IS_SETTLED(c)	(!is_up[(c) / EVENTS] || !IS_IN_MEMORY(state[c]))
#if INSTANCES * EVENTS == 2
#define ARE_SETTLED	(IS_SETTLED(0) && IS_SETTLED(1))
#elif INSTANCES * EVENTS == 3
#define ARE_SETTLED	(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2))
#elif INSTANCES * EVENTS == 4
#define ARE_SETTLED	(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2) && IS_SETTLED(3))
#endif

/* The opposite of [](is_calm -> <>ARE_SETTLED), which spin looks for. */
never {
	do
	:: true
	:: is_calm && !ARE_SETTLED -> break
	od;
accept:	do
	:: !ARE_SETTLED
	od
}
#endif
