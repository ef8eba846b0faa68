/* marks.pml: what a mark says, and to whom, as a model for spin: one event that comes as two messages, of which
 * Postgres refuses BAD for ever and takes GOOD; and a Postgres that forgets commits, as at a promotion, and then is in
 * another epoch. Its steps bear the names of the functions in listener/pipeline/pipeline*.c, claim.c and store_postgres.c. That
 * claims are shared rightly is wsonce.pml's business: here they have an owner and no time.
 *
 * Properties (each is a bit of that name, asserted where it could break). What was committed is written down by the
 * step in which Postgres commits; the answer, and with it the ack, is another step.
 *   acks_true      persisted or duplicate: after a statement, the row was committed in the epoch that the statement told;
 *                  by a mark, the row is there now. rejected: likewise for a dead letter of this very message
 *   marks_true     a mark of an epoch is written only if what it says was committed in that epoch
 * and with -DCALM and pan -a, as an LTL property:
 *   always_settled once faults cease, and GOOD is in the memory of a listener, the event gets its row
 *
 * Where the model allows more than the world does, so that nothing is missed:
 *   - No clocks: leases, marks, waits, and the second for which an epoch is beyond doubt end at any moment. But a server that
 *     takes over from another needs longer than that second, so a promotion ends it for all; and it counts from the
 *     question, so an answer to a question of before does not begin it anew.
 *   - Listeners die and begin anew, and feeds and producers send both messages to each, as often as they like.
 *   - A statement may be carried out and its answer be lost; each row is a statement. Redis may give no answer.
 *   - A message that is refused may be counted, given back, leave its place to the one behind it, or become a dead letter.
 * Where it allows less (bounds):
 *   - LISTENERS, and PROMOTIONS, at each of which the row and the letters may vanish or stay, each for itself.
 *   - With GOOD_ALONE or BAD_ALONE the other message never comes.
 *   - One mark of the whole fleet may be under way for long; any other is carried out when it is sent, or never.
 *   - A held message is claimed again at any time. */

#ifndef LISTENERS
#define LISTENERS 2
#endif
#ifndef PROMOTIONS
#define PROMOTIONS 1
#endif

#define BAD	0
#define GOOD	1

/* enum event_state, and the answers that are on their way. */
#define NOT_AT_WORK	0
#define EV_CLAIMING	1
#define EV_HELD		2
#define EV_BEHIND	3
#define EV_BATCHED	4
#define EV_STORING	5
#define STORE_PRESENT	6	/* or STORE_INSERTED */
#define STORE_REFUSED	7
#define EV_REFUSED	8
#define EV_DEAD_LETTERING	9
#define STORE_DEAD_LETTERED	10
#define STORE_HAS_ROW	11

/* What a key holds. epoch 0 is none; in the program epochs are random, here they count. */
#define ABSENT		0
#define CLAIM(i)	(1 + (i))
#define DEAD(e, v)	(8 + (e) * 4 + (v))
#define DONE(e)		(8 + (e) * 4 + 2)
#define IS_MARK(k)	((k) >= 8)
#define IS_CLAIM(k)	((k) != ABSENT && (k) < 8)
#define EPOCH_OF(k)	(((k) - 8) / 4)
#define DIGEST_OF(k)	(((k) - 8) % 4)
#define IS_DONE(k)	(IS_MARK(k) && DIGEST_OF(k) == 2)
#define IS_DEAD(k)	(IS_MARK(k) && DIGEST_OF(k) < 2)

#define MESSAGE		(me * 2 + v)
#define OTHER		(me * 2 + 1 - v)

/* Redis */
byte key;

/* Postgres */
bit row;
bit letter[2];
byte home = 1;		/* its epoch; 0: emptied, and not yet begun */
byte begun = 1;		/* epochs so far */
byte promotions;

/* What was ever committed in which epoch, bits of epochs. Nobody in the program knows. */
byte had_row = 0;
byte had_letter[2];

/* Listeners */
byte state[LISTENERS * 2];
byte epoch[LISTENERS];		/* of the store and the claim */
bit is_sure[LISTENERS];		/* store_is_sure() */
bit is_recent[LISTENERS];	/* the statement at work was sent after the last promotion */
byte told[LISTENERS];		/* the epoch in the answer that is on its way */

/* The network: a mark */
byte late;

bit acks_true = 1, marks_true = 1;

#include "shared.pml"

/* --- for a reader of a counterexample --- */

