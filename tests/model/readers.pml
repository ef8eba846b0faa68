/* readers.pml: who reads one source, where READERS of INSTANCES listeners do (listener/fleet/reading.c, roster.c). Listener 0 comes
 * before listener 1 for this source, and so on, which is one of the orders that rendezvous hashing gives.
 *
 * Each listener tells Redis that it is there and whether it reads, and gets what the others told: beat(), one script. Its
 * answer comes any time later, judge(). A heartbeat of a dead listener stays for a while, expire().
 *
 * Property: never_unread, some listener that lives has a connection. It is promised for READERS - 1 deaths at a time:
 * after them nobody else dies until the heartbeats of the dead have gone, all who live have judged an answer of then or
 * still wait for one, and READERS have a connection again. From there on answers that were asked for earlier are not
 * fresh (FRESH_MS).
 *
 * More than the real world: connections are made, and answers come, as late as they like. Less: connections do not
 * break unless their listener dies. The ten seconds for which a turn counts, and the five for which a connection must
 * have brought messages, are left out: no proof rests on the first, and the second finds out what works. */

#ifndef INSTANCES
#define INSTANCES 3
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef JOINS
#define JOINS 3			/* starts and restarts, after the first READERS listeners */
#endif
#ifndef ROUNDS
#define ROUNDS 2		/* of READERS - 1 deaths each */
#endif

#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

byte alive, open, wants;	/* sets of listeners: that live; with a connection; that are to have one */
byte told;			/* in Redis: whose heartbeat is there; */
byte told_open;			/* and which of them say that they have a connection that works */
byte asked;			/* who waits for an answer: */
byte seen[INSTANCES];		/* what told was then, */
byte seen_open[INSTANCES];	/* and told_open */
byte fresh;			/* whose answer that is on its way is of this round */
byte judged;			/* who has judged one that was asked for after the heartbeats of the dead had gone */
byte deaths, joins, rounds;
bit is_promised;
byte i_set, n_set;		/* for loops in d_steps; always 0 between them */

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

bit never_unread = 1;
#define expect_read() never_unread = (!is_promised || (alive & open)); assert(never_unread)

proctype listener(byte me)
{
	byte before;

	do
	:: d_step { HAS(alive, me) && !HAS(asked, me) ->	/* readings_write() */
		told = told | BIT(me);
		told_open = (HAS(open, me) -> told_open | BIT(me) : told_open & ~BIT(me));
		asked = asked | BIT(me);
		seen[me] = told;
		seen_open[me] = told_open;
		fresh = fresh | BIT(me);
	   }
	:: d_step { HAS(alive, me) && HAS(asked, me) ->		/* readings_judge() */
		count(seen[me] & (BIT(me) - 1));
		before = n_set;
		if
		:: before < READERS -> wants = wants | BIT(me)
		:: before >= READERS ->
			/* the first READERS of those that come before us, of which none is further than the last bit */
			i_set = 0;
			n_set = 0;
			before = 0;
			do
			:: i_set < me && n_set < READERS ->
				if
				:: HAS(seen[me], i_set) -> n_set++; before = before + HAS(seen_open[me], i_set)
				:: else
				fi;
				i_set++
			:: else -> break
			od;
			if
#ifdef HANG_UP_AT_ONCE
			:: 1 ->
#else
#ifdef HANG_UP_WHEN_STALE
			:: before == READERS ->
#else
			:: before == READERS && HAS(fresh, me) ->
#endif
#endif
				wants = wants & ~BIT(me);
				open = open & ~BIT(me)
			:: else
			fi
		fi;
		judged = (HAS(fresh, me) && !(seen[me] & ~alive) -> judged | BIT(me) : judged);
		asked = asked & ~BIT(me);
		seen[me] = 0;
		seen_open[me] = 0;
		before = 0;
		i_set = 0;
		n_set = 0;
		expect_read();
	   }
	:: d_step { HAS(alive, me) && HAS(wants, me) && !HAS(open, me) ->	/* on_open() */
		open = open | BIT(me);
	   }
	:: d_step { HAS(alive, me) && deaths > 0 ->		/* SIGKILL, or a machine that is cut off */
		deaths--;
		alive = alive & ~BIT(me);
		open = open & ~BIT(me);
		wants = wants & ~BIT(me);
		asked = asked & ~BIT(me);
		judged = 0;
		seen[me] = 0;
		seen_open[me] = 0;
		expect_read();
	   }
	:: d_step { !HAS(alive, me) && joins > 0 && !HAS(told, me) ->	/* it starts, or starts again */
		joins--;
		alive = alive | BIT(me);
	   }
	:: d_step { !HAS(alive, me) && HAS(told, me) ->		/* ALIVE_MS have gone by */
		told = told & ~BIT(me);
		told_open = told_open & ~BIT(me);
		judged = 0;
	   }
	:: d_step { !HAS(alive, me) && deaths == 0 && joins == 0 && !HAS(told, me) && rounds == 0 -> skip } -> break
	:: d_step { rounds == 0 && deaths == 0 && HAS(alive, me) -> skip } -> break
	od
}

proctype time()
{
	do
	:: d_step { rounds > 0 && deaths == 0 && !(told & ~alive) && !(alive & ~(judged | asked)) ->
		count(alive & open);
		if
		:: n_set >= READERS ->
			rounds--;
			deaths = READERS - 1;
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
		alive = BIT(READERS) - 1;
		joins = JOINS;
		rounds = ROUNDS;
		run time();
		run listener(0);
		run listener(1);
		run listener(2);
#if INSTANCES == 4
		run listener(3);
#endif
	}
}
