/* effects.h: what the transaction that stores an event also does: call a handler, mark the event for a consumer, add
 * rows to the outbox. */
#ifndef WSONCE_EFFECTS_H
#define WSONCE_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "postgres/array.h"
#include "config/config.h"
#include "postgres/connection.h"

#define EFFECTS_VALUES 3 /* parameters after those of sql/queries/insert.sql */

struct effects {
	const struct config *config;
	unsigned int version; /* of the webhooks that names and types were made from */
	struct array names;   /* each webhook once per type */
	struct array types;   /* NULL for every type */
	char *handler;        /* quoted name, "" for none; NULL until effects_learn, like the two below */
	char *sql;
	char *copied_sql; /* runs after COPY */
	char fault[400];
};

/* config must outlive it. */
void effects_init(struct effects *e, const struct config *config);
void effects_free(struct effects *e);

/* Are there any effects? If not, don't call the functions below. */
bool effects_exist(const struct effects *e);

/* Fills in the EFFECTS_CHECK parameters of sql/queries/check_effects.sql. Run that query on each new connection. */
#define EFFECTS_CHECK 1
void effects_check_values(const struct effects *e, struct postgres_value *values);

/* Takes the answer of that query. Returns NULL, and the statements below are ready; or what is wrong with the handler,
 * one sentence that lives as long as e. */
const char *effects_learn(struct effects *e, const char *answer, size_t len);

/* Replaces sql/queries/insert.sql: takes the same parameters and EFFECTS_VALUES more. Returns the ids of the events
 * that are new to this consumer, each with the number that effects_have_posted reads. NULL before effects_learn. */
const char *effects_sql(const struct effects *e);
void effects_values(struct effects *e, struct postgres_value *values);

/* For postgres_begin_with(): keeps all other statements of this file out until the transaction ends. */
const char *effects_alone_sql(void);

/* For postgres_copy(), replaces sql/queries/copy.sql and epoch.sql: stores this many rows with their effects. If a row
 * is in the table already or not new to this consumer, nothing is stored. On the heap. */
char *effects_copy_sql(struct effects *e, size_t rows);

/* Did the statement (effects_sql or effects_copy_sql) add rows to the outbox? */
bool effects_have_posted(const struct postgres_answer *answer);

#endif
