/* channel.pml: one leader for each feed and the done channel, as a model for spin: LISTENERS listeners, one event, and a
 * Postgres that may forget commits, as at a failover to a standby that lagged behind, and is in another epoch then.
 * marks.pml models what marks say, wsonce.pml how claims are shared; here a claim has an owner and no time.
 *
 * The listener that believes it leads the feed claims its copy at once. All others wait. An entry of the done channel
 * settles a waiting copy. One that is overdue, or that waits while the channel is silent, is claimed by its holder.
 *
 * Properties (each is a bit of that name, asserted where it could break):
 *   never_lost     a listener forgets the event only if it was committed, or if another one still has it
 *   acks_true      a copy is settled only if its row was committed in the epoch that the statement told; by a mark or an
 *                  entry of the channel only if the row is there now
 * and with -DCALM and pan -a, as an LTL property:
 *   always_settled once faults cease, an event in the memory of a listener gets its row
 *
 * Where the model allows more than the world does, so that nothing is missed:
 *   - No clocks: a copy may be overdue at once or never; leases and marks expire, and the second ends for which an epoch is
 *     beyond doubt, at any moment. A promotion takes longer than that second, so it ends it for all listeners.
 *   - Presence may say anything: a listener may believe at any moment that it leads or that another one does. So there may
 *     be two leaders, none, or one that is dead, deaf, frozen or slow.
 *   - An entry of the channel arrives late, or never, for each subscriber, and may be remembered for ever.
 *   - Any owner of a claim may be taken for dead. Redis may be away at any question.
 *   - A statement may be carried out and its answer be lost. Listeners die and begin anew. The feed sends the event again.
 * Where it allows less (bounds):
 *   - LISTENERS, and PROMOTIONS, at each of which the row may vanish or stay.
 *   - Each subscriber has one entry: a later one replaces it, or is lost. */

#ifndef LISTENERS
#define LISTENERS 3
#endif
#ifndef PROMOTIONS
#define PROMOTIONS 1
#endif

/* A copy */
#define NOT_AT_WORK	0
#define WAITING		1	/* for the channel */
#define CLAIMING	2
#define HELD		3	/* another listener has the claim */
#define BATCHED		4
#define STORING		5
#define STORE_PRESENT	6	/* committed: the answer is on its way */

/* What the key holds. Epoch 0 is none; in the program epochs are random, here they count. */
#define ABSENT		0
#define CLAIM(i)	(1 + (i))
#define DONE(e)		(8 + (e))
#define IS_MARK(k)	((k) >= 8)
#define IS_CLAIM(k)	((k) != ABSENT && (k) < 8)
#define EPOCH_OF(k)	((k) - 8)

/* Redis */
byte key;
byte entry[LISTENERS];		/* the epoch of an entry on its way to each subscriber, or remembered there; 0: none */

/* Postgres */
bit row;
byte home = 1;			/* its epoch; 0: a standby took over, and no epoch has begun */
byte begun = 1;
byte promotions;
byte had_row;			/* the epochs in which the row was ever committed, as bits. No listener knows. */

/* Listeners */
byte state[LISTENERS];
byte epoch[LISTENERS];		/* as far as it knows */
bit is_sure[LISTENERS];
bit is_recent[LISTENERS];	/* the statement at work was sent after the last promotion */
byte told[LISTENERS];		/* the epoch in the answer on its way */
#ifdef BELIEVE_IN_LEADER
bit is_follower[LISTENERS];	/* it believes that another one leads */
#endif

bit never_lost = 1, acks_true = 1;

#include "shared.pml"

/* --- for a reader of a counterexample --- */

#ifdef TRACE
#define SAY(what)	printf("listener %d: ", me); printf(#what); printf("\n");
#define SAY_WORLD(what)	printf(what); printf("\n");

inline show_all()
{
	printf("\t\tepoch %d, row %d, key %d; copies %d %d", home, row, key, state[0], state[1]);
#if LISTENERS == 3
	printf(" %d", state[2]);
#endif
	printf("; entries %d %d, epochs known %d %d, sure %d %d\n", entry[0], entry[1], epoch[0], epoch[1], is_sure[0], is_sure[1]);
}
#else
#define SAY(what)
#define SAY_WORLD(what)
#define show_all()	skip
#endif

