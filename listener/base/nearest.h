/* nearest.h: suggests a known name for a misspelled one. */
#ifndef WSONCE_NEAREST_H
#define WSONCE_NEAREST_H

#include <stddef.h>

struct nearest {
	const char *word; /* len bytes, not copied */
	size_t len;
	const char *best; /* the nearest name so far, or NULL if none is near enough */
	size_t distance;  /* of best; at first the smallest that is too large. Callers may change it */
};

/* The distance of a word with n mistakes. The beginning of a name counts as more than one mistake and less than two, a
 * name and further words as two at most. */
#define NEAREST_MISTAKES(n) (2 * (n))

/* Begins a search for word, which must outlive n. */
void nearest_init(struct nearest *n, const char *word, size_t len);

/* Compares one name, which must outlive n. */
void nearest_offer(struct nearest *n, const char *name);

/* Writes "; did you mean X?", with head before X, into out, or "" if no name is near enough. Returns out. */
const char *nearest_ask(const struct nearest *n, const char *head, char *out, size_t size);

#endif
