/* record.h: one row and what people have done to it, as `show` prints them. */
#ifndef WSONCE_RECORD_H
#define WSONCE_RECORD_H

#include <jansson.h>

#include "commands/output.h"
#include "commands/session.h"

struct record {
	json_t *fields;  /* an object; more may be added */
	json_t *actions; /* an array of what sql/002 and sql/004 record */
};

/* Reads the row's first two columns: JSON of the fields, and of the actions or NULL. Returns 0; or -1
 * after saying that memory is out. record_close may be called in both cases. */
int record_open(struct record *r, const struct pg_result *row);
void record_close(struct record *r);

/* Prints the fields and then the actions: as members of an object, */
void record_json(const struct record *r, struct output *out);
/* or one a line, without those that are empty or yes and no. */
void record_text(const struct record *r);

#endif