#ifdef TRACE
#define SAY(what)	printf("listener %d, ", me); if :: v == BAD -> printf("bad: "); :: else -> printf("good: "); fi; \
			printf(#what); printf("\n");
#define SAY_WORLD(what)	printf(what); printf("\n");

inline show_key(k)
{
	if
	:: k == ABSENT -> printf(" absent");
	:: IS_CLAIM(k) -> printf(" claim of listener %d", k - 1);
	:: IS_DONE(k) -> printf(" done, epoch %d", EPOCH_OF(k));
	:: IS_DEAD(k) && DIGEST_OF(k) == BAD -> printf(" dead, epoch %d, bad", EPOCH_OF(k));
	:: IS_DEAD(k) && DIGEST_OF(k) == GOOD -> printf(" dead, epoch %d, good", EPOCH_OF(k));
	fi;
}

inline show_all()
{
	printf("\t\tepoch %d, known %d %d, sure %d %d: row %d, letters %d %d, key", home, epoch[0], epoch[1], is_sure[0], is_sure[1],
		row, letter[BAD], letter[GOOD]);
	show_key(key);
	printf("\n");
}
#else
#define SAY(what)
#define SAY_WORLD(what)
#define show_all()	skip
#endif

/* --- Postgres --- */

inline write_down()
{
	if
	:: row -> had_row = had_row | (1 << home);
	:: else
	fi;
	if
	:: letter[BAD] -> had_letter[BAD] = had_letter[BAD] | (1 << home);
	:: else
	fi;
	if
	:: letter[GOOD] -> had_letter[GOOD] = had_letter[GOOD] | (1 << home);
	:: else
	fi;
}

#define WAS_ROW(e)	((had_row >> (e)) & 1)
#define WAS_LETTER(w, e)	((had_letter[w] >> (e)) & 1)

/* The INSERT commits, or its row is refused. */
inline commit_insert(v)
{
	if
	:: row -> state[MESSAGE] = STORE_PRESENT;
	:: !row && v == GOOD -> row = 1; write_down(); state[MESSAGE] = STORE_PRESENT;
	:: v == BAD -> state[MESSAGE] = STORE_REFUSED;
	fi;
	told[me] = home;
}

/* sql/queries/write_dead_letters.sql */
inline commit_letter(v)
{
	if
	:: row -> state[MESSAGE] = STORE_HAS_ROW;
	:: else -> letter[v] = 1; write_down(); state[MESSAGE] = STORE_DEAD_LETTERED;
	fi;
	told[me] = home;
}

/* A standby takes over, or a crash is recovered from: wsonce_epoch is empty. */
inline promote()
{
	promotions++;
	if
	:: row = 0;
	:: skip;
	fi;
	if
	:: letter[BAD] = 0;
	:: skip;
	fi;
#ifdef EPOCH_KEPT
	skip;
#else
	home = 0;
#endif
	write_down();
	is_sure[0] = 0;
	is_sure[1] = 0;
	is_recent[0] = 0;
	is_recent[1] = 0;
}

/* sql/queries/make_epoch.sql */
inline make_epoch()
{
	begun++;
	home = begun;
	write_down();
}

/* --- store_postgres.c --- */

inline note_epoch()
{
	epoch[me] = told[me];
#ifdef SURE_BY_ANSWER
	is_sure[me] = 1;
#else
	is_sure[me] = is_recent[me];
#endif
	told[me] = 0;
	is_recent[me] = 0;
}

/* A question, and its answer */
inline store_ask_epoch()
{
	epoch[me] = home;
	is_sure[me] = 1;
}

/* --- claim.c --- */

#define IS_MARK_TRUE(k)	(EPOCH_OF(k) == 0 || (IS_DONE(k) && WAS_ROW(EPOCH_OF(k))) || \
			 (IS_DEAD(k) && WAS_LETTER(DIGEST_OF(k), EPOCH_OF(k))))

/* The SET is carried out now, or never, or later. */
inline claim_mark(mark)
{
	expect(marks_true, IS_MARK_TRUE(mark));
	if
	:: key = mark;
	:: IS_STORMY
	:: IS_STORMY && !late -> late = mark;
	fi;
}

/* A Redis that was frozen carries out what it was sent before. */
inline arrive_late()
{
	key = late;
	late = 0;
}

/* --- pipeline.c --- */


/* A row makes all messages with its id duplicates. */
inline settle_behind()
{
	if
	:: state[OTHER] == EV_BEHIND -> state[OTHER] = NOT_AT_WORK;
	:: else
	fi;
}

inline try_next()
{
	if
	:: state[OTHER] == EV_BEHIND -> state[OTHER] = EV_CLAIMING;
	:: else
	fi;
}

inline settle_stored(v)
{
	state[MESSAGE] = NOT_AT_WORK;
	settle_behind();
}

inline settle_rejected(v)
{
	state[MESSAGE] = NOT_AT_WORK;
#ifdef BEHIND_SHARES_LETTER
	expect(acks_true, state[OTHER] != EV_BEHIND || WAS_LETTER(1 - v, epoch[me]));
	settle_behind();
#endif
#ifndef LEAVE_BEHIND
	try_next();
#endif
}

