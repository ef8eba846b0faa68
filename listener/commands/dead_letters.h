/* dead_letters.h: finds the dead letters, or dead deliveries to webhooks, that a command applies to, page by page. */
#ifndef WSONCE_DEAD_LETTERS_H
#define WSONCE_DEAD_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands/dispatch.h"
#include "commands/session.h"
#include "config/config.h"
#include "event/envelope.h"
#include "event/event.h"

struct redis_query;

/* Which dead letters or deliveries. 0 and NULL choose any. */
struct dead_letter_filter {
	bool is_deliveries;
	int64_t since_us;   /* last seen at or after; a delivery: settled */
	int64_t until_us;   /* last seen before */
	const char *type;   /* type of the event, if the message has one */
	const char *reason; /* a part of the reason, in any case */
	const char *target; /* target of deliveries */
	const char *state;  /* open, resolved or all; of deliveries also pending */
	int64_t limit;      /* only the oldest N */
	int64_t newest;     /* only those among the newest N; 0: among all */
};

/* The options of the family's commands; each command has some of them. */
struct dead_letters_options {
	struct dead_letter_filter filter;
	const char *action;  /* retry, discard or reopen, by the command's defaults; NULL: it changes nothing */
	const char *done_as; /* retried, discarded or reopened */
	int64_t groups;
	int64_t examples;
	const char *note;
	const char *raw_file;
	const char *id;
	bool is_all;
	bool is_pending;
	bool is_raw;
	bool is_json;
};

/* clang-format off */
#define DEAD_LETTERS_OPTION(type, member) OPTION_##type, offsetof(struct dead_letters_options, member)
#define DEAD_LETTERS_FILTER \
	{"deliveries", DEAD_LETTERS_OPTION(SWITCH, filter.is_deliveries), NULL, 0, 0, NULL, \
	 "dead deliveries to webhooks, not dead letters"}, \
	{"since", DEAD_LETTERS_OPTION(MOMENT, filter.since_us), "TIME", 0, 0, NULL, \
	 "last seen (a delivery: dead) since TIME: RFC 3339, or an age: 30m, 12h, 7d"}, \
	{"until", DEAD_LETTERS_OPTION(MOMENT, filter.until_us), "TIME", 0, 0, NULL, "last seen before TIME"}, \
	{"type", DEAD_LETTERS_OPTION(TEXT, filter.type), "TYPE", 0, 0, NULL, \
	 "only events of this type; dead letters are read by --type-pointer"}, \
	{"reason", DEAD_LETTERS_OPTION(TEXT, filter.reason), "TEXT", 0, 0, NULL, \
	 "only those whose reason contains TEXT"}, \
	{"target", DEAD_LETTERS_OPTION(TEXT, filter.target), "NAME", 0, 0, NULL, \
	 "with --deliveries: only those to this webhook"}
#define DEAD_LETTERS_JSON {"json", DEAD_LETTERS_OPTION(SWITCH, is_json), NULL, 0, 0, NULL, "print one JSON object"}
/* Options of commands that change letters. all: the help text of --all. */
#define DEAD_LETTERS_CHANGE(all) \
	DEAD_LETTERS_FILTER, \
	{"limit", DEAD_LETTERS_OPTION(NUMBER, filter.limit), "N", 1, INT64_MAX, NULL, "at most N, the oldest first"}, \
	{"all", DEAD_LETTERS_OPTION(SWITCH, is_all), NULL, 0, 0, NULL, all}, \
	{"note", DEAD_LETTERS_OPTION(TEXT, note), "TEXT", 0, 0, NULL, "keep TEXT with the record of the action"}, \
	DEAD_LETTERS_JSON
/* clang-format on */

/* Checks the options of a command of the family together. Returns NULL, or what is wrong, one sentence. */
const char *dead_letters_check(const struct invocation *in);

/* Ids, ascending. */
struct dead_letter_ids {
	int64_t *at;
	size_t count;
	size_t size;
};

/* Returns up to most ids, starting with number first, as the text of a Postgres array, on the heap. */
char *dead_letter_ids_array(const struct dead_letter_ids *ids, size_t first, size_t most);

/* A walk by id over those that match when it begins. Its memory does not depend on their number. */
struct dead_letter_walk {
	struct session *session;
	const struct config *config;
	struct dead_letter_filter filter;
	bool is_one_page;
	struct envelope *reader;    /* reads types from messages; NULL: not needed */
	char *words;                /* the given ids, as an array; NULL: any */
	int missed;                 /* given ids that were not found */
	struct dead_letter_ids ids; /* the current page */
	size_t looked_at;           /* the filter's newest, if there are more; else 0 */
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

/* Reads the type in messages, which need not be events. */
struct envelope *dead_letters_type_reader(const struct config *config);
/* Returns the type in a message that no profile has read; empty if there is none. Valid until the next call. */
struct slice dead_letters_type(struct envelope *reader, const char *message, size_t len);

/* Deletes the dead marks of the events whose ids are in a column and their consumers in the next one: copies would be
 * rejected without a letter. If Redis does not answer, prints so, closes *marks, and sets it to NULL, with which the
 * next call does nothing. */
void dead_letters_forget(struct redis_query **marks, const struct pg_result *rows, int column);

/* Applies the action to deliveries, or discard or reopen to letters: each page of ids is a transaction. Prints the
 * count, even after an interrupt or a failure. Returns the exit status. */
int dead_letters_change(const struct invocation *in);

#endif
