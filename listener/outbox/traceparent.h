/* traceparent.h: the trace of an event, for W3C's Trace Context header. No I/O. */
#ifndef WSONCE_TRACEPARENT_H
#define WSONCE_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEPARENT_SIZE 56 /* with the NUL */

/* Looks for a traceparent in a delivery's body, at a JSON pointer into its data, and copies it to out. Returns false if
 * there is no valid one: then no header is sent. */
bool traceparent_find(char *out, const char *body, size_t len, const char *pointer);

#endif
