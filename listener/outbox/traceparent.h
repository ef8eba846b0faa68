/* traceparent.h: the trace of an event, for the W3C Trace Context header. No I/O. */
#ifndef WSONCE_TRACEPARENT_H
#define WSONCE_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEPARENT_SIZE 56 /* with the NUL */

/* Copies the traceparent at a JSON pointer into the data of a delivery's body to out. Returns false if there is no
 * valid one; then send no header. */
bool traceparent_find(char *out, const char *body, size_t len, const char *pointer);

#endif
