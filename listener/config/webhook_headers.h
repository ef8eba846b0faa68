/* webhook_headers.h: the headers that a webhook's settings add to each request. */
#ifndef WSONCE_WEBHOOK_HEADERS_H
#define WSONCE_WEBHOOK_HEADERS_H

#include <jansson.h>
#include <stddef.h>

#include "base/bytes.h"
#include "config/profile_reader.h"

#define WEBHOOK_HEADERS_MAX 16

/* Checks an object of header names and texts. Returns 0, or -1 after profile_fail. */
int webhook_headers_check(struct profile_reader *r, const json_t *headers);

/* Reads the variables and files that headers and bearer_file name; either may be NULL. Sets lines to the header lines,
 * each followed by a NUL; free them with webhook_headers_clear. Returns -1 after filling fault, with lines empty, if
 * one cannot be read, or is not a valid header value. */
int webhook_headers_read(struct bytes *lines, const json_t *headers, const char *bearer_file, char *fault, size_t size);
void webhook_headers_clear(struct bytes *lines);

#endif
