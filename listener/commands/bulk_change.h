/* bulk_change.h: what an operator does to many dead letters or deliveries at once. */
#ifndef WSONCE_BULK_CHANGE_H
#define WSONCE_BULK_CHANGE_H

#include "commands/dispatch.h"
#include "commands/letters.h"

struct bulk_change {
	struct letter_filter filter; /* without words: those are the command's */
	const char *note;
	bool is_json;
	const char *sql; /* $1 ids, $2 the note, $3 the instance; a row for each that was changed */
	bool forgets;    /* its rows have an event id behind that, whose dead mark is not to settle a copy any more */
	const char *done_as; /* how the count is called: "discarded" */
	/* Says what the operator should know of these besides; NULL: there is nothing. */
	void (*warn)(struct session *s, const struct letter_ids *ids);
};

/* Does it, a page of ids in a statement, and prints how many. Returns the exit status. */
int bulk_change_run(const struct invocation *in, const struct bulk_change *change);

#endif
