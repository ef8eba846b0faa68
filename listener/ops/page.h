/* page.h: the web page, which is the same for a listener and for a fleet: its files, and what it is told. */
#ifndef WSONCE_PAGE_H
#define WSONCE_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Where it listens for events; each has the text of /api/status. */
#define PAGE_STREAM "/api/stream"

/* Writes the file of the page at path, and sets its type. Returns whether there is one. */
bool page_write(const char *path, FILE *out, const char **type);

/* An event for the stream, on the heap. */
char *page_event(const json_t *status);

#endif
