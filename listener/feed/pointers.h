/* pointers.h: what is at many JSON pointers of a document, found in one walk over it. */
#ifndef WSONCE_FEED_POINTERS_H
#define WSONCE_FEED_POINTERS_H

#include "base/slice.h"

struct pointers;

struct pointers *pointers_new(void);
void pointers_free(struct pointers *p);

/* Adds a pointer, which the profile's reader has checked; returns its slot, the same for the same pointer. */
int pointers_add(struct pointers *p, const char *pointer);

/* Reads the value that begins at `at`, of a text that json_check has passed; returns where it ends. Then slots[n] is
 * what is at the pointer of slot n, or {NULL, 0}; of members of the same name the last counts. They live until the next
 * call. */
const char *pointers_read(struct pointers *p, const char *at, const char *end);
const struct slice *pointers_slots(const struct pointers *p);

#endif
