/* outbox.pml: what becomes of one row of the outbox, for LISTENERS listeners, as a model for spin. Its steps
 * bear the names of the functions in listener/outbox/relay.c; what the statements do is in sql/queries/lease.sql
 * and record.sql. Rows meet only in a statement, which is all or nothing, so one is enough.
 *
 * Properties (each is a bit of that name, asserted where it could break):
 *   at_least_once    a row becomes delivered only after the receiver took it
 *   stays_delivered  and then stays so
 *   delivery_counts  a delivery that is recorded is the row's end, whoever else is at the row
 *   own_lease        a failure, or a row that is given back, counts once, and changes nothing since the row was leased again
 * and with -DCALM and pan -a, as an LTL property:
 *   always_settled   once faults cease, the row becomes delivered or dead, in whatever order steps are taken
 *
 * Where the model allows more than the world does, so that nothing is missed:
 *   - No clocks. A lease may end at any moment, while its holder is at work; so may the wait before another try.
 *   - A listener may die at any moment, any number of times. One that starts again has an empty memory: so has
 *     each of these after its death. What it had sent may reach Postgres afterwards.
 *   - A statement may be carried out and its answer be lost, for leases and records alike.
 *   - The receiver may take a delivery and its answer be lost; or fail, or refuse for good.
 *   - A listener may give any row back before it sends it: paused, draining, late, out of memory.
 * Where it allows less (bounds):
 *   - A listener has one attempt at the row at a time. In the program it may lease a row again whose lease has
 *     ended while its first attempt is at work; here another listener does so.
 *   - ATTEMPTS are allowed and LOST more may begin. While faults last, no lease begins after those.
 *   - One record of the whole fleet may be under way for long; any other is carried out at once, or never.
 *   - A record that Postgres refuses for ever is left out: then the lease just ends, as after a death.
 *   - Postgres forgets no commit.
 *   - No lease begins after LEASES numbers were given out, while faults last.
 * own_lease rests on numbers (outbox.leases) that are given out once: each lease takes the next one, and so does each
 * record, which uses up the one that it is for. */

#ifndef LISTENERS
#define LISTENERS 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef LEASES
#define LEASES 5
#endif

/* Where an attempt is: in the lists of the lane and the relay of these names. RECORDING lasts for one step. */
#define NONE		0
#define WAITING		1
#define SENDING		2
#define ENDED		3
#define BLAMED		4	/* ended: the row could not be leased alone */

/* enum target_outcome; and what a row is otherwise */
#define TARGET_DELIVERED	0
#define TARGET_RETRY		1
#define TARGET_DEAD		2
#define TARGET_UNSENT		3
#define PENDING			4

/* due_at */
#define PAST		0	/* the row is due */
#define LATER		1	/* it waits for another try */
#define LEASE_ENDS	2

/* Postgres */
byte row = PENDING;
byte attempts;
byte leases;
byte due_at = PAST;

/* The receiver */
bit is_taken;

/* Listeners */
byte state[LISTENERS];
byte number[LISTENERS];
byte outcome[LISTENERS];

/* Whose is the last lease, until it is recorded? Known to nobody, but own_lease speaks of it. */
bit is_own[LISTENERS];

/* A record that is under way: its members, and whether the lease in force is the one it is for */
bit has_late;
byte late_number, late_outcome;
bit late_is_own, late_is_blamed;

bit at_least_once = 1, stays_delivered = 1, delivery_counts = 1, own_lease = 1;

#include "shared.pml"

#if LISTENERS == 3
#define IS_HELD		(is_own[0] || is_own[1] || is_own[2])
#else
#define IS_HELD		(is_own[0] || is_own[1])
#endif

/* --- for a reader of a counterexample --- */

#ifdef TRACE
inline show_outcome(what)
{
	if
	:: what == TARGET_DELIVERED -> printf(" delivered");
	:: what == TARGET_RETRY -> printf(" retry");
	:: what == TARGET_DEAD -> printf(" dead");
	:: what == TARGET_UNSENT -> printf(" unsent");
	:: what == PENDING -> printf(" pending");
	fi;
}

inline show_attempt(i)
{
	if
	:: state[i] == NONE -> printf(" -");
	:: state[i] == WAITING -> printf(" %d waiting", number[i]);
	:: state[i] == SENDING -> printf(" %d sending", number[i]);
	:: state[i] >= ENDED -> printf(" %d", number[i]); show_outcome(outcome[i]);
	fi;
	if
	:: is_own[i] -> printf(" (leased)");
	:: else
	fi;
}

