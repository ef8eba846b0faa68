/* output.h: what commands print: one JSON object whose lists are written as they come, or text that
 * does a terminal no harm. */
#ifndef WSONCE_OUTPUT_H
#define WSONCE_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* One object on standard output, so that a list of millions needs no memory. */
struct output {
	bool has_member;
	bool has_item;
};

void output_open(struct output *o);
/* Takes over value; NULL is written as null. */
void output_member(struct output *o, const char *name, json_t *value);
/* The same with a value that is JSON already, as it is. */
void output_member_text(struct output *o, const char *name, const char *json);
void output_list(struct output *o, const char *name);
void output_item(struct output *o, json_t *value);
void output_list_end(struct output *o);
void output_close(struct output *o);

/* A text that came from outside, as a JSON string; what is not UTF-8 in it is replaced. NULL is null. */
json_t *output_string(const char *text);

/* Prints bytes on standard output; control characters but tab and newline, and what is not UTF-8, as
 * \xNN. With is_line, tab and newline too. */
void output_text(const char *text, size_t len, bool is_line);

#endif
