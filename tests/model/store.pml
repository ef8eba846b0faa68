/* store.pml: how a batch becomes rows, as a model for spin: what a statement's answer says of it, how it is halved
 * until a row is alone, and what is told of each event. Its steps bear the names of the functions in
 * listener/store/store_postgres.c. A statement's commit and its answer are two steps, and between any two steps anything
 * else may happen.
 *
 * Properties (each is a bit of that name, asserted where it could break):
 *   told_once      of each event of a batch the store tells once what became of it
 *   stored_is_row  an event that is told to be stored has a row, or Postgres has forgotten it since the epoch that came
 *                  with the answer, which its mark will bear
 *   persisted_is_ours  STORE_INSERTED is told only of a row that this listener made
 *   good_is_kept   an event that Postgres takes is never told to be refused
 * and with -DCALM and pan -a, as an LTL property:
 *   always_settled once faults cease, every event is stored or refused, but for one that the server may be to blame for
 *
 * What Postgres makes of each row is chosen at the start (ROWS of them, in a batch):
 *   GOOD, BAD (a constraint or function raises), NULLED (a trigger keeps it back), RETRIED (a function raises 40001),
 *   UNCLEAR (an internal error: the row's or the server's), HELD (another transaction has its id, for a while, and
 *   then commits it or not).
 * Where the model allows more than the world does: no clocks; any statement may fail by the server's fault, or its
 * answer may be lost, with the commit or without it; somebody else may store any good row at any time.
 * Where it allows less: ROWS (3), of which ODD (2) are not GOOD; one listener; one lost answer, one time that the
 * server is in trouble, FORGETS times that Postgres forgets commits. TRIES is 1. All rows that are put off are tried
 * again in one batch. Limits on the rows of a statement, and dead letters, are not modelled. */

#ifndef ROWS
#define ROWS	3
#endif
#ifndef ODD
#define ODD	2
#endif
#ifndef LOSSES
#define LOSSES	1
#endif
#ifndef TROUBLES
#define TROUBLES 1
#endif
#ifndef FORGETS
#define FORGETS	0
#endif
#define TRIES	1

/* What Postgres makes of a row */
#define GOOD	0
#define BAD	1
#define NULLED	2
#define RETRIED	3
#define UNCLEAR	4
#define HELD	5

/* enum job of store_postgres.c */
#define JOB_NONE	0
#define JOB_FIND_PRESENT 1
#define JOB_COPY	2
#define JOB_INSERT	3
#define JOB_VERIFY	4

/* enum store_result; what is told of an event in the batch at hand */
#define UNTOLD		0
#define STORE_INSERTED	1
#define STORE_PRESENT	2
#define STORE_REFUSED	3
#define STORE_LATER	4

/* The answer that is on its way: POSTGRES_OK; BAD_ROW; CONFLICT and TROUBLE, by whom they are blamed; UNKNOWN */
#define NO_ANSWER	0
#define OK		1
#define BAD_ROW		2
#define OF_ROW		3	/* POSTGRES_CONFLICT, POSTGRES_BLAME_ROW */
#define OF_ANYBODY	4	/* POSTGRES_TROUBLE, POSTGRES_BLAME_OPEN */
#define OF_NOBODY	5	/* POSTGRES_TROUBLE, POSTGRES_BLAME_NOBODY */
#define IS_LATE		6	/* likewise, and it waited */
#define UNKNOWN		7
#define UNKNOWN_LATE	8

/* Postgres */
byte kind[ROWS];
byte row[ROWS];				/* 0, or whose: */
#define OURS	1
#define OTHERS	2
byte epoch;

/* The store */
byte job, first_job;
byte from[ROWS + 1], to[ROWS + 1];	/* ranges: a stack, */
byte range_count;			/* whose top is at work */
byte tries;
bool has_looked;
byte range_epoch;
bool present[ROWS], suppressed[ROWS];
bool put_offs[ROWS], passed[ROWS];	/* passed: rows have got through since the event was first put off */
byte told[ROWS];
bool in_batch[ROWS], is_settled[ROWS];
byte answer;
bool returned[ROWS];			/* the ids in it */
byte answer_epoch;

byte losses, troubles, forgets;
bit told_once = 1, stored_is_row = 1, persisted_is_ours = 1, good_is_kept = 1;
byte i, n, absent;

#include "shared.pml"

#ifdef TRACE
#define SAY(what)	printf(#what); printf("\n");
#define show()		printf("\t\tjob %d, ranges %d, from %d to %d, answer %d, rows %d %d %d, told %d %d %d\n", job, range_count, \
			       from[range_count - (range_count > 0)], to[range_count - (range_count > 0)], answer, \
			       row[0], row[1], row[2], told[0], told[1], told[2])
