/* letters.h: dead letters in Postgres: which are meant, and what was done to them. */
#ifndef WSONCE_LETTERS_H
#define WSONCE_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "road/envelope.h"
#include "road/event.h"
#include "commands/session.h"

/* Is a letter, the row at hand, still to be dealt with? See sql/002. */
#define LETTERS_OPEN "(resolved_at IS NULL OR last_seen > resolved_at)"

/* Is raw the whole message, not the head of one over --max-message? See sql/004 for the digest. What a profile has
 * read (sql/009) has another digest, and is whole. */
#define LETTERS_WHOLE \
	"(event_type IS NOT NULL OR digest = CASE consumer WHEN '' THEN pg_catalog.sha256(raw)" \
	" ELSE pg_catalog.sha256(pg_catalog.sha256(raw) || pg_catalog.convert_to(consumer, 'UTF8')) END)"

/* Of a file: the same; the ids of an array such as letters_array makes; this moment. */
#define LETTERS_LITE_WHOLE    "(event_type IS NOT NULL OR digest = wsonce_sha256(raw))"
#define LETTERS_LITE_IDS(ids) "(SELECT value FROM json_each('[' || trim(" ids ", '{}') || ']'))"
#define LETTERS_LITE_NOW      "strftime('%Y-%m-%dT%H:%M:%f000Z')"

/* A timestamp as commands print it: "to_char(column" LETTERS_UTC ")". */
#define LETTERS_UTC " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'"

/* Reasons differ in numbers and quoted words, which would make a group of each; the SQLSTATE at the end of
 * one is kept: "regexp_replace(reason, " LETTERS_FOLD ")". */
#define LETTERS_FOLD "'\"[^\"]*\"|[0-9]+(?![0-9A-Z]*\\)$)', '…', 'g'"

/* Which letters, or which dead deliveries. What is 0 or NULL is not asked for. */
struct letter_filter {
	bool is_deliveries;
	int64_t since_us;   /* last seen at or after; a delivery: settled */
	int64_t until_us;   /* last seen before */
	const char *type;   /* the event's type, where the message has one */
	const char *reason; /* a part of the reason, in any case */
	const char *target; /* of deliveries */
	const char *state;  /* open, resolved or all; NULL: open */
	int64_t limit;      /* at most so many, the oldest first; */
	int64_t newest;     /* or so many are looked at, the newest: of them, those of the type */
	char **words;       /* ids, as letters_check let them pass */
	int word_count;
};

/* The rows of a command's table of options for the member `filter` of its struct. */
/* clang-format off */
#define LETTERS_OPTIONS(s) \
	{"deliveries", OPTION_SWITCH, offsetof(s, filter.is_deliveries), NULL, 0, 0, NULL, \
	 "dead deliveries to webhooks in place of dead letters"}, \
	{"since", OPTION_MOMENT, offsetof(s, filter.since_us), "TIME", 0, 0, NULL, \
	 "last seen at or after (a delivery: dead since): RFC 3339, or so long ago: 30m, 12h, 7d"}, \
	{"until", OPTION_MOMENT, offsetof(s, filter.until_us), "TIME", 0, 0, NULL, "last seen before"}, \
	{"type", OPTION_TEXT, offsetof(s, filter.type), "TYPE", 0, 0, NULL, \
	 "of events of this type; in letters, by --type-pointer"}, \
	{"reason", OPTION_TEXT, offsetof(s, filter.reason), "TEXT", 0, 0, NULL, "whose reason has this in it"}, \
	{"target", OPTION_TEXT, offsetof(s, filter.target), "NAME", 0, 0, NULL, \
	 "with --deliveries: to this webhook"}
/* clang-format on */

/* Ids of letters or deliveries, ascending. */
struct letter_ids {
	int64_t *at;
	size_t count;
	size_t size;
	size_t looked_at; /* the newest; 0: all */
};

/* How they are found: $1 and $2 the times, $3 a part of the reason, $4 the state, $5 ids, $6 the consumer or target, $7
 * the type of deliveries, $8 how many, $9 and $10 the ids that they are above and not above. */
struct letter_choice {
	const char *oldest_sql; /* $8 0: all */
	const char *newest_sql;
	const char *end_sql;         /* the highest id that there is */
	const char *lite_oldest_sql; /* of a file */
	const char *lite_newest_sql;
	const char *lite_end_sql;
};

#define LETTERS_BETWEEN " AND id > $9::bigint AND id <= $10::bigint"

/* The two of them from a SELECT of ids with these conditions. The planner takes LIMIT for 1, as in lease.sql, and so
 * looks no further than it has to. */
#define LETTERS_OLDEST(select) select " ORDER BY id LIMIT nullif($8::bigint, 0)"
#define LETTERS_NEWEST(select) \
	"WITH wanted AS MATERIALIZED (SELECT 1 WHERE pg_catalog.set_config('wsonce.wanted', $8::text, true) <> '')" \
	" SELECT id FROM wanted, LATERAL (" select " ORDER BY id DESC LIMIT" \
	" coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint) AS newest ORDER BY id"

/* What the options of a filter cannot tell one by one. Returns NULL, or what is wrong, one sentence. */
const char *letters_check(const struct letter_filter *filter, char **words, int word_count);

/* Was anything said about which? Else a command that changes letters does nothing. */
bool letters_is_choice(const struct letter_filter *filter, bool is_all, int word_count);

/* Finds them; of letters, those of config's consumer. Returns 0, and ids is the caller's; or -1 after saying why. */
int letters_select(struct session *s, const struct config *config, const struct letter_filter *filter,
		   struct letter_ids *ids);
void letters_free(struct letter_ids *ids);

/* A walk over those that fit when it begins, by id. Memory does not depend on how many they are. */
struct letter_walk {
	struct session *session;
	const struct config *config;
	struct letter_filter filter;
	struct envelope *reader; /* of types; NULL: not asked for */
	char *words;             /* the ids that were given; NULL: any */
	struct letter_ids ids;   /* the page at hand, ascending */
	int64_t after;           /* ids up to here were looked at, */
	int64_t end;             /* and none above this is */
	int64_t found;
	bool is_over; /* the page at hand is the last one */
};

/* Gets the first page: all of them if ids were given. Returns 0 or -1, and the walk is to be ended in both cases. */
int letters_walk_begin(struct letter_walk *w, struct session *s, const struct config *config,
		       const struct letter_filter *filter);
/* Gets the next page, which may have no ids though the walk is not over. Returns 0 or -1. */
int letters_walk_on(struct letter_walk *w);
void letters_walk_end(struct letter_walk *w);

/* n ids from the first on, as a Postgres array in text, on the heap. */
char *letters_array(const struct letter_ids *ids, size_t first, size_t n);

/* Says which of the words are ids of nothing that was found; returns how many. */
int letters_miss(const struct letter_filter *filter, const struct letter_ids *found);

/* Reads the type of messages that may be no events. */
struct envelope *letters_type_reader(const struct config *config);
/* The type in a letter's message, which is not one that a profile has read; an empty slice if it has none. Lives until
 * the next call. */
struct slice letters_type(struct envelope *reader, const char *message, size_t len);

#endif
