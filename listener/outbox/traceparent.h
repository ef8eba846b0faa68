/* traceparent.h: the trace that an event belongs to, as W3C's Trace Context writes it. No I/O. */
#ifndef WSONCE_TRACEPARENT_H
#define WSONCE_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEPARENT_SIZE 56 /* with the NUL */

/* Finds the traceparent of a delivery's body, at a JSON pointer into its data, and writes it into out for a header.
 * False if there is none, or it is not one: then nothing is sent. */
bool traceparent_find(char *out, const char *body, size_t len, const char *pointer);

#endif
