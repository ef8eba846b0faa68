/* producer_profile.h: reads producers' messages with the profile of --ingest-profile, and makes the acks it
 * describes. */
#ifndef WSONCE_PRODUCER_PROFILE_H
#define WSONCE_PRODUCER_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/profile.h"
#include "config/tokens.h"
#include "feed/session.h"
#include "intake/ledger.h"
#include "pipeline/pipeline.h"

struct producer_profile;

/* The callbacks run inside producer_profile_read and when an event settles. */
struct producer_profile_owner {
	/* As in struct ledger_settings; the first two may be NULL. All get the owner's arg. */
	void (*on_ack)(void *arg, struct slice ack, int64_t came_ms);
	void (*on_full)(void *arg, bool is_full);
	void (*on_answer)(void *arg, const struct event *ev, enum outcome outcome, uint64_t n);
	void (*charge)(void *arg, long bytes);
	/* Send this text of a rule now. It is valid during the call. May be NULL. */
	void (*on_reply)(void *arg, struct slice text);
	/* Disconnect the producer, because a rule says so. Unless is_fatal, it may reconnect. May be NULL. */
	void (*on_leave)(void *arg, bool is_fatal);
};

/* The state of one producer; a member of its owner's struct. */
struct producer_visitor {
	struct ledger *ledger;
	void *arg; /* of its owner */
	struct session_self self;
	size_t self_bytes;      /* memory charged for its variables */
	bool is_told;           /* send the acks that the profile describes */
	const char *webhook_id; /* value of ${webhook_id}; NULL: none */
	const char *source;     /* source in its rows, which must outlive the pipeline; NULL: the profile's name */
};

/* profile and pipeline must outlive the result. */
struct producer_profile *producer_profile_open(const struct profile *profile, struct pipeline *pipeline,
					       const struct producer_profile_owner *owner);
/* The same with a built-in profile, given as JSON. */
struct producer_profile *producer_profile_open_text(const char *json, struct pipeline *pipeline,
						    const struct producer_profile_owner *owner);
void producer_profile_free(struct producer_profile *s); /* NULL is allowed */

/* Reads the tokens of the settings and of the profile; s may be NULL. On failure returns NULL and a sentence in error.
 */
struct tokens *producer_profile_read_tokens(struct producer_profile *s, const struct config *config, char *error,
					    size_t size);

/* Call when a producer has connected. name is its token's name or NULL; if resends, it sends again what has no answer.
 * name and arg must live until its last event has settled. */
void producer_profile_enter(struct producer_profile *s, struct producer_visitor *v, const char *name, bool is_told,
			    bool resends, void *arg);
/* Returns the memory of all producers' variables in bytes. */
size_t producer_profile_variables(const struct producer_profile *s);
/* Frees the variables of a producer, which may send no more messages. */
void producer_profile_forget(struct producer_profile *s, struct producer_visitor *v);
/* Call when the producer's connection is gone. */
void producer_profile_leave(struct producer_profile *s, struct producer_visitor *v);

/* Reads message n of the producer, which came at now_ms (loop clock), and takes what it repeats from room, see
 * session_read_part(). Returns how often on_answer will be called for it later. */
size_t producer_profile_read(struct producer_profile *s, struct producer_visitor *v, const char *message, size_t len,
			     size_t *room, uint64_t n, int64_t now_ms);

/* True if the profile describes acks. */
bool producer_profile_has_words(const struct producer_profile *s);

#endif
