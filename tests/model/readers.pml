/* readers.pml: who reads one source, where READERS of INSTANCES listeners do (listener/fleet/reading.c, roster.c). Listener 0 comes
 * before listener 1 for this source, and so on, which is one of the orders that rendezvous hashing gives.
 *
 * Each listener tells Redis that it is there, whether it reads, and whether it fails: has not been well connected for
 * long. It gets what the others told: beat(), one script. Its answer comes any time later, judge(), or with PROMPT at
 * once. A heartbeat of a dead listener stays for a while, expire(). A reader that fails has a substitute.
 *
 * Properties:
 *
 * never_unread: some listener that lives has a connection. It is promised for READERS - 1 faults at a time, each the
 * death of a listener or the end of a connection: after them there is none until the heartbeats of the dead have gone
 * and those without a connection have said so, all who live have judged an answer of then or still wait for one, and
 * READERS have a connection again. From there on answers that were asked for earlier are not fresh (FRESH_MS).
 *
 * read_if_possible: if fewer than 2 * READERS listeners fail, and another one lives, then one has a connection once
 * those have said so, all have judged a true answer, and each that is to have a connection has one or says that it
 * fails.
 *
 * More than the real world: connections are made, answers come, and a reader says that it fails, connected or not, as
 * late or as early as they like. The ten seconds for which a turn counts, and the five for which a connection must have
 * brought messages, are left out: no proof rests on the first, and the second finds out what works. */

#ifndef INSTANCES
#define INSTANCES 3
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef START
#define START READERS		/* listeners that live from the first moment on */
#endif
#ifndef JOINS
#define JOINS 3			/* starts and restarts after that */
#endif
#ifndef FAILURES
#define FAILURES 0		/* how often a listener begins to say that it fails; 0: connections do not end, either */
#endif
#ifndef ROUNDS
#define ROUNDS 2		/* of READERS - 1 faults each */
#endif
#ifndef CUTS
#define CUTS 0			/* ends of connections that no promise allows for */
#endif

#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

byte alive, open, wants;	/* sets of listeners: that live; with a connection; that are to have one */
byte told;			/* in Redis: whose heartbeat is there; */
byte told_open;			/* which of them say that they have a connection that works, */
byte told_failing;		/* and which that they fail */
byte asked;			/* who waits for an answer: */
byte seen[INSTANCES];		/* what told was then, */
byte seen_open[INSTANCES];	/* told_open, */
byte seen_failing[INSTANCES];	/* and told_failing; of both only those that come before us */
byte fresh;			/* whose answer that is on its way is of this round */
byte judged;			/* who has judged one that was asked for after the heartbeats of the dead had gone */
byte informed;			/* who has judged an answer that was true, and is so still */
byte faults, joins, rounds, failures, cuts;
bit is_promised;
byte i_set, n_set, n_failing, n_left;	/* for loops in d_steps; always 0 between them */
bit is_unread;				/* likewise */

inline count(set)
{
	i_set = 0;
	n_set = 0;
	do
	:: i_set < INSTANCES ->
		n_set = n_set + HAS(set, i_set);
		i_set++
	:: else -> break
	od;
	i_set = 0
}

/* roster_is_reader(), after n_set listeners of which n_failing fail */
#ifdef NO_SUBSTITUTES
#define IS_READER (n_set < READERS)
#else
#define IS_READER (n_set < READERS + (n_failing < READERS -> n_failing : READERS))
#endif

#ifdef ALL_LEFT_OUT
#define IS_READ !is_unread
#else
#define IS_READ (!is_unread && n_left <= READERS)
#endif

/* Counts those that come before a listener by its answer, and with roster_is_read(), those of them that are readers: who
 * comes later is none if the listener is none. */
inline count_before(me)
{
	do
	:: i_set < me && HAS(seen[me], i_set) ->
		if
		:: IS_READER && !HAS(seen_open[me], i_set) ->
			n_left = n_left + HAS(seen_failing[me], i_set);
			is_unread = is_unread || !HAS(seen_failing[me], i_set)
		:: else
		fi;
		n_set++;
		n_failing = n_failing + HAS(seen_failing[me], i_set);
		i_set++
	:: i_set < me && !HAS(seen[me], i_set) -> i_set++
	:: else -> break
	od
}

inline beat(me, failing)
{
	told = told | BIT(me);
	told_open = (HAS(open, me) -> told_open | BIT(me) : told_open & ~BIT(me));
	informed = (told_failing == (failing) -> informed : 0);
	told_failing = failing;
	asked = asked | BIT(me);
	seen[me] = told;
	seen_open[me] = (HAS(wants, me) -> told_open & (BIT(me) - 1) : 0);	/* who does not read does not hang up */
	seen_failing[me] = told_failing & (BIT(me) - 1);
	fresh = fresh | BIT(me)
}

