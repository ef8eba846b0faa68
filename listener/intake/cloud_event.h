/* cloud_event.h: CloudEvents in HTTP requests (HTTP protocol binding 1.0.2). No I/O. */
#ifndef WSONCE_CLOUD_EVENT_H
#define WSONCE_CLOUD_EVENT_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/slice.h"

enum cloud_mode {
	CLOUD_NONE,
	CLOUD_STRUCTURED, /* the body is an event in JSON */
	CLOUD_BATCH,      /* the body is a JSON array of events */
	CLOUD_BINARY,     /* the body is an event's data, and headers are its attributes */
	CLOUD_FOREIGN,    /* the body is in a format that is not JSON */
};

/* Takes the values of Content-Type and ce-specversion, or NULL. */
enum cloud_mode cloud_event_mode(const char *type, const char *version);

/* If a request's header is an attribute, adds it to attributes, with a comma before it, even the first one. Returns
 * NULL, or what is wrong with the header. */
const char *cloud_event_add_header(struct bytes *attributes, const char *name, const char *value);

/* Writes an event in JSON from attributes and data. type: as above. Returns false if the type says that the data is
 * JSON but it is not; then the event contains it as data_base64. */
bool cloud_event_write(struct bytes *event, struct slice attributes, const char *type, struct slice data);

#endif