#else
#define SAY(what)
#define show()		skip
#endif

#define TOP		(range_count - 1)
#define IS_IN_TOP(e)	((e) >= from[TOP] && (e) < to[TOP] && in_batch[e])
#define each_of_top	for (i : 0 .. ROWS - 1) { if :: IS_IN_TOP(i) ->
#define end_each	:: else fi; }

/* --- what is told --- */

inline tell(e, result)
{
	expect(told_once, told[e] == UNTOLD);
	told[e] = result;
	if
	:: result == STORE_INSERTED || result == STORE_PRESENT ->
		expect(stored_is_row, row[e] || answer_epoch != epoch);
		expect(persisted_is_ours, result == STORE_PRESENT || row[e] == OURS || answer_epoch != epoch);
	:: result == STORE_REFUSED -> expect(good_is_kept, kind[e] != GOOD && kind[e] != HELD);
	:: else
	fi;
	is_settled[e] = result != STORE_LATER;
}

inline pop_range()
{
	range_count--;
	from[range_count] = 0;
	to[range_count] = 0;
	if
	:: range_count -> skip;
	:: else -> end_batch();
	fi;
}

/* The batch has left the store: whoever is in it was told of. */
inline end_batch()
{
	job = JOB_NONE;
	for (n : 0 .. ROWS - 1) {
		if
		:: in_batch[n] -> expect(told_once, told[n] != UNTOLD);
		:: else
		fi;
		in_batch[n] = false;
		present[n] = false;
		suppressed[n] = false;
		told[n] = UNTOLD;
	}
	tries = 0;
	has_looked = false;
	range_epoch = 0;
	answer_epoch = 0;
}

inline note_passed()
{
	for (n : 0 .. ROWS - 1) {
		passed[n] = passed[n] || put_offs[n];
	}
}

inline report_stored()
{
	each_of_top
		if
		:: suppressed[i] -> tell(i, STORE_REFUSED);
		:: !suppressed[i] && present[i] -> tell(i, STORE_PRESENT);
		:: else -> note_passed(); tell(i, STORE_INSERTED);
		fi;
	end_each
	pop_range();
}

/* --- one row is at fault --- */

inline split()
{
#ifdef HALF_LOST
	to[TOP] = from[TOP] + (to[TOP] - from[TOP]) / 2;
#else
	from[range_count] = from[TOP];
	to[range_count] = from[TOP] + (to[TOP] - from[TOP]) / 2;
	from[TOP] = to[range_count];
	range_count++;
#endif
}

#define IS_ALONE	(to[TOP] - from[TOP] == 1)

inline refuse_row()
{
	each_of_top
		tell(i, STORE_REFUSED);
	end_each
	pop_range();
}

inline put_off()
{
	each_of_top
		if
		:: !put_offs[i] -> put_offs[i] = true; passed[i] = false;
		:: else
		fi;
		tell(i, STORE_LATER);
	end_each
	pop_range();
}

inline on_bad_row()
{
	if
#ifdef WHOLE_REFUSED
	:: true -> refuse_row();
#else
	:: IS_ALONE -> refuse_row();
	:: else -> split();
#endif
	fi;
}

/* is_rows: blamed on the row by what was raised; may_be: it may be the row's, if others have got through. */
inline on_trouble(may_pass, is_late, is_rows, may_be)
{
	if
	:: may_pass && !is_late && tries < TRIES -> tries++;		/* retry_later() */
#ifdef NEVER_HALVED
	:: else -> skip;
#else
	:: !(may_pass && !is_late && tries < TRIES) && !IS_ALONE -> split();
	:: !(may_pass && !is_late && tries < TRIES) && IS_ALONE ->
		if
#ifdef LATE_IS_REFUSED
		:: true -> refuse_row();
#else
		:: is_rows || (may_be && put_offs[from[TOP]] && passed[from[TOP]]) -> refuse_row();
		:: else -> put_off();
#endif
		fi;
#endif
	fi;
}

/* --- answers --- */

inline insert_instead()
{
	job = JOB_INSERT;
}

inline on_looked_up()
{
	absent = 0;
	each_of_top
		present[i] = returned[i];
		absent = absent + !returned[i];
	end_each
	has_looked = true;
	if
	:: absent -> job = JOB_COPY;
	:: else -> report_stored();
	fi;
}

inline on_copied()
{
	absent = 0;
	n = 0;
	each_of_top
		absent = absent + !present[i];
		n = n + returned[i];
	end_each
	if
#ifndef COPY_UNCOUNTED
	:: n != absent -> insert_instead();
#endif
	:: else -> report_stored();
	fi;
}

