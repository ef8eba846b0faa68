/* letter_record.h: one row and what people have done to it, as `show` prints them. */
#ifndef WSONCE_LETTER_RECORD_H
#define WSONCE_LETTER_RECORD_H

#include <jansson.h>

#include "commands/json_out.h"
#include "commands/session.h"

struct letter_record {
	json_t *fields;  /* an object; more may be added */
	json_t *actions; /* an array of what sql/002 and sql/004 record */
};

/* Reads the row's first two columns: JSON of the fields, and of the actions or NULL. Returns 0; or -1
 * after saying that they cannot be read. letter_record_close may be called in both cases. */
int letter_record_open(struct letter_record *r, const struct pg_result *row);
void letter_record_close(struct letter_record *r);

/* Prints the fields and then the actions: as members of an object, */
void letter_record_json(const struct letter_record *r, struct json_out *out);
/* or one a line, without those that are empty or yes and no. */
void letter_record_text(const struct letter_record *r);

#endif
