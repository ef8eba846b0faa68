/* json_pointers.h: finds the values at many JSON pointers in one pass over a document. */
#ifndef WSONCE_JSON_POINTERS_H
#define WSONCE_JSON_POINTERS_H

#include <stdint.h>

#include "base/slice.h"

struct json_pointers;

struct json_pointers *json_pointers_new(void);
void json_pointers_free(struct json_pointers *p);

/* Adds a valid pointer of at most JSON_STEPS_MAX steps. Returns its slot; equal pointers share one. */
int json_pointers_add(struct json_pointers *p, const char *pointer);

/* Reads the value at `at`, in a text that json_check has accepted, and returns its end. Sets slots[n] to the value at
 * the pointer of slot n, or to {NULL, 0}; of several members with the same name the last counts. The slots live until
 * the next call. */
const char *json_pointers_read(struct json_pointers *p, const char *at, const char *end);
const struct slice *json_pointers_slots(const struct json_pointers *p);
/* Returns a bit for each of the first 64 slots: 1 if a member on the way to its value, or the value itself, has a name
 * that occurs twice in its object. */
uint64_t json_pointers_repeated(const struct json_pointers *p);

#endif
