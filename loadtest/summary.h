/* summary.h: the result of a run: named figures, as text or JSON. */
#ifndef WSONCE_SUMMARY_H
#define WSONCE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

struct summary;

/* NULL if out of memory; the other functions treat that as an empty summary. */
struct summary *summary_new(void);

/* Names need no escaping in JSON. The text form shows underscores as blanks. */
void summary_count(struct summary *s, const char *name, uint64_t value);
void summary_number(struct summary *s, const char *name, double value);
void summary_text(struct summary *s, const char *name, const char *value);
void summary_texts(struct summary *s, const char *name, const char *const *values, unsigned int count);

/* Prints it on standard output: one JSON object on one line, or one figure per line. */
void summary_print(const struct summary *s, bool as_json);

void summary_free(struct summary *s);

#endif