inline show_all()
{
	printf("\t\trow:");
	show_outcome(row);
	printf(", %d attempts, %d leases", attempts, leases);
	if
	:: due_at == PAST -> printf(", due");
	:: due_at == LATER -> printf(", due later");
	:: due_at == LEASE_ENDS -> printf(", leased");
	fi;
	if
	:: is_taken -> printf(", taken");
	:: else
	fi;
	printf("; at work:");
	show_attempt(0);
	printf(",");
	show_attempt(1);
#if LISTENERS == 3
	printf(",");
	show_attempt(2);
#endif
	printf("\n");
}

#define SAY(what)	printf("listener %d: ", me); printf(#what); printf("\n");
#define SAY_WORLD(what)	printf(what); printf("\n");
#else
#define SAY(what)
#define SAY_WORLD(what)
#define show_all()	skip
#endif

/* --- Postgres --- */

inline end_lease()
{
	is_own[0] = 0;
	is_own[1] = 0;
#if LISTENERS == 3
	is_own[2] = 0;
#endif
	late_is_own = 0;
}

#define MAY_LEASE	(row == PENDING && due_at == PAST && (!IS_STORMY || (attempts < ATTEMPTS + LOST && leases < LEASES)))

/* sql/queries/lease.sql */
inline lease()
{
	attempts++;
#ifndef LEASE_WITHOUT_COUNT
	leases++;
#endif
	due_at = LEASE_ENDS;
	end_lease();
}

#ifdef RECORD_WITHOUT_COMPARE
#define IS_ITS_NUMBER(n)	true
#elif defined LEASE_WITHOUT_COUNT
#define IS_ITS_NUMBER(n)	true	/* they are all the same */
#else
#define IS_ITS_NUMBER(n)	(leases == (n))
#endif
#ifdef RECORD_ANY_STATE
#define IS_OPEN		true
#else
#define IS_OPEN		(row == PENDING)
#endif
#ifdef DELIVERY_WITH_COMPARE
#define COUNTS(n)	(row == PENDING && IS_ITS_NUMBER(n))
#else
#define COUNTS(n)	(row == PENDING || row == TARGET_DEAD)
#endif

/* sql/queries/record.sql */
inline record(what, its_number, its_own, is_blamed)
{
	if
	:: what == TARGET_DELIVERED && COUNTS(its_number) ->
		row = TARGET_DELIVERED;
		due_at = PAST;
		end_lease();
		expect(at_least_once, is_taken);
	:: what != TARGET_DELIVERED && IS_OPEN && IS_ITS_NUMBER(its_number) ->
		expect(stays_delivered, row != TARGET_DELIVERED);
		expect(own_lease, its_own || (is_blamed && due_at == PAST));
#ifndef RECORD_KEEPS_NUMBER
		leases++;
#endif
		if
		:: what == TARGET_DEAD -> row = TARGET_DEAD; due_at = PAST;
		:: what == TARGET_RETRY -> due_at = LATER;
		:: what == TARGET_UNSENT && attempts -> attempts--; due_at = LATER;
		:: what == TARGET_UNSENT && !attempts -> due_at = LATER;
		fi;
		end_lease();
	:: else
	fi;
	expect(delivery_counts, what != TARGET_DELIVERED || row == TARGET_DELIVERED);
}

/* --- relay.c --- */

/* What a freed attempt was is forgotten, so that equal states are one state. */
inline attempt_free()
{
	state[me] = NONE;
	number[me] = 0;
	outcome[me] = 0;
	is_own[me] = 0;
}

inline end(what)
{
	outcome[me] = what;
	state[me] = ENDED;
}

/* start_lease() and on_leased(), which calls take_row() */
inline on_leased()
{
	lease();
	is_own[me] = 1;
	number[me] = leases;
	state[me] = WAITING;
	if
	:: attempts > ATTEMPTS + LOST -> end(TARGET_DEAD);	/* give_up() */
	:: else
	fi;
}

inline begin()
{
#ifdef SETTLE_WHEN_SENT
	record(TARGET_DELIVERED, number[me], is_own[me], 0);
#endif
	state[me] = SENDING;
}

inline give_back()
{
	end(TARGET_UNSENT);
}