inline take_place(v)
{
	if
	:: state[OTHER] == NOT_AT_WORK || state[OTHER] == EV_BEHIND -> state[MESSAGE] = EV_CLAIMING;
	:: else -> state[MESSAGE] = EV_BEHIND;
	fi;
}

inline pipeline_receive(v)
{
	take_place(v);
}

#ifdef EPOCH_IGNORED
#define IS_OF_EPOCH(k)	true
#else
#define IS_OF_EPOCH(k)	(epoch[me] && EPOCH_OF(k) == epoch[me])
#endif
#ifdef DEAD_MARK_OF_ID
#define IS_OF_MESSAGE(k)	true
#else
#define IS_OF_MESSAGE(k)	(DIGEST_OF(k) == v)
#endif
#ifdef SURE_FOR_EVER
#define IS_SURE		true
#else
#define IS_SURE		is_sure[me]
#endif

/* The mark is believed, or Postgres is asked first: about its epoch, or for the row. */
inline on_mark(v)
{
	if
	:: IS_SURE && IS_DONE(key) -> expect(acks_true, row); settle_stored(v);
	:: IS_SURE && IS_DEAD(key) -> expect(acks_true, letter[v]); settle_rejected(v);
	:: !IS_SURE -> state[MESSAGE] = EV_HELD;
	:: !IS_SURE -> state[MESSAGE] = EV_BATCHED;
	fi;
}

/* on_claimed() */
inline on_claimed(v)
{
	if
	:: key == ABSENT -> key = CLAIM(me); state[MESSAGE] = EV_BATCHED;
	:: IS_CLAIM(key) && key == CLAIM(me) -> state[MESSAGE] = EV_BATCHED;
	:: IS_CLAIM(key) && key != CLAIM(me) -> state[MESSAGE] = EV_HELD;
	:: IS_MARK(key) && IS_OF_EPOCH(key) && (IS_DONE(key) || IS_OF_MESSAGE(key)) -> on_mark(v);
	:: IS_MARK(key) && !(IS_OF_EPOCH(key) && (IS_DONE(key) || IS_OF_MESSAGE(key))) ->
		if
		:: epoch[me] -> key = CLAIM(me);	/* lua/seize.lua */
		:: else					/* CLAIM_UNKNOWN */
		fi;
		state[MESSAGE] = EV_BATCHED;
	fi;
}

inline insert_next(v)
{
	state[MESSAGE] = EV_STORING;
	is_recent[me] = 1;
}

inline dead_letter_next(v)
{
	state[MESSAGE] = EV_DEAD_LETTERING;
	is_recent[me] = 1;
}

inline on_stored(v)
{
#ifdef MARK_OF_OLD_EPOCH
	claim_mark(DONE(epoch[me]));
#endif
	note_epoch();
	expect(acks_true, WAS_ROW(epoch[me]));
	claim_mark(DONE(epoch[me]));
	settle_stored(v);
}

inline claim_release()
{
	if
	:: key == CLAIM(me) -> key = ABSENT;
	:: else
	fi;
}

/* fail_store(), pipeline_refuse_event() */
inline on_stored_refused(v)
{
	note_epoch();
	if
	:: state[MESSAGE] = EV_REFUSED;
	:: IS_STORMY -> claim_release(); state[MESSAGE] = EV_HELD;		/* give_back() */
	:: state[OTHER] == EV_BEHIND -> state[MESSAGE] = EV_BEHIND; state[OTHER] = EV_BATCHED;	/* try_other() */
	:: state[OTHER] == EV_BEHIND -> state[MESSAGE] = EV_BEHIND; state[OTHER] = EV_CLAIMING;	/* the claim was given back */
	fi;
}

inline on_dead_lettered(v)
{
	note_epoch();
	expect(acks_true, WAS_LETTER(v, epoch[me]));
	claim_mark(DEAD(epoch[me], v));
	settle_rejected(v);
}

inline on_dead_lettered_has_row(v)
{
	note_epoch();
	expect(acks_true, WAS_ROW(epoch[me]));
	claim_mark(DONE(epoch[me]));
	settle_stored(v);
}

/* on_unknown(): the statement was carried out or not, and is sent again */
inline lose_statement(v)
{
	if
	:: state[MESSAGE] == EV_STORING -> commit_insert(v);
	:: state[MESSAGE] == EV_DEAD_LETTERING -> commit_letter(v);
	:: skip;
	fi;
	told[me] = 0;
#ifdef UNKNOWN_IS_COMMITTED
	told[me] = epoch[me];
	state[MESSAGE] = STORE_PRESENT;
#else
	if
	:: state[MESSAGE] == EV_STORING || state[MESSAGE] == STORE_PRESENT || state[MESSAGE] == STORE_REFUSED ->
		state[MESSAGE] = EV_BATCHED;
	:: else -> state[MESSAGE] = EV_REFUSED;
	fi;
#endif
	is_recent[me] = 0;
	epoch[me] = 0;			/* on_postgres_state(): it is told by the next connection */
}

