/* effects.h: the effects of storing an event, in the same transaction: a call of a handler, a mark for a consumer, rows
 * of the outbox. */
#ifndef WSONCE_EFFECTS_H
#define WSONCE_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/condition.h"
#include "config/config.h"
#include "postgres/connection.h"
#include "store/batch.h"

/* Starts as all zeros except config, which must outlive it. */
struct effects {
	const struct config *config;
	char *handler;           /* quoted name, "" for none; NULL until effects_learn, like the two below */
	char *sql;               /* replaces sql/queries/insert.sql */
	char *copied_sql;        /* runs after COPY */
	unsigned int version;    /* version of the webhooks in these statements */
	struct conditions *when; /* of each webhook */
	size_t when_count;
	struct json_pointers *pointers; /* of all of them, in a payload */
	bool has_conditions;
	struct bytes chosen; /* the last result of effects_choose */
	char fault[400];
};

void effects_free(struct effects *e);

/* True if there are effects. If not, do not call the functions below. */
bool effects_exist(const struct effects *e);

/* Reads the answer of sql/queries/check_effects.sql, which must run on each new connection. Returns NULL when the
 * statements below are ready; or what is wrong with the handler, one sentence that lives as long as e. */
const char *effects_learn(struct effects *e, const char *answer, size_t len);
/* True if the statements below are ready. */
bool effects_are_known(const struct effects *e);

/* Replaces sql/queries/insert.sql, with the same parameters and the text of effects_choose. Returns the ids of the
 * events that are new to this consumer, each with the number that effects_have_posted reads. The text is valid until
 * the next call. */
const char *effects_sql(struct effects *e);

/* Call after effects_sql. Returns which events of [from, to) fit the conditions of which webhook; or NULL if no webhook
 * has conditions: then the statement has no parameter for it. The text is valid until the next call. */
const char *effects_choose(struct effects *e, const struct batch *b, size_t from, size_t to);

/* For postgres_begin_with(): keeps all other statements of this file out until the transaction ends. */
const char *effects_alone_sql(void);

/* For postgres_copy(), replaces sql/queries/copy.sql and epoch.sql: stores this many rows of [from, to) with their
 * effects. If a row is in the table already or not new to this consumer, nothing is stored. On the heap. */
char *effects_copy_sql(struct effects *e, const struct batch *b, size_t from, size_t to, size_t rows);

/* True if the statement (effects_sql or effects_copy_sql) added rows to the outbox. */
bool effects_have_posted(const struct postgres_answer *answer);

#endif
