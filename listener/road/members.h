/* members.h: without Redis, which listeners store the same feeds in the same database, as Postgres tells. No I/O; time
 * is an argument. */
#ifndef WSONCE_MEMBERS_H
#define WSONCE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define MEMBERS_MAX  256 /* more are not looked at: they are preferred for nothing */
#define MEMBERS_NAME 48  /* "wsonce <fleet> <seed>" and its end */

struct members {
	const struct config *config;
	uint64_t seed; /* of this listener's own name */
	char name[MEMBERS_NAME];
	uint64_t others[MEMBERS_MAX]; /* seeds, as the last answer told */
	size_t count;
	uint64_t found[MEMBERS_MAX]; /* and those that the one at hand has told so far */
	size_t found_count;
	int64_t heard_ms;     /* the last message of a feed without Redis; 0: none, or all has been withdrawn */
	int64_t asked_ms;     /* 0: never */
	unsigned int answers; /* that were told, one after the other, as far as it matters; 0: nothing is known */
	bool is_asked;        /* there is no answer yet */
	bool is_named;        /* the others can know this listener */
};

/* name: this listener's, and no other's. config must outlive m. */
void members_init(struct members *m, const struct config *config, const char *name);

/* The database has this id, "" if none: listeners of another one are not asked about. */
void members_set_database(struct members *m, const char *id);

/* A message of a feed has come. */
void members_hear(struct members *m, int64_t now_ms);
/* Redis is there. */
void members_forget(struct members *m);

/* Milliseconds until Postgres is to be asked; 0: now; -1: there is nothing to ask for. */
int64_t members_wait(const struct members *m, int64_t now_ms);
/* It is asked now. Returns the name to ask by, which lives until the next call. */
const char *members_asked(struct members *m, int64_t now_ms);
/* The name of another one. */
void members_found(struct members *m, const char *name, size_t len);
/* The answer is here; is_told: and says who is there. */
void members_answered(struct members *m, bool is_told);

/* Has it been told who is there; and by now for so long that all who hear what this one hears have said so? */
bool members_are_told(const struct members *m);
bool members_are_all(const struct members *m);
/* How many others there are, and how many of them come before this listener for the event with this id. No promise:
 * they may be dead by now. */
size_t members_size(const struct members *m);
size_t members_rank(const struct members *m, const char *id, size_t len);

#endif
