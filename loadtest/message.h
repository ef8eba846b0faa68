/* message.h: the text of every message a load program sends, told by its number alone, so that
 * who verifies it later needs no copy. */
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

/* What a message looks like. The last two are what real feeds send; profiles read them. */
enum message_kind {
	MESSAGE_EVENT,  /* {"event_id":..,"event_type":..,"payload":..} */
	MESSAGE_COMMIT, /* one of Jetstream's */
	MESSAGE_TRADES, /* one of Kraken's, with MESSAGE_TRADES_EACH trades */
};

enum { MESSAGE_TRADES_EACH = 10 };

struct message_form {
	const char *prefix;   /* of every id; only characters that JSON and LIKE leave alone */
	size_t payload_bytes; /* size of the payload's JSON, no less than its fixed part */
	enum message_kind kind;
};

/* Whether every character of prefix is a letter, a digit or one of . : - and it is not too long. */
bool message_is_prefix(const char *prefix);

/* A prefix that no other run has: from the time and the process id. */
void message_make_prefix(char *out, size_t size);

/* No message of this form is longer. */
size_t message_most(const struct message_form *form);

/* Writes event number n, from 1 on, of whatever kind; returns its length. Nothing ends it. */
size_t message_event(const struct message_form *form, uint64_t n, char *out);

/* Writes malformed message number n, from 1 on. Each is another text; the kinds (not JSON,
 * truncated, no id, ...) take turns. All of them are valid UTF-8. */
size_t message_malformed(const struct message_form *form, uint64_t n, char *out);

/* Writes the id of event number n. */
size_t message_id(const struct message_form *form, uint64_t n, char *out);

/* The number in an event id of this form; 0 if id is none. */
uint64_t message_number(const struct message_form *form, const char *id, size_t len);

/* Whether text is the payload of event n to the digit, blanks aside. jsonb's output passes: the
 * payload's members stand in jsonb's own order, and no string in it holds a blank. scratch has
 * room for message_most() bytes. */
bool message_is_payload(const struct message_form *form, uint64_t n, const char *text, size_t len, char *scratch);

#endif
