/* nearest.h: which of some names was probably meant by one that is none of them. */
#ifndef WSONCE_NEAREST_H
#define WSONCE_NEAREST_H

#include <stddef.h>

struct nearest {
	const char *word; /* of len bytes */
	size_t len;
	const char *best; /* the nearest that was offered, if it is near enough; else NULL */
	size_t distance;  /* its, or what is too far; who is more or less strict sets it before the first offer */
};

/* Begins a search; word stays the caller's. */
void nearest_init(struct nearest *n, const char *word, size_t len);

/* One more name, which must outlive n. */
void nearest_offer(struct nearest *n, const char *name);

/* Writes "; did you mean X?" with head before X into out, or nothing; returns out. */
const char *nearest_ask(const struct nearest *n, const char *head, char *out, size_t size);

#endif
