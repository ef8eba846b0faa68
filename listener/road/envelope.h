/* envelope.h: from the bytes of a message to its id, type and payload. Pure: no I/O, no state
 * between messages but memory that is used again. */
#ifndef WSONCE_ENVELOPE_H
#define WSONCE_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/config.h"

#define ENVELOPE_DEPTH_MAX 2048 /* arrays and objects inside each other, as in jansson */

struct envelope;

/* What a message says. id and type are decoded and live in the reader until the next call;
 * payload points into the message. An absent type is "", an absent payload is {}. */
struct envelope_view {
	struct slice id;
	struct slice type;
	struct slice payload;
	uint32_t id_hash; /* of the id, by keyed_hash() */
	/* Of an event that the rules of a profile have read, the source's name, which outlives all events: then the
	 * message is the payload alone, which is equal on all connections. Else NULL. */
	const char *source;
};

/* A reader for these pointers (RFC 6901, checked by config.c). */
struct envelope *envelope_new(const struct config_list *id_pointers, const char *type_pointer,
			      const char *payload_pointer);
void envelope_free(struct envelope *e);

/* From now on the event's time is read too, at one more pointer. */
void envelope_add_time(struct envelope *e, const char *pointer);

/* A time that is named twice is no fault from now on: then there is none. */
void envelope_forgive_time(struct envelope *e);

/* Reads one message. Returns NULL and fills view; or returns why the message cannot be an event,
 * one sentence that lives until the next call, and view->id is then empty.
 *
 * The id is a string, or a number as it is written: 1 and "1" are the same id, 1.0 is another.
 * Nothing is folded: white space, case and Unicode forms count. Several parts are joined by |,
 * with \ before a | or \ inside a part. */
const char *envelope_read(struct envelope *e, const char *message, size_t len, struct envelope_view *view);

/* The time of the message that was read last, decoded; lives until the next one. at is NULL if it is
 * missing, or is no string or number: an event without a time is an event. */
struct slice envelope_time(const struct envelope *e);

#endif
