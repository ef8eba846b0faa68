/* bulk_change.h: what an operator does to many dead letters or deliveries at once. */
#ifndef WSONCE_BULK_CHANGE_H
#define WSONCE_BULK_CHANGE_H

#include "commands/dispatch.h"
#include "commands/letters.h"

struct bulk_change {
	struct letter_filter filter; /* without words: those are the command's */
	const char *note;
	bool is_json;
	const char *sql;      /* $1 ids, $2 the note, $3 the instance; a row for each that was changed */
	const char *lite_sql; /* the same of a file; NULL: there is none */
	bool forgets; /* its rows have an event id behind that, whose dead mark is not to settle a copy any more */
	const char *done_as; /* how the count is called: "discarded" */
	bool is_delivered;   /* what was changed is to be delivered: says so if no listener does it */
};

/* Does it, a page of ids in a statement, and prints how many, also when it is interrupted or fails in the middle.
 * Returns the exit status. */
int bulk_change_run(const struct invocation *in, const struct bulk_change *change);

#endif
