/* payload_filter.h: the conditions of a webhook's `when`, as SQL. */
#ifndef WSONCE_PAYLOAD_FILTER_H
#define WSONCE_PAYLOAD_FILTER_H

#include <jansson.h>

#include "base/bytes.h"

/* Appends an SQL expression that is true if column, a jsonb, meets all conditions in `when`: an object of JSON pointers
 * and conditions that profile_check_conditions has accepted. The expression may be NULL instead of false. */
void payload_filter_write(struct bytes *sql, const char *column, const json_t *when);

/* Appends an SQL expression for a text. A simple query has no parameters, so the text is written in hex. */
void payload_filter_text(struct bytes *sql, const char *text);

#endif
