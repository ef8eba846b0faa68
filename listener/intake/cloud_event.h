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

/* Adds the attribute of a request's header, if the header is one, to attributes. The first one begins with a comma,
 * too. Returns NULL, or what is wrong with the header. */
const char *cloud_event_add_header(struct bytes *attributes, const char *name, const char *value);

/* Writes an event in JSON, of attributes and data. type: as above. Returns false if it has the data as bytes
 * (data_base64), because the type says that they are JSON and they are not. */
bool cloud_event_write(struct bytes *event, struct slice attributes, const char *type, struct slice data);

#endif
