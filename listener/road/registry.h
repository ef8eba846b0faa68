/* registry.h: whose keys are in this Redis. Two databases that shared a prefix would take events from each other. */
#ifndef WSONCE_REGISTRY_H
#define WSONCE_REGISTRY_H

#include <stdbool.h>

#include "redis/resp.h"
#include "redis/connection.h"

struct registry {
	struct redis *redis; /* NULL: there is none */
	const char *prefix;  /* of our keys, the owner's */
	char database[40];   /* the id of ours; "" until it is known */
	bool was_ours;       /* ever: the prefix */
	bool is_foreign;     /* by the last answer: Redis must not be used */
	bool has_error_logged;
	struct resp command;
	/* The prefix is another database's from the start. sentence says so, and lives for the call. If it returns,
	 * Redis is not used until the prefix is free. */
	void (*on_foreign)(void *arg, const char *sentence);
	void *arg;
};

/* Learns which database it is, "" if it has no id. The text is copied. */
void registry_set_database(struct registry *r, const char *id);

/* Registers the prefix, if the database is known and Redis is there: to be called when Redis becomes ready, and again
 * each few seconds, since it may be flushed. A prefix that becomes another's later is a warning, and is_foreign says so
 * for as long. */
void registry_enter(struct registry *r);

void registry_free(struct registry *r);

#endif