inline on_inserted()
{
	absent = 0;
	each_of_top
		present[i] = !returned[i];
		absent = absent + !returned[i];
	end_each
	if
#ifndef NOT_RETURNED_IS_PRESENT
	:: absent -> job = JOB_VERIFY;
#endif
	:: else -> report_stored();
	fi;
}

inline on_verified()
{
	each_of_top
		suppressed[i] = present[i] && !returned[i];
	end_each
	job = JOB_INSERT;
	report_stored();
}

inline on_unknown()
{
#ifdef UNKNOWN_IS_STORED
	if
	:: job == JOB_COPY -> report_stored();
	:: else -> job = (job == JOB_FIND_PRESENT -> JOB_INSERT : job);
	fi;
#else
	job = (job == JOB_FIND_PRESENT || job == JOB_COPY -> JOB_INSERT : job);
#endif
}

/* The database has forgotten what the first of two statements told. */
#ifdef FORGOTTEN_IGNORED
#define HAS_FORGOTTEN	false
#else
#define HAS_FORGOTTEN	((job == JOB_VERIFY || (job == JOB_COPY && has_looked)) && answer_epoch != range_epoch)
#endif

inline on_done()
{
	if
	:: HAS_FORGOTTEN -> job = JOB_INSERT;
	:: else ->
		range_epoch = (job == JOB_FIND_PRESENT || job == JOB_INSERT -> answer_epoch : range_epoch);
		if
		:: job == JOB_FIND_PRESENT -> on_looked_up();
		:: job == JOB_COPY -> on_copied();
		:: job == JOB_INSERT -> on_inserted();
		:: job == JOB_VERIFY -> on_verified();
		fi;
	fi;
}

inline clear_answer()
{
	answer = NO_ANSWER;
	for (n : 0 .. ROWS - 1) {
		returned[n] = false;
	}
}

inline on_answer()
{
	if
	:: answer == OK -> on_done();
	:: answer == UNKNOWN -> on_unknown();
	:: answer == UNKNOWN_LATE && job == JOB_INSERT -> on_trouble(true, true, false, false);
	:: answer == UNKNOWN_LATE && job != JOB_INSERT -> on_unknown();
	:: else ->
		if
		:: job == JOB_FIND_PRESENT || job == JOB_COPY -> insert_instead();
		:: job == JOB_VERIFY -> skip;				/* retry_later() */
		:: job == JOB_INSERT && answer == BAD_ROW -> on_bad_row();
		:: job == JOB_INSERT && answer == OF_ROW -> on_trouble(true, false, true, false);
		:: job == JOB_INSERT && answer == OF_ANYBODY -> on_trouble(true, false, false, true);
		:: job == JOB_INSERT && answer == OF_NOBODY -> on_trouble(true, false, false, false);
		:: job == JOB_INSERT && answer == IS_LATE -> on_trouble(true, true, false, false);
		fi;
	fi;
	clear_answer();
}

/* --- sending --- */

/* First all rows, then those that were put off. */
inline start()
{
	n = 0;
	for (i : 0 .. ROWS - 1) {
		in_batch[i] = !is_settled[i];
		n = n + put_offs[i];
	}
	to[0] = ROWS;
	range_count = 1;
	tries = (n -> TRIES : 0);
	job = (n -> JOB_INSERT : first_job);
}

/* --- Postgres --- */

#if ROWS == 2
#define ANY(what)	(what(0) || what(1))
#else
#define ANY(what)	(what(0) || what(1) || what(2))
#endif
/* Rows that the statement brings: of COPY those that were not found. One that is there is passed by. */
#define IS_BROUGHT(e)	(IS_IN_TOP(e) && !(job == JOB_COPY && present[e]))
#define RAISES_BAD(e)	(IS_BROUGHT(e) && (kind[e] == BAD || (job == JOB_COPY && row[e])))
#define RAISES_AGAIN(e)	(IS_BROUGHT(e) && kind[e] == RETRIED)
#define RAISES_UNCLEAR(e) (IS_BROUGHT(e) && kind[e] == UNCLEAR)
#define WAITS(e)	(IS_BROUGHT(e) && kind[e] == HELD)
#define IS_STORING	(job == JOB_COPY || job == JOB_INSERT)
#define FAILS		(IS_STORING && (ANY(RAISES_BAD) || ANY(RAISES_AGAIN) || ANY(RAISES_UNCLEAR) || ANY(WAITS)))

