/* letter_groups.h: rows grouped by reason, as `list` prints them. */
#ifndef WSONCE_LETTER_GROUPS_H
#define WSONCE_LETTER_GROUPS_H

#include "commands/letters.h"
#include "commands/json_out.h"
#include "commands/session.h"

struct letter_groups {
	const char *title; /* what they are: "dead letters" */
	const char *name;  /* of their number in JSON: "letters" */
	const char *times; /* what happened to one several times: "seen" */
	/* $1 ids, $2 groups at most, $3 examples of each at most. A row for each: its heading; how many they are; how
	 * many times; the first and the last time; the group in JSON, with its examples; and how many groups there are.
	 */
	const char *sql;
	const char *lite_sql; /* of a file; NULL: there is none */
};

/* Asks for the groups of these ids, at most limit of them with so many examples each, and prints them: as members of an
 * object, or as text if out is NULL. Returns 0; or -1 after saying why. */
int letter_groups_print(const struct letter_groups *g, struct session *s, const struct letter_ids *ids, int64_t limit,
			int64_t examples, struct json_out *out);

#endif
