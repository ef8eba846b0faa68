/* summary.h: the result of a run: named figures, for people or for machines. */
#ifndef WSONCE_SUMMARY_H
#define WSONCE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

struct summary;

/* NULL when there is no memory, which the other functions take for an empty summary. */
struct summary *summary_new(void);

/* Names are C strings that JSON leaves alone; people see them with blanks for underscores. */
void summary_count(struct summary *s, const char *name, uint64_t value);
void summary_number(struct summary *s, const char *name, double value);
void summary_text(struct summary *s, const char *name, const char *value);
void summary_texts(struct summary *s, const char *name, const char *const *values, unsigned int count);

/* Prints it on standard output: one JSON object on one line, or one figure a line. */
void summary_print(const struct summary *s, bool as_json);

void summary_free(struct summary *s);

#endif