inline forget(me)
{
	asked = asked & ~BIT(me);
	seen[me] = 0;
	seen_open[me] = 0;
	seen_failing[me] = 0
}

bit never_unread = 1, read_if_possible = 1;
#define expect_read() never_unread = (!is_promised || (alive & open)); assert(never_unread)

inline expect_possible()
{
	count(told_failing);
	read_if_possible = (informed != alive || (wants & ~(open | told_failing)) || n_set >= 2 * READERS ||
		!(alive & ~told_failing) || (alive & open));
	n_set = 0;
	assert(read_if_possible)
}

inline judge(me)
{
	count_before(me);
	informed = (FAILURES && seen[me] == alive && seen_failing[me] == (told_failing & (BIT(me) - 1)) ->
		informed | BIT(me) : informed & ~BIT(me));
	if
	:: IS_READER -> wants = wants | BIT(me)
#ifdef HANG_UP_AT_ONCE
	:: !IS_READER ->
#else
#ifdef HANG_UP_WHEN_STALE
	:: !IS_READER && IS_READ ->
#else
	:: !IS_READER && IS_READ && HAS(fresh, me) ->
#endif
#endif
		wants = wants & ~BIT(me);
		open = open & ~BIT(me)
	:: else
	fi;
	judged = (HAS(fresh, me) && !(seen[me] & ~alive) -> judged | BIT(me) : judged);
	forget(me);
	i_set = 0;
	n_set = 0;
	n_failing = 0;
	n_left = 0;
	is_unread = 0;
	expect_read();
	expect_possible()
}

#ifdef PROMPT
#define AT_ONCE(me) judge(me)
#else
#define AT_ONCE(me) skip
#endif

proctype listener(byte me)
{
end:	do
	:: d_step { HAS(alive & ~asked, me) -> beat(me, told_failing & ~BIT(me)); AT_ONCE(me) }	/* readings_write() */
	:: d_step { HAS(alive & wants & ~asked, me) && (HAS(told_failing, me) || failures > 0) ->
		failures = failures - !HAS(told_failing, me);
		beat(me, told_failing | BIT(me));
		AT_ONCE(me)
	   }
	:: d_step { HAS(alive, me) && HAS(asked, me) -> judge(me) }	/* readings_judge() */
	:: d_step { HAS(alive, me) && HAS(wants, me) && !HAS(open, me) ->	/* on_open() */
		open = open | BIT(me);
	   }
	:: d_step { FAILURES && HAS(alive, me) && HAS(open, me) && faults > 0 ->	/* its connection ends, */
		faults--;
		open = open & ~BIT(me);
		expect_read();
	   }
	:: d_step { HAS(alive, me) && HAS(open, me) && cuts > 0 ->	/* or more do than the promise allows for */
		cuts--;
		is_promised = 0;
		open = open & ~BIT(me);
	   }
	:: d_step { HAS(alive, me) && faults > 0 ->		/* SIGKILL, or a machine that is cut off */
		faults--;
		alive = alive & ~BIT(me);
		open = open & ~BIT(me);
		wants = wants & ~BIT(me);
		judged = 0;
		informed = 0;
		forget(me);
		expect_read();
	   }
	:: d_step { !HAS(alive, me) && joins > 0 && !HAS(told, me) ->	/* it starts, or starts again */
		joins--;
		alive = alive | BIT(me);
		informed = 0;
	   }
	:: d_step { !HAS(alive, me) && HAS(told, me) ->		/* ALIVE_MS have gone by */
		told = told & ~BIT(me);
		told_open = told_open & ~BIT(me);
		told_failing = told_failing & ~BIT(me);
		judged = 0;
	   }
	od
}

proctype time()
{
	do
	:: d_step { rounds > 0 && faults == 0 && !(told & ~alive) && !(told_open & ~open) && !(alive & ~(judged | asked)) ->
		count(alive & open);
		if
		:: n_set >= READERS ->
			rounds--;
			faults = READERS - 1;
			is_promised = 1;
			fresh = 0;
			judged = 0
		:: else
		fi;
		n_set = 0;
	   }
	:: rounds == 0 -> break
	od
}

init
{
	atomic {
		alive = BIT(START) - 1;
		joins = JOINS;
		rounds = ROUNDS;
		failures = FAILURES;
		cuts = CUTS;
		run time();
		run listener(0);
		run listener(1);
		run listener(2);
#if INSTANCES == 4
		run listener(3);
#endif
	}
}
