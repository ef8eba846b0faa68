/* page.h: the web page, which is the same for a listener and for a fleet: its files, and what it is told. */
#ifndef WSONCE_PAGE_H
#define WSONCE_PAGE_H

#include <jansson.h>

/* Where it listens for events; each has the text of /api/status. */
#define PAGE_STREAM "/api/stream"

/* The file of the page at path, and its type; NULL: there is none. */
const char *page_file(const char *path, const char **type);

/* An event for the stream, on the heap. */
char *page_event(const json_t *status);

#endif
