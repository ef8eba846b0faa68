/* pipeline.h: the road of an event, from the bytes of a message to a settled row. */
#ifndef WSONCE_PIPELINE_H
#define WSONCE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/pressure.h"
#include "base/timestamp.h"
#include "claim/claim.h"
#include "config/config.h"
#include "event/event.h"
#include "road/storing.h"

struct pipeline;
struct spool;

struct pipeline_callbacks {
	/* Memory fills or claims pile up, or not any more: from now on read from others alone. */
	void (*on_pressure)(void *arg, enum pressure pressure);
	/* After pipeline_drain, once: how many messages are left unsettled in memory alone. */
	void (*on_drained)(void *arg, size_t left);
	/* New rows of the outbox are committed; as in store.h. */
	void (*on_posted)(void *arg);
	/* The listener cannot work with this database; as in store.h. */
	void (*on_unusable)(void *arg, const char *sentence, int status);
	void *arg;
};

/* Opens claim and store. config must outlive the pipeline. */
struct pipeline *pipeline_open(uv_loop_t *loop, const struct config *config,
			       const struct pipeline_callbacks *callbacks);

/* Events that nobody would send again go to this spool, which the pipeline closes. Call it before anything else. */
void pipeline_use_spool(struct pipeline *p, struct spool *spool);
/* NULL if there is none. */
const struct spool *pipeline_spool(const struct pipeline *p);

/* From now on marks in Redis are not believed: an event that has one goes to the store as well, which knows. For
 * messages that are fed again because something may be missing. */
void pipeline_doubt_marks(struct pipeline *p);

/* Takes one message; its bytes are copied. from says who sent it, for the row, where sender has no name: it outlives
 * the pipeline, and may be NULL. sender, if not NULL, is answered once, later, and must live until then.
 * Returns whether it is an event. */
bool pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from, struct sender *sender);

/* An event that the rules of a profile have read out of a frame. All of it lives for the call, but for source. */
struct feed_event {
	struct slice id;      /* whole, with its namespace: 1 to ENVELOPE_ID_MAX bytes */
	struct slice type;    /* may be empty */
	struct slice payload; /* as it was sent; at NULL: there is none, which is {} */
	struct slice time;    /* as it was sent, a string decoded; at NULL: there is none */
	enum timestamp_unit unit;
	const char *source; /* the source's name; outlives the pipeline */
	unsigned int line;  /* of the source, from 0 */
	uint64_t missing;   /* numbers of the feed that did not come before it */
	bool is_compared;   /* its source has several lines, which should send the same */
	bool is_shared;     /* nobody else in the fleet gets it, so it is not left to another listener first */
};

/* Takes it; as pipeline_receive, but that what is kept and compared is not the frame, which may differ on two
 * connections, but id, type and payload. */
void pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender);

/* Takes a message that is known to be no event, with the reason, one sentence; or a frame of a source that its profile
 * cannot read. source is the name of a source with a profile, which outlives the pipeline, or NULL. */
void pipeline_refuse(struct pipeline *p, const char *source, const char *message, size_t len, const char *reason,
		     struct sender *sender);

/* Takes the head of a message over the limit, --max-message or the profile's; digest is the SHA-256 of all its total
 * bytes, source the name of a source with a profile, or NULL. */
void pipeline_refuse_long(struct pipeline *p, const char *source, const char *head, size_t len, const uint8_t *digest,
			  uint64_t total, struct sender *sender);

/* Adds (or with a negative number takes away) bytes that messages not yet complete hold: they
 * count for the budget too. */
void pipeline_charge(struct pipeline *p, long bytes);

/* Settles what is in memory without waiting for other instances, for at most the drain timeout,
 * then gives back the claims of what is left and calls on_drained. */
void pipeline_drain(struct pipeline *p);

/* Does another listener lead this source, so that it should do what need be done once in the fleet? */
bool pipeline_is_led_elsewhere(const struct pipeline *p, const char *source);

/* What the admin pages show. */
const struct events *pipeline_events(const struct pipeline *p);
size_t pipeline_bytes(const struct pipeline *p);
bool pipeline_is_full(const struct pipeline *p);
bool pipeline_is_full_for_producers(const struct pipeline *p);
struct storing *pipeline_storing(const struct pipeline *p);
const struct claim *pipeline_claim(const struct pipeline *p);

/* Frees everything that is left, unanswered. done is called from the loop when nothing of p is
 * left. */
void pipeline_close(struct pipeline *p, void (*done)(void *arg), void *arg);

#endif
