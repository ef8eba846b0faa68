/* dead_letters.h: finds the dead letters, or dead deliveries to webhooks, that a command applies to, page by page. */
#ifndef WSONCE_DEAD_LETTERS_H
#define WSONCE_DEAD_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands/dispatch.h"
#include "config/config.h"
#include "event/envelope.h"

struct redis_query;

/* Ids, ascending. */
struct dead_letter_ids {
	int64_t *at;
	size_t count;
	size_t size;
};

/* Returns up to most ids, starting with number first, as the text of a Postgres array, on the heap. */
char *dead_letter_ids_array(const struct dead_letter_ids *ids, size_t first, size_t most);

/* A walk by id over the letters that match when it begins. Its memory does not depend on their number. */
struct dead_letter_walk {
	struct session *session;
	const struct config *config;
	const struct given *o;
	const char *state; /* open, resolved or all; of deliveries also pending */
	bool is_one_page;
	struct envelope *reader;    /* reads types from messages; NULL: not needed */
	char *words;                /* the given ids, as an array; NULL: any */
	int missed;                 /* given ids that were not found */
	struct dead_letter_ids ids; /* the current page */
	size_t looked_at;           /* if not 0, only this many of the newest are examined, and there are more */
	int64_t after;              /* the last id that was examined */
	int64_t end;                /* the highest id when the walk began */
	int64_t found;
	bool is_over; /* this is the last page */
};

/* Finds the first page by the options and words of a command, in one page if it changes nothing or has ids. Prints
 * which ids it does not find. Letters are those of the consumer's fleet. Returns 0; or -1 after printing why. Call
 * dead_letter_walk_end() in both cases. */
int dead_letter_walk_begin(struct dead_letter_walk *w, const struct invocation *in);
/* Finds the next page, which may be empty before the walk is over. Returns 0 or -1. */
int dead_letter_walk_next(struct dead_letter_walk *w);
void dead_letter_walk_end(struct dead_letter_walk *w);

/* Deletes the dead marks of the events whose ids are in a column and their consumers in the next one: copies would be
 * rejected without a letter. If Redis does not answer, says so, closes *marks, and sets it to NULL, so that the next
 * call does nothing. */
void dead_letters_forget(struct redis_query **marks, const struct pg_result *rows, int column);

#endif
