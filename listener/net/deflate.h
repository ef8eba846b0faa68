/* deflate.h: permessage-deflate (RFC 7692) of a dialled feed: the negotiation and the inflating. */
#ifndef WSONCE_DEFLATE_H
#define WSONCE_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* The offer. wsonce sends nothing compressed, so the server needs no context for it, and any window size will do. */
#define DEFLATE_OFFER "permessage-deflate; client_no_context_takeover; client_max_window_bits"

struct deflate_terms {
	bool is_agreed;
	bool is_forgetful; /* server_no_context_takeover: each message is compressed on its own */
};

/* Parses the server's answer to the offer (section 7.1). Returns 0, or -1 if it is invalid. */
int deflate_read_terms(const char *value, struct deflate_terms *terms);

struct inflater;

/* Receives a part of the inflated message. bytes are valid during the call. Return 0, or -1 to stop. */
typedef int(inflater_cb)(void *arg, const char *bytes, size_t len, bool is_last);

struct inflater *inflater_new(const struct deflate_terms *terms);
void inflater_free(struct inflater *i);

/* Inflates bytes of a message; is_last: these are its last. Passes the result to take; at the end of the message take
 * is called even with 0 bytes. Returns 0, or -1 if the bytes violate section 7.2 or take returned -1. */
int inflater_receive(struct inflater *i, const char *bytes, size_t len, bool is_last, inflater_cb *take, void *arg);

#endif