inline commit()
{
	for (i : 0 .. ROWS - 1) {
		if
		:: IS_STORING && IS_BROUGHT(i) && !row[i] && kind[i] == GOOD -> row[i] = OURS; returned[i] = true;
		:: !IS_STORING && IS_IN_TOP(i) && row[i] -> returned[i] = job == JOB_FIND_PRESENT || present[i];
		:: else
		fi;
	}
	answer_epoch = epoch;
	answer = OK;
}

#define STEP(condition, action)		d_step { (condition) -> SAY(action) action; show(); }
#define IS_BATCHED(e)	(!is_settled[e])

proctype store()
{
end:	do
	:: STEP(job == JOB_NONE && ANY(IS_BATCHED), start())
	:: STEP(job != JOB_NONE && answer == NO_ANSWER && !FAILS, commit())
	:: STEP(job != JOB_NONE && answer == NO_ANSWER && IS_STORING && ANY(RAISES_BAD), answer = BAD_ROW)
	:: STEP(job != JOB_NONE && answer == NO_ANSWER && IS_STORING && ANY(RAISES_AGAIN), answer = OF_ROW)
	:: STEP(job != JOB_NONE && answer == NO_ANSWER && IS_STORING && ANY(RAISES_UNCLEAR), answer = OF_ANYBODY)
	:: STEP(job != JOB_NONE && answer == NO_ANSWER && IS_STORING && ANY(WAITS), answer = IS_LATE)
	:: STEP(answer != NO_ANSWER, on_answer())
	od
}

proctype faults()
{
end:	do
	/* The server's trouble, and an answer that is lost: before the statement, or after its commit. */
	:: STEP(IS_STORMY && job != JOB_NONE && answer == NO_ANSWER && troubles < TROUBLES, troubles++; answer = OF_NOBODY)
	:: STEP(IS_STORMY && job != JOB_NONE && (answer == NO_ANSWER || answer == OK) && losses < LOSSES,
		losses++; clear_answer(); answer = UNKNOWN)
	:: STEP(IS_STORMY && job != JOB_NONE && (answer == NO_ANSWER || answer == OK) && losses < LOSSES,
		losses++; clear_answer(); answer = UNKNOWN_LATE)
	od
}

/* Somebody else stores row e, which may have been his for a while. */
proctype others(byte e)
{
end:	do
	:: STEP(IS_STORMY && kind[e] == GOOD && !row[e], row[e] = OTHERS)
	:: STEP(kind[e] == HELD, kind[e] = GOOD; row[e] = OTHERS)
	:: STEP(kind[e] == HELD, kind[e] = GOOD)
	od
}

#if FORGETS
/* A failover: the commits of any rows are gone. The listener learns of the epoch by the next answer; but an answer
 * that was given is that of the epoch before. */
proctype failover()
{
end:	do
	:: atomic {
		IS_STORMY && forgets < FORGETS -> forgets++; epoch++; SAY(failover())
		if :: row[0] = 0; :: skip; fi;
		if :: row[1] = 0; :: skip; fi;
		show();
	   }
	od
}
#endif

#ifdef CALM
proctype faults_cease()
{
	d_step {
		is_calm = 1;
		for (i : 0 .. ROWS - 1) {
			kind[i] = (kind[i] == HELD -> GOOD : kind[i]);
		}
	}
}
#endif

init
{
	atomic {
		if
		:: first_job = JOB_COPY;
		:: first_job = JOB_FIND_PRESENT;
		:: first_job = JOB_INSERT;
		fi;
		for (i : 0 .. ROWS - 1) {
			if
			:: kind[i] = GOOD;
			:: n < ODD -> n++; kind[i] = BAD;
			:: n < ODD -> n++; kind[i] = NULLED;
			:: n < ODD -> n++; kind[i] = RETRIED;
			:: n < ODD -> n++; kind[i] = UNCLEAR;
			:: n < ODD -> n++; kind[i] = HELD;
			fi;
			if
			:: kind[i] == GOOD -> row[i] = OTHERS;
			:: skip;
			fi;
		}
		i = 0;
		n = 0;
		run others(0);
		run others(1);
#if ROWS == 3
		run others(2);
#endif
		run store();
		run faults();
#if FORGETS
		run failover();
#endif
#ifdef CALM
		run faults_cease();
#endif
		i = 0;
	}
}

#ifdef CALM
#define IS_OPEN(e)	(!is_settled[e] && kind[e] != UNCLEAR)

never {
	do
	:: true
	:: is_calm && ANY(IS_OPEN) -> break
	od;
accept:	do
	:: ANY(IS_OPEN)
	od
}
#endif
