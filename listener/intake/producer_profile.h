/* producer_profile.h: the profile of the producers: what their messages are, and what they are told. */
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

/* Called from producer_profile_read, and when an event settles. */
struct producer_profile_owner {
	struct receipts_owner receipts;
	/* A rule sends this at once. Lives for the call. */
	void (*on_reply)(void *arg, struct slice text);
	/* A rule of the profile says that the producer has to go: is_fatal, or it may come again. */
	void (*on_leave)(void *arg, bool is_fatal);
};

/* A producer's part of it; a member of its owner's struct. */
struct producer_visitor {
	struct receipts receipts;
	struct session_self self;
	size_t self_bytes; /* of its variables, as they were charged */
	bool is_told;      /* in the profile's words; else they are not made */
};

/* profile and pipeline must outlive it. */
struct producer_profile *producer_profile_open(const struct profile *profile, struct pipeline *pipeline,
					       const struct producer_profile_owner *owner);
void producer_profile_free(struct producer_profile *s); /* NULL is allowed */

/* The tokens that the profile names. Returns 0; or -1 and a sentence, if one cannot be read. */
int producer_profile_add_tokens(struct producer_profile *s, struct tokens *t, char *error, size_t size);

/* A producer has come. name: of its token, or NULL; it and arg live until its last event has settled. */
void producer_profile_enter(struct producer_profile *s, struct producer_visitor *v, const char *name, bool is_told,
			    void *arg);
/* Its connection is gone. */
void producer_profile_leave(struct producer_profile *s, struct producer_visitor *v);

/* Reads its message n. Returns how many times on_answer will be called for it, later. */
size_t producer_profile_read(struct producer_profile *s, struct producer_visitor *v, const char *message, size_t len,
			     uint64_t n);

/* Has the profile words for the producers? */
bool producer_profile_has_words(const struct producer_profile *s);

#endif
