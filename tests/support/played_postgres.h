/* The connection to Postgres, played in one process: what it is asked is kept here, and the test answers. The linker
 * puts it in the place of postgres/connection.c (--wrap), for tests that call played_postgres_start(). */
#ifndef SUPPORT_PLAYED_POSTGRES_H
#define SUPPORT_PLAYED_POSTGRES_H

#include "postgres/connection.h"

struct played_postgres {
	struct postgres_settings settings; /* of who opened it */
	enum postgres_state state;         /* BUSY while there is no answer */
	struct postgres_identity identity;
	const char *first; /* of the last one that was sent behind another */
	const char *sql;   /* of the last statement, */
	int n;             /* and its values, each with a NUL behind it */
	char *values[POSTGRES_VALUES_MAX];
	size_t lens[POSTGRES_VALUES_MAX];
	int64_t patience_ms;
	int by_key;               /* how many statements were to find rows by their keys */
	bool is_lost;             /* statements cannot be sent */
	const char *const *cells; /* of every row of the next answers; NULL: all are empty, */
	const char *ids;          /* or their first columns, a letter for each row */
};

extern struct played_postgres played_postgres;

void played_postgres_start(void);
void played_postgres_set_state(enum postgres_state state);
/* The connection is then as state says, READY in general. */
void played_postgres_answer(struct postgres_answer answer, enum postgres_state state);
/* The texts of an array among the values, with blanks between them; a NULL is a dash. Valid until the next call. */
const char *played_postgres_texts(int value);

#endif
