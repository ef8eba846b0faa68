/* json_out.h: what commands print: one JSON object whose lists are written as they come, or text that
 * does a terminal no harm. */
#ifndef WSONCE_JSON_OUT_H
#define WSONCE_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* One object on standard output, so that a list of millions needs no memory. */
struct json_out {
	bool has_member;
	bool has_item;
};

void json_out_open(struct json_out *o);
/* Takes over value; NULL is written as null. */
void json_out_member(struct json_out *o, const char *name, json_t *value);
/* The same with a value that is JSON already, as it is. */
void json_out_member_text(struct json_out *o, const char *name, const char *json);
void json_out_list(struct json_out *o, const char *name);
void json_out_item(struct json_out *o, json_t *value);
void json_out_list_end(struct json_out *o);
void json_out_close(struct json_out *o);

/* A text that came from outside, as a JSON string; what is not UTF-8 in it is replaced. NULL is null. */
json_t *json_out_string(const char *text);

/* A member of an object: "" if it is no text, 0 if it is no integer. */
const char *member_text(const json_t *object, const char *name);
json_int_t member_number(const json_t *object, const char *name);

/* Prints bytes on standard output; control characters but tab and newline, and what is not UTF-8, as
 * \xNN. With is_line, tab and newline too. */
void json_out_text(const char *text, size_t len, bool is_line);

#endif