/* The receiver took it and says so. */
inline on_answered()
{
	is_taken = 1;
	end(TARGET_DELIVERED);
}

/* It may have taken it, and the answer was lost; or it took nothing. Any attempt may be the last one. */
inline on_answered_failed()
{
	if
	:: is_taken = 1;
	:: skip;
	fi;
	if
	:: end(TARGET_RETRY);
	:: end(TARGET_DEAD);
	fi;
}

/* 400, 422 */
inline on_answered_refused()
{
	end(TARGET_DEAD);
}

/* on_drain_deadline(): never the last attempt */
inline cut_off()
{
	if
	:: is_taken = 1;
	:: skip;
	fi;
	end(TARGET_RETRY);
}

/* start_record(), and its answer comes */
inline on_recorded()
{
	record(outcome[me], number[me], is_own[me], state[me] == BLAMED);
	attempt_free();
}

/* A record whose answer nobody sees is carried out now, or later, or never. */
inline send_record()
{
	if
	:: record(outcome[me], number[me], is_own[me], state[me] == BLAMED);
	:: !has_late ->
		has_late = 1; late_number = number[me]; late_outcome = outcome[me];
		late_is_own = is_own[me]; late_is_blamed = state[me] == BLAMED;
	:: skip;
	fi;
}

/* The attempt goes back to the list of those that have ended. */
inline on_not_recorded()
{
	send_record();
}

/* on_peeked(), and the row cannot be leased alone */
inline blame()
{
	number[me] = leases;
	if
	:: end(TARGET_DEAD);
	:: end(TARGET_RETRY);
	fi;
	state[me] = BLAMED;
}

inline die()
{
	if
	:: state[me] >= ENDED -> send_record();
	:: else
	fi;
	attempt_free();
}

#define STEP(condition, action)	atomic { (condition) -> SAY(action) action; show_all(); }

proctype relay(byte me)
{
end_here:	do
	:: STEP(state[me] == NONE && MAY_LEASE, on_leased())
	:: STEP(state[me] == WAITING, begin())
	:: STEP(state[me] == SENDING, on_answered())
	:: STEP(state[me] == SENDING, on_answered_failed())
	:: STEP(state[me] == SENDING, on_answered_refused())
	:: STEP(state[me] >= ENDED, on_recorded())
	/* faults */
	:: STEP(IS_STORMY && state[me] == WAITING, give_back())
	:: STEP(IS_STORMY && state[me] == SENDING, cut_off())
	:: STEP(IS_STORMY && state[me] >= ENDED, on_not_recorded())
	:: STEP(IS_STORMY && state[me] != NONE, die())
	:: STEP(IS_STORMY && state[me] == NONE && MAY_LEASE, blame())
	od
}

#ifdef LEASE_NEVER_ENDS
#define MAY_END	(due_at == LATER)
#else
#define MAY_END	(due_at == LATER || (due_at == LEASE_ENDS && (IS_STORMY || !IS_HELD)))
#endif

proctype world()
{
end_here:	do
	:: atomic { row == PENDING && MAY_END -> SAY_WORLD("time: the row comes due") due_at = PAST; show_all(); }
	:: atomic { IS_STORMY && MAY_LEASE -> SAY_WORLD("postgres: a lease is committed, and its answer is lost") lease(); show_all(); }
	:: atomic { IS_STORMY && row == TARGET_DEAD && leases < LEASES ->
		SAY_WORLD("operator: wsonce dead-letters retry") row = PENDING; attempts = 0; due_at = PAST; show_all(); }
	:: atomic { has_late ->
		SAY_WORLD("network: a late record arrives")
		record(late_outcome, late_number, late_is_own, late_is_blamed);
		has_late = 0; late_outcome = 0; late_number = 0; late_is_own = 0; late_is_blamed = 0;
		show_all();
	}
	od
}

init
{
	atomic {
		run relay(0);
		run relay(1);
#if LISTENERS == 3
		run relay(2);
#endif
		run world();
	}
}

#ifdef CALM
active proctype faults_cease()
{
	is_calm = 1;
}

#define IS_SETTLED	(row != PENDING)

/* The opposite of [](is_calm -> <>IS_SETTLED), which spin looks for. */
never {
	do
	:: true
	:: is_calm && !IS_SETTLED -> break
	od;
accept:	do
	:: !IS_SETTLED
	od
}
#endif
