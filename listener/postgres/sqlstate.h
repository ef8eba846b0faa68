/* sqlstate.h: what a SQLSTATE and its context mean for a batch. No I/O. */
#ifndef WSONCE_SQLSTATE_H
#define WSONCE_SQLSTATE_H

#include <stdbool.h>

#include "postgres/connection.h"

/* True if the class of sqlstate, its first two characters, is in classes, a string of classes without blanks. */
bool sqlstate_is_class(const char *sqlstate, const char *classes);

/* Returns how to handle an error. If sqlstate is NULL, the error is libpq's own and the outcome is unknown. context is
 * the server's CONTEXT or NULL. */
enum postgres_result sqlstate_judge(const char *sqlstate, const char *context);

/* A violated constraint as the server reports it. Any member may be NULL. */
struct sqlstate_violation {
	const char *sqlstate;
	const char *constraint;
	const char *detail;
	const char *column;
	const char *unfilled; /* columns that no event fills, each on a line: see sql/queries/inspect.sql */
};

/* True if the table, not the event, caused the violation: no event fills the column that is NULL, or any column
 * of the key, as when the sequence gave an id twice, or a partition is missing, which has no constraint name. Then the
 * error is POSTGRES_TROUBLE and POSTGRES_BLAME_NOBODY, whatever the other functions return. */
bool sqlstate_is_of_table(const struct sqlstate_violation *violation, const char *context);

/* True if the error names the index for which the row is too large. Then it is POSTGRES_BAD_ROW. */
bool sqlstate_is_of_row(const struct sqlstate_violation *violation);

/* Errors for which only an inspection of the table can tell if the event is at fault: a NULL in a column that must not
 * be, a violated CHECK constraint, a number out of range, a foreign key. */
enum sqlstate_doubt { DOUBT_NULL, DOUBT_CHECK, DOUBT_RANGE, DOUBT_REFERENCE, DOUBTS };
/* Returns which of them an error is, or DOUBTS if it is none or was raised in a function or by a value as sent. */
enum sqlstate_doubt sqlstate_doubt(const char *sqlstate, const char *context);

/* Returns what caused an error; see connection.h. */
enum postgres_blame sqlstate_blame(const char *sqlstate, const char *context);

/* True if the statement was ended because it ran or waited too long. */
bool sqlstate_is_late(const char *sqlstate);

/* True if it waited too long for a lock. */
bool sqlstate_is_locked(const char *sqlstate);

/* True if the statement was waiting for a row of another transaction. */
bool sqlstate_is_blocked(const char *context);

/* True if the error concerns a single row on a working server: the statement waited for a row, or was in a function. */
bool sqlstate_is_local(const char *context);

#endif
