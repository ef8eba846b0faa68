/* deflate.h: permessage-deflate (RFC 7692) of a dialled feed: what is agreed, and the inflating. */
#ifndef WSONCE_DEFLATE_H
#define WSONCE_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* What is asked for. We compress nothing ourselves, so the server needs no memory for our context, and any window of
 * ours will do. */
#define DEFLATE_OFFER "permessage-deflate; client_no_context_takeover; client_max_window_bits"

struct deflate_terms {
	bool is_agreed;
	bool is_forgetful; /* each message is compressed by itself (server_no_context_takeover) */
};

/* Reads the server's answer to the offer (section 7.1). Returns 0, or -1 if it is no answer to it. */
int deflate_read_terms(const char *value, struct deflate_terms *terms);

struct inflater;

/* Takes a part of the inflated message. The bytes live for the call. Returns 0, or -1 to stop. */
typedef int(inflater_cb)(void *arg, const char *bytes, size_t len, bool is_last);

struct inflater *inflater_new(const struct deflate_terms *terms);
void inflater_free(struct inflater *i);

/* Inflates bytes of a message; is_last: with them it ends. Calls take for what they make, at the end of the message
 * also for nothing. Returns 0; or -1 if the bytes are not as section 7.2 wants them, or take returned -1. */
int inflater_receive(struct inflater *i, const char *bytes, size_t len, bool is_last, inflater_cb *take, void *arg);

#endif
