/* locks.pml: the row locks of INSERT … ON CONFLICT, for INSTANCES listeners whose batches hold the
 * same two events, received in any order. A statement locks the ids one by one in the order of its
 * rows, waits for an id that an open transaction has inserted, and lets go of all at its end.
 *
 * Property: no deadlock (an invalid end state). batch_order() sees to it: without it (UNSORTED_BATCHES)
 * two statements wait for each other. Postgres would then cancel one after deadlock_timeout, and
 * store_postgres.c would send it again: nothing is lost, but a second passes each time. */

#ifndef INSTANCES
#define INSTANCES 3
#endif
#define NOBODY 255

byte lock[2] = NOBODY;		/* who has inserted this id and not yet committed */
bit row[2];
byte stored;			/* statements committed */

inline lock_row(id)
{
	atomic { lock[id] == NOBODY -> lock[id] = _pid; }
}

proctype listener()
{
	bit first;

	/* pipeline_receive(), fill_batch(): in the order of arrival */
	if
	:: first = 0;
	:: first = 1;
	fi;
#ifndef UNSORTED_BATCHES
	first = 0;			/* batch_order() */
#endif
	/* store_insert() */
	lock_row(first);
	lock_row(1 - first);
	d_step {			/* COMMIT: on_stored() for both */
		row[0] = 1;
		row[1] = 1;
		lock[0] = NOBODY;
		lock[1] = NOBODY;
		stored++;
		assert(stored <= INSTANCES);
	}
}

init
{
	atomic {
		run listener();
		run listener();
#if INSTANCES == 3
		run listener();
#endif
	}
	stored == INSTANCES && row[0] && row[1];
}
