/* envelope.h: reads the id, type, payload and time of a message. No I/O, and no state between messages except reused
 * memory. */
#ifndef WSONCE_ENVELOPE_H
#define WSONCE_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/config.h"
#include "event/id_hash.h"

#define ENVELOPE_DEPTH_MAX 2048 /* nested arrays and objects, as in jansson */

struct envelope;

/* The parts of a message. id and type are decoded and live in the reader until the next call; payload points into the
 * message. A missing type is "", a missing payload is {}. */
struct envelope_view {
	struct slice id;
	struct slice type;
	struct slice payload;
	bool has_payload;
	struct id_hash id_hash; /* set by events_hash() */
	/* The source's name if a profile's rules read the event; it outlives all events. The message is then only the
	 * payload, which is the same on all connections. Else NULL. */
	const char *source;
	unsigned int line; /* line of the source, from 0 */
};

/* Returns a reader for these pointers (RFC 6901, checked by config.c). */
struct envelope *envelope_new(const struct config_list *id_pointers, const char *type_pointer,
			      const char *payload_pointer);
void envelope_free(struct envelope *e);

/* Also reads the event's time, at this pointer. An event whose time occurs twice is refused; if is_forgiven, it counts
 * as one without a time. */
void envelope_add_time(struct envelope *e, const char *pointer, bool is_forgiven);

/* Also reads the key at this pointer: events with the same key are processed one after another. */
void envelope_add_order(struct envelope *e, const char *pointer);

/* Reads one message. Returns NULL and fills view; or returns why the message is not an event, one sentence that lives
 * until the next call, and view->id is empty.
 *
 * The id is a string, or a number as written: 1 and "1" are the same id, 1.0 is another. White space, case and Unicode
 * forms are significant. Several parts are joined by |, and | and \ inside a part are escaped with \. */
const char *envelope_read(struct envelope *e, const char *message, size_t len, struct envelope_view *view);

/* The decoded time of the last message; lives until the next one. at is NULL if it is missing or not a string or
 * number, which is not an error. */
struct slice envelope_time(const struct envelope *e);

/* The decoded key of the last message, as above. */
struct slice envelope_order(const struct envelope *e);
/* Returns the key in valid JSON that envelope_read() has not read: a message, or what --payload-pointer leads to. */
struct slice envelope_find_order(struct envelope *e, struct slice json);

#endif
