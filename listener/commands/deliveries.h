/* deliveries.h: dead deliveries in Postgres, the rows of outbox that were given up. */
#ifndef WSONCE_DELIVERIES_H
#define WSONCE_DELIVERIES_H

#include <stdbool.h>

#include "commands/letter_groups.h"
#include "commands/session.h"

extern const struct letter_choice deliveries_choice;

extern const struct letter_groups deliveries_groups;

/* As bulk_change.h wants them. Both look at the state under the row's lock, so of two operators one does it. */
extern const char deliveries_retry_sql[];
extern const char deliveries_discard_sql[];
extern const char deliveries_discard_pending_sql[];
extern const char deliveries_reopen_sql[];

/* The id of the last action that is recorded; -1 if it cannot be read. */
int64_t deliveries_last_action(struct session *s);

/* Tells of targets that none of the listeners that run delivers to, so that what this session's role has made pending
 * since that action waits. */
void deliveries_warn(struct session *s, int64_t last_action);

/* Prints one, dead or not; with is_raw nothing but its payload. Returns the exit status. */
int deliveries_show(struct session *s, const char *id, bool is_raw, bool is_json);

#endif