/* --- Postgres --- */

#define WAS_ROW(e)	((had_row >> (e)) & 1)

inline write_down()
{
	if
	:: row -> had_row = had_row | (1 << home);
	:: else
	fi;
}

inline commit_insert()
{
	row = 1;			/* ON CONFLICT (event_id) DO NOTHING */
	write_down();
	state[me] = STORE_PRESENT;
	told[me] = home;
}

inline promote()
{
	promotions++;
	if
	:: row = 0;
	:: skip;
	fi;
	home = 0;
	is_sure[0] = 0;
	is_sure[1] = 0;
	is_recent[0] = 0;
	is_recent[1] = 0;
#if LISTENERS == 3
	is_sure[2] = 0;
	is_recent[2] = 0;
#endif
}

inline make_epoch()
{
	begun++;
	home = begun;
	write_down();
}

/* --- the channel --- */

inline publish_to(i, e)
{
	if
	:: i != me -> entry[i] = e;
	:: true				/* it is lost, or ours */
	fi;
}

inline publish(e)
{
	publish_to(0, e);
	publish_to(1, e);
#if LISTENERS == 3
	publish_to(2, e);
#endif
}

/* --- a copy --- */

inline receive()
{
#ifdef BELIEVE_IN_LEADER
	is_follower[me] = 0;
#endif
	if
	:: state[me] = CLAIMING;
	:: state[me] = WAITING;
#ifdef BELIEVE_IN_LEADER
		is_follower[me] = 1;
#endif
	fi;
}

inline settle()
{
	state[me] = NOT_AT_WORK;
}

#if LISTENERS == 3
#define OTHER_HAS	(state[(me + 1) % 3] != NOT_AT_WORK || state[(me + 2) % 3] != NOT_AT_WORK)
#else
#define OTHER_HAS	(state[1 - me] != NOT_AT_WORK)
#endif

#ifdef ENTRY_OF_ANY_EPOCH
#define IS_OF_EPOCH(e)	true
#else
#define IS_OF_EPOCH(e)	(epoch[me] && (e) == epoch[me])
#endif
#ifdef ENTRY_IN_DOUBT
#define IS_SURE		true
#else
#define IS_SURE		is_sure[me]
#endif
#define IS_TOLD		(entry[me] && IS_OF_EPOCH(entry[me]) && IS_SURE)

/* An entry settles a copy that waits or is held. */
inline take_entry()
{
	expect(acks_true, row);
	settle();
}

#ifdef BELIEVE_IN_LEADER
#define MAY_CLAIM	(!is_follower[me])
#else
#define MAY_CLAIM	true
#endif

inline on_claimed()
{
	if
	:: key == ABSENT -> key = CLAIM(me); state[me] = BATCHED;
	:: key == CLAIM(me) -> state[me] = BATCHED;
	:: IS_CLAIM(key) && key != CLAIM(me) -> state[me] = HELD;
	:: IS_MARK(key) && epoch[me] == EPOCH_OF(key) && is_sure[me] ->
		expect(acks_true, row);
		publish(EPOCH_OF(key));
		settle();
	:: IS_MARK(key) && epoch[me] == EPOCH_OF(key) && !is_sure[me] -> state[me] = BATCHED;
	:: IS_MARK(key) && epoch[me] == EPOCH_OF(key) && !is_sure[me] -> state[me] = HELD;	/* WAIT_EPOCH */
	:: IS_MARK(key) && epoch[me] != EPOCH_OF(key) ->
		if
		:: epoch[me] -> key = CLAIM(me);	/* lua/seize.lua */
		:: else
		fi;
		state[me] = BATCHED;
	fi;
}

inline inherit()
{
	key = CLAIM(me);
	state[me] = BATCHED;
}

inline insert()
{
	state[me] = STORING;
	is_recent[me] = 1;
#ifdef PUBLISH_BEFORE_COMMIT
	publish(epoch[me]);
#endif
}

inline claim_mark(e)
{
	if
	:: key = DONE(e);
	:: IS_STORMY			/* the mark is lost */
	fi;
}

