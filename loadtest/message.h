/* message.h: the text of each message that a load program sends. It depends only on the message's
 * number, so verifying needs no copy. */
#ifndef WSONCE_MESSAGE_H
#define WSONCE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MESSAGE_PREFIX_MOST = 100,       /* bytes of an id prefix */
	MESSAGE_PAYLOAD_MOST = 64 << 20, /* bytes of a payload */
	MESSAGE_MALFORMED_KINDS = 8,
};

#define MESSAGE_TYPE "order.created"

/* The form of messages. The last two imitate real feeds, to be read with profiles. */
enum message_kind {
	MESSAGE_EVENT,  /* {"event_id":..,"event_type":..,"payload":..} */
	MESSAGE_COMMIT, /* as from Jetstream */
	MESSAGE_TRADES, /* as from Kraken, with MESSAGE_TRADES_EACH trades */
};

enum { MESSAGE_TRADES_EACH = 10 };

struct message_form {
	const char *prefix;   /* of every id; only characters without meaning in JSON and LIKE */
	size_t payload_bytes; /* size of the payload's JSON, at least its fixed part */
	enum message_kind kind;
};

/* True if prefix is short enough, and has only letters, digits and . : - */
bool message_is_prefix(const char *prefix);

/* A prefix unique to this run, from the time and the process id. */
void message_make_prefix(char *out, size_t size);

/* The maximum length of a message of this form. */
size_t message_most(const struct message_form *form);

/* Writes event n (from 1); returns its length. Writes no NUL. */
size_t message_event(const struct message_form *form, uint64_t n, char *out);

/* Writes malformed message n (from 1). All texts differ; the kinds (not JSON, truncated, no id, ...)
 * alternate. All are valid UTF-8. */
size_t message_malformed(const struct message_form *form, uint64_t n, char *out);

/* Writes the id of event n. */
size_t message_id(const struct message_form *form, uint64_t n, char *out);

/* The number in an event id of this form; 0 if id has another form. */
uint64_t message_number(const struct message_form *form, const char *id, size_t len);

/* Is text exactly the payload of event n, ignoring blanks? Works for jsonb's output, because the
 * payload's members are in jsonb's order and no string contains a blank. scratch has room for
 * message_most() bytes. */
bool message_is_payload(const struct message_form *form, uint64_t n, const char *text, size_t len, char *scratch);

#endif