inline die()
{
	state[me * 2] = NOT_AT_WORK;
	state[me * 2 + 1] = NOT_AT_WORK;
	epoch[me] = 0;
	is_sure[me] = 0;
	is_recent[me] = 0;
	told[me] = 0;
}

#define STEP(condition, action)	atomic { (condition) -> SAY(action) action; show_all(); }

/* One message in one listener. */
proctype message(byte me; byte v)
{
end_here:
	do
	:: STEP(IS_STORMY && state[MESSAGE] == NOT_AT_WORK, pipeline_receive(v))
	:: STEP(state[MESSAGE] == EV_CLAIMING, on_claimed(v))
	:: STEP(state[MESSAGE] == EV_HELD && IS_STORMY, state[MESSAGE] = EV_CLAIMING)	/* on_due() */
	:: STEP(state[MESSAGE] == EV_HELD, state[MESSAGE] = EV_BATCHED)			/* pipeline_check_held() */
	:: STEP(IS_STORMY && state[MESSAGE] == EV_HELD && state[OTHER] == EV_BEHIND,
		state[MESSAGE] = EV_BEHIND; state[OTHER] = EV_CLAIMING)			/* wait_behind() */
	:: STEP(state[MESSAGE] == EV_CLAIMING && IS_STORMY, state[MESSAGE] = EV_BATCHED)	/* CLAIM_UNKNOWN */
	:: STEP(state[MESSAGE] == EV_BATCHED, insert_next(v))
	:: STEP(state[MESSAGE] == EV_STORING, commit_insert(v))
	:: STEP(state[MESSAGE] == STORE_PRESENT, on_stored(v))
	:: STEP(state[MESSAGE] == STORE_REFUSED, on_stored_refused(v))
	:: STEP(state[MESSAGE] == EV_REFUSED, dead_letter_next(v))
	:: STEP(state[MESSAGE] == EV_DEAD_LETTERING, commit_letter(v))
	:: STEP(state[MESSAGE] == STORE_DEAD_LETTERED, on_dead_lettered(v))
	:: STEP(state[MESSAGE] == STORE_HAS_ROW, on_dead_lettered_has_row(v))
	:: STEP(IS_STORMY && (state[MESSAGE] == EV_STORING || state[MESSAGE] == EV_DEAD_LETTERING), lose_statement(v))
	od
}

#define IS_IDLE(c)	(state[c] < EV_STORING || state[c] == EV_REFUSED)

proctype listener(byte me)
{
	byte v;

end_here:
	do
	:: STEP(IS_STORMY && !(epoch[me] == home && is_sure[me]) && IS_IDLE(me * 2) && IS_IDLE(me * 2 + 1), store_ask_epoch())
	:: STEP(IS_STORMY && is_sure[me], is_sure[me] = 0)		/* SURE_MS are over */
	:: STEP(IS_STORMY, die())
	od
}

proctype world()
{
end_here:
	do
	:: atomic { IS_STORMY && key != ABSENT -> SAY_WORLD("redis: the key expires") key = ABSENT; show_all(); }
	:: atomic { late != 0 -> SAY_WORLD("network: a late mark arrives") arrive_late(); show_all(); }
	:: atomic { IS_STORMY && promotions < PROMOTIONS -> SAY_WORLD("postgres: a standby is promoted") promote(); show_all(); }
	:: atomic { home == 0 -> SAY_WORLD("postgres: make_epoch") make_epoch(); show_all(); }
	od
}

init
{
	atomic {
#ifndef GOOD_ALONE
		run message(0, BAD);
		run message(1, BAD);
#endif
#ifndef BAD_ALONE
		run message(0, GOOD);
		run message(1, GOOD);
#endif
		run listener(0);
		run listener(1);
		run world();
	}
}

#ifdef CALM
active proctype faults_cease()
{
	is_calm = 1;
}

#define HAS_GOOD	(state[GOOD] != NOT_AT_WORK || state[2 + GOOD] != NOT_AT_WORK)
#define IS_SETTLED	(row || !HAS_GOOD)

/* The opposite of [](is_calm && HAS_GOOD -> <>row): that it is in memory, and is so for ever or vanishes without a row. */
never {
	do
	:: true
	:: is_calm && HAS_GOOD && !row -> break
	od;
accept:	do
	:: !row
	od
}
#endif
