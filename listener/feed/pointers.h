/* pointers.h: finds the values at many JSON pointers in one pass over a document. */
#ifndef WSONCE_FEED_POINTERS_H
#define WSONCE_FEED_POINTERS_H

#include "base/slice.h"

struct pointers;

struct pointers *pointers_new(void);
void pointers_free(struct pointers *p);

/* Adds a pointer that the profile's reader has validated. Returns its slot; equal pointers share one. */
int pointers_add(struct pointers *p, const char *pointer);

/* Reads the value at `at`, in a text that json_check has accepted, and returns its end. Sets slots[n] to the value at
 * the pointer of slot n, or to {NULL, 0}; of several members with the same name the last counts. The slots live until
 * the next call. */
const char *pointers_read(struct pointers *p, const char *at, const char *end);
const struct slice *pointers_slots(const struct pointers *p);

#endif
