/* json_out.h: output of commands: one JSON object, whose lists are written item by item; and text that is safe for a
 * terminal. */
#ifndef WSONCE_JSON_OUT_H
#define WSONCE_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "base/slice.h"

/* One object on standard output. A list of millions needs no memory. */
struct json_out {
	bool has_member;
	bool has_item;
};

void json_out_open(struct json_out *o);
/* Takes ownership of value; NULL is written as null. */
void json_out_member(struct json_out *o, const char *name, json_t *value);
/* Writes all members of an object, and takes ownership of it. */
void json_out_members(struct json_out *o, json_t *object);
/* As json_out_member, with a value that is JSON already. */
void json_out_member_text(struct json_out *o, const char *name, const char *json);
void json_out_list(struct json_out *o, const char *name);
void json_out_item(struct json_out *o, json_t *value);
/* Begins an object as the next item. Ends with json_out_close(item). */
void json_out_item_open(struct json_out *o, struct json_out *item);
void json_out_list_end(struct json_out *o);
void json_out_close(struct json_out *o);
/* Prints the members of an object that are integers or texts, each on a line with its name, without empty texts. */
void json_out_named(const json_t *object);
/* Prints a value with these flags of json_dumps, and takes ownership of it. */
void json_out_value(json_t *value, size_t flags);
/* Prints an object that needs no lists of items, and takes ownership of it. */
void json_out_object(json_t *object);

/* Prints JSON, or lines of JSON. Control characters that a terminal would act on become escapes. */
void json_out_safe(const char *json);

/* Returns a JSON string of a text from outside, with bytes that are not UTF-8 replaced. NULL if text is NULL. */
json_t *json_out_string(const char *text);

/* Adds a text with %d for a long, %s for a slice that becomes a string, and %j for a slice that is JSON. A slice
 * without bytes becomes null. Numbers in JSON stay as they were written. */
void json_out_format(struct bytes *out, const char *format, ...);

static inline struct slice slice_of(const char *text)
{
	return (struct slice){text, text ? strlen(text) : 0};
}

/* A member of an object: "" if it is not a text, 0 if it is not an integer or a number. */
const char *member_text(const json_t *object, const char *name);
json_int_t member_number(const json_t *object, const char *name);
double member_real(const json_t *object, const char *name);

/* Prints bytes to standard output, with \xNN for control characters and for bytes that are not UTF-8. Without is_line,
 * tabs and newlines are printed as they are. */
void json_out_text(const char *text, size_t len, bool is_line);
/* Prints a line with texts from outside as json_out_text does, and a newline. */
void json_out_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a text from outside in width columns, cut or padded, with ? for characters that are not printable ASCII. */
void json_out_column(const char *text, int width);

/* The same in as many columns as the text needs, up to most. */
void json_out_word(const char *text, int most);

#endif