inline on_stored()
{
	epoch[me] = told[me];
	is_sure[me] = is_recent[me];
	expect(acks_true, WAS_ROW(told[me]));
	claim_mark(told[me]);
	publish(told[me]);
	told[me] = 0;
	is_recent[me] = 0;
	settle();
}

/* The statement was carried out or not, and is sent again. */
inline lose_statement()
{
	if
	:: state[me] == STORING -> commit_insert();
	:: skip;
	fi;
	told[me] = 0;
	state[me] = BATCHED;
	is_recent[me] = 0;
	epoch[me] = 0;
	is_sure[me] = 0;
}

/* Another listener leads from now on. */
inline hand_over()
{
	expect(never_lost, had_row || OTHER_HAS);
	settle();
}

inline store_ask_epoch()
{
	epoch[me] = home;
	is_sure[me] = 1;
}

inline die()
{
	state[me] = NOT_AT_WORK;
	entry[me] = 0;
	epoch[me] = 0;
	is_sure[me] = 0;
	is_recent[me] = 0;
	told[me] = 0;
}

#define STEP(condition, action)	atomic { (condition) -> SAY(action) action; show_all(); }

proctype copy(byte me)
{
end_here:
	do
	:: STEP(IS_STORMY && state[me] == NOT_AT_WORK, receive())
	:: STEP((state[me] == WAITING || state[me] == HELD) && IS_TOLD, take_entry())
	:: STEP(state[me] == WAITING && MAY_CLAIM, state[me] = CLAIMING)		/* overdue, or a probe */
	:: STEP(state[me] == CLAIMING, on_claimed())
	:: STEP(state[me] == CLAIMING && IS_STORMY, state[me] = BATCHED)		/* Redis is away */
	:: STEP(state[me] == HELD && IS_STORMY, state[me] = CLAIMING)			/* asked again */
	:: STEP(state[me] == HELD && IS_CLAIM(key) && key != CLAIM(me), inherit())	/* the owner is taken for dead */
	:: STEP(state[me] == HELD, state[me] = BATCHED)					/* after twice the TTL, or at a drain */
	:: STEP(state[me] == BATCHED, insert())
	:: STEP(state[me] == STORING && home, commit_insert())
	:: STEP(state[me] == STORE_PRESENT, on_stored())
	:: STEP(IS_STORMY && (state[me] == STORING || state[me] == STORE_PRESENT), lose_statement())
	od
}

proctype listener(byte me)
{
end_here:
	do
#ifdef DROP_AT_HANDOVER
	:: STEP(state[me] == WAITING || state[me] == HELD, hand_over())
#endif
	:: STEP(IS_STORMY && home && !(epoch[me] == home && is_sure[me]) && state[me] < STORING, store_ask_epoch())
	:: STEP(IS_STORMY && is_sure[me], is_sure[me] = 0)
	:: STEP(IS_STORMY, die())
	od
}

proctype world()
{
end_here:
	do
	:: atomic { IS_STORMY && key != ABSENT -> SAY_WORLD("redis: the key expires") key = ABSENT; show_all(); }
	:: atomic { IS_STORMY && promotions < PROMOTIONS -> SAY_WORLD("postgres: a standby is promoted") promote(); show_all(); }
	:: atomic { home == 0 -> SAY_WORLD("postgres: make_epoch") make_epoch(); show_all(); }
	od
}

init
{
	atomic {
		run copy(0);
		run listener(0);
		run copy(1);
		run listener(1);
#if LISTENERS == 3
		run copy(2);
		run listener(2);
#endif
		run world();
	}
}

#ifdef CALM
active proctype faults_cease()
{
	is_calm = 1;
}

#if LISTENERS == 3
#define HAS_EVENT	(state[0] != NOT_AT_WORK || state[1] != NOT_AT_WORK || state[2] != NOT_AT_WORK)
#else
#define HAS_EVENT	(state[0] != NOT_AT_WORK || state[1] != NOT_AT_WORK)
#endif

/* The opposite of [](is_calm && HAS_EVENT -> <>row) */
never {
	do
	:: true
	:: is_calm && HAS_EVENT && !row -> break
	od;
accept:	do
	:: !row
	od
}
#endif
