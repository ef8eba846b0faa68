/* effects.h: what follows from an event in the transaction that stores it: a handler, a consumer's mark,
 * rows of the outbox. */
#ifndef WSONCE_EFFECTS_H
#define WSONCE_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "postgres/array.h"
#include "config/config.h"
#include "postgres/connection.h"

#define EFFECTS_VALUES 3 /* parameters behind those of sql/queries/insert.sql */

struct effects {
	const struct config *config;
	unsigned int version; /* of the webhooks, of which these are: */
	struct array names;   /* each once for each of its types; */
	struct array types;   /* NULL: events of every type */
	char *handler;        /* as it is written in a statement; NULL until it is known, as what follows */
	char *sql;
	char *copied_sql; /* behind a COPY */
	char fault[400];
};

/* config must outlive it. */
void effects_init(struct effects *e, const struct config *config);
void effects_free(struct effects *e);

/* Does anything follow at all? If not, the rest of this file is not for use. */
bool effects_exist(const struct effects *e);

/* The parameters of sql/queries/check_effects.sql, EFFECTS_CHECK of them, which is to run on each new connection. */
#define EFFECTS_CHECK 1
void effects_check_values(const struct effects *e, struct postgres_value *values);

/* Takes its answer. Returns NULL, and the statements below may be used; or what is wrong with the handler,
 * one sentence that lives as long as e. */
const char *effects_learn(struct effects *e, const char *answer, size_t len);

/* Instead of sql/queries/insert.sql: the same parameters and EFFECTS_VALUES more, and the ids of those events that
 * are new to this consumer, each with what effects_have_posted reads. NULL before effects_learn. */
const char *effects_sql(const struct effects *e);
void effects_values(struct effects *e, struct postgres_value *values);

/* For postgres_begin_with(): no other statement of this kind runs at the same time in this database. */
const char *effects_alone_sql(void);

/* For postgres_copy(), instead of sql/queries/copy.sql and epoch.sql: stores so many rows, all of them new to this
 * consumer and none of them in the table, with what follows from them, or else nothing. On the heap. */
char *effects_copy_sql(struct effects *e, size_t rows);

/* From the answer of either: are there new rows in the outbox? */
bool effects_have_posted(const struct postgres_answer *answer);

#endif
