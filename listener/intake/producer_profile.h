/* producer_profile.h: reads producers' messages by the profile of --ingest-profile, and makes the acks it describes. */
#ifndef WSONCE_PRODUCER_PROFILE_H
#define WSONCE_PRODUCER_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/profile.h"
#include "config/tokens.h"
#include "feed/session.h"
#include "intake/receipt.h"
#include "road/pipeline.h"

struct producer_profile;

/* The callbacks run inside producer_profile_read and when an event settles. */
struct producer_profile_owner {
	struct receipts_owner receipts;
	/* A rule sends this text now. It lives for the call. */
	void (*on_reply)(void *arg, struct slice text);
	/* A rule disconnects the producer. Unless is_fatal, it may reconnect. */
	void (*on_leave)(void *arg, bool is_fatal);
};

/* The state of one producer; a member of its owner's struct. */
struct producer_visitor {
	struct receipts receipts;
	struct session_self self;
	size_t self_bytes; /* memory charged for its variables */
	bool is_told;      /* send the acks that the profile describes */
};

/* profile and pipeline must outlive the result. */
struct producer_profile *producer_profile_open(const struct profile *profile, struct pipeline *pipeline,
					       const struct producer_profile_owner *owner);
void producer_profile_free(struct producer_profile *s); /* NULL is allowed */

/* Adds the tokens of the profile to t. Returns 0, or -1 and a sentence if one cannot be read. */
int producer_profile_add_tokens(struct producer_profile *s, struct tokens *t, char *error, size_t size);

/* A producer has connected. name is its token's name or NULL. name and arg live until its last event has settled. */
void producer_profile_enter(struct producer_profile *s, struct producer_visitor *v, const char *name, bool is_told,
			    void *arg);
/* The producer's connection is gone. */
void producer_profile_leave(struct producer_profile *s, struct producer_visitor *v);

/* Reads message n of the producer. Returns how often on_answer will be called for it, later. */
size_t producer_profile_read(struct producer_profile *s, struct producer_visitor *v, const char *message, size_t len,
			     uint64_t n);

/* Does the profile describe acks? */
bool producer_profile_has_words(const struct producer_profile *s);

#endif
