/* A fake of postgres/connection.c: records statements, and the test answers. The linker substitutes it (--wrap) in
 * tests that call played_postgres_start(). */
#ifndef SUPPORT_PLAYED_POSTGRES_H
#define SUPPORT_PLAYED_POSTGRES_H

#include "postgres/connection.h"

struct played_postgres {
	struct postgres_settings settings; /* from the caller of postgres_open */
	enum postgres_state state;         /* BUSY until answered */
	struct postgres_identity identity;
	const char *first; /* the first of two statements sent together */
	const char *sql;   /* the last statement */
	int n;             /* its values, each followed by a NUL */
	char *values[POSTGRES_VALUES_MAX];
	size_t lens[POSTGRES_VALUES_MAX];
	int64_t lock_timeout_ms;
	int by_key;               /* how many statements search rows by key */
	bool is_lost;             /* statements cannot be sent */
	const char *const *cells; /* the cells of every row of the next answers; NULL for empty cells, */
	const char *ids;          /* or their first columns, one letter per row */
};

extern struct played_postgres played_postgres;

void played_postgres_start(void);
void played_postgres_set_state(enum postgres_state state);
/* Answers; the connection is then in this state, usually READY. */
void played_postgres_answer(struct postgres_answer answer, enum postgres_state state);
/* The texts of an array value, separated by blanks, with a dash for NULL. Valid until the next call. */
const char *played_postgres_texts(int value);

#endif
