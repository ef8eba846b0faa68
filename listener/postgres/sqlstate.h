/* sqlstate.h: what a SQLSTATE and its context mean for a batch. No I/O. */
#ifndef WSONCE_SQLSTATE_H
#define WSONCE_SQLSTATE_H

#include <stdbool.h>

#include "postgres/connection.h"

/* Is the class of sqlstate, its first two characters, among classes, which are written without blanks? */
bool sqlstate_is_class(const char *sqlstate, const char *classes);

/* What has to be done about an error of the server. sqlstate NULL: the error is libpq's own, so the outcome is not
 * known. context is the server's CONTEXT, or NULL. */
enum postgres_result sqlstate_judge(const char *sqlstate, const char *context);

/* A violated constraint, as the server names it. Each may be NULL. */
struct sqlstate_violation {
	const char *sqlstate;
	const char *constraint;
	const char *detail;
};

/* Is it a constraint of the table itself, which says nothing of an event? So it is with a number that the sequence of
 * id gives a second time, and with a partition that is missing, which no constraint names. Where this is true, it is
 * POSTGRES_TROUBLE and POSTGRES_BLAME_NOBODY, whatever the functions around this one say. */
bool sqlstate_is_of_table(const struct sqlstate_violation *violation, const char *context);

/* As in connection.h. */
enum postgres_blame sqlstate_blame(const char *sqlstate, const char *context);

/* Was the statement ended because it took or waited too long? */
bool sqlstate_is_late(const char *sqlstate);

/* Was it ended because it waited too long for a lock? */
bool sqlstate_is_locked(const char *sqlstate);

/* Did it happen while the statement waited for a row of another transaction? */
bool sqlstate_is_blocked(const char *context);

/* Did it happen at a single row, of a server that works: while it waited as above, or in a function? */
bool sqlstate_is_local(const char *context);

#endif
