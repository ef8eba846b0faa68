/* pipeline.h: the way of an event, from the bytes of a message to a settled row. */
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
#include "store/storing.h"

struct pipeline;
struct spool;

struct pipeline_callbacks {
	/* Sets which peers may be read, when memory or claims fill up or are free again. */
	void (*on_pressure)(void *arg, enum pressure pressure);
	/* Called once after pipeline_drain: how many messages are unsettled and only in memory. */
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

/* Sets the spool for events that nobody would resend; the pipeline closes it. Call it first. */
void pipeline_use_spool(struct pipeline *p, struct spool *spool);
/* Returns NULL if there is none. */
const struct spool *pipeline_spool(const struct pipeline *p);

/* From now on, ignores marks in Redis: an event with a mark goes to the store as well. For messages that are fed again
 * because some may be missing. */
void pipeline_doubt_marks(struct pipeline *p);

/* Takes one message; its bytes are copied. from is its source in the row if sender has no name; it must outlive the
 * pipeline, and may be NULL. sender, if not NULL, is answered once, later, and must live until then.
 * Returns true if the message is an event. */
bool pipeline_receive(struct pipeline *p, const char *message, size_t len, const char *from, struct sender *sender);

/* An event from the rules of a profile. Its members are valid during the call, except source. */
struct feed_event {
	struct slice id;      /* complete, with its namespace: 1 to ENVELOPE_ID_MAX bytes */
	struct slice type;    /* may be empty */
	struct slice payload; /* as it was sent; if at is NULL, {} is stored */
	struct slice time;    /* as it was sent, but a string is decoded; at is NULL if absent */
	enum timestamp_unit unit;
	const char *source; /* the source's name, "" for a row without one; must outlive the pipeline */
	int64_t came_us;    /* received_at of its row, Unix time; 0: now */
	unsigned int line;  /* line of the source, from 0 */
	uint64_t missing;   /* feed numbers missing before it */
	bool is_compared;   /* its source has several lines, whose payloads should be equal */
	bool is_filling;    /* `fill` asked for its number, which a line did not get */
	bool is_shared;     /* nobody else in the fleet gets it, so it is claimed here */
};

/* Like pipeline_receive, for an event of a profile. id, type and payload are kept and compared, not the frame, which
 * may differ between connections. */
void pipeline_receive_event(struct pipeline *p, const struct feed_event *event, struct sender *sender);

/* Makes a dead letter of a message that is not an event, or of a frame that its profile cannot read. reason is one
 * sentence. source is the name of a source with a profile, which must outlive the pipeline, or NULL. */
void pipeline_refuse(struct pipeline *p, const char *source, const char *message, size_t len, const char *reason,
		     struct sender *sender);

/* The same for a message over the limit (--max-message or the profile's), of which only the head is kept. digest is the
 * SHA-256 of all its total bytes, source the name of a source with a profile, or NULL. */
void pipeline_refuse_long(struct pipeline *p, const char *source, const char *head, size_t len, const uint8_t *digest,
			  uint64_t total, struct sender *sender);

/* Adds to the bytes of incomplete messages, which count for the budget; bytes may be negative. */
void pipeline_charge(struct pipeline *p, long bytes);

/* Settles the events in memory without waiting for other listeners, for at most the drain timeout. Then releases the
 * remaining claims and calls on_drained. */
void pipeline_drain(struct pipeline *p);

/* True if another listener, known at that time (loop clock), leads this source and does what only one should do. */
bool pipeline_is_led_elsewhere(const struct pipeline *p, const char *source, int64_t since_ms);

/* Returns the events in flight, for the admin pages. */
const struct events *pipeline_events(const struct pipeline *p);
/* Returns the Unix time before which every event received here has its outcome, even if it is in the spool. */
int64_t pipeline_settled_us(const struct pipeline *p);
size_t pipeline_bytes(const struct pipeline *p);
bool pipeline_is_full(const struct pipeline *p);
bool pipeline_is_full_for_producers(const struct pipeline *p);
struct storing *pipeline_storing(const struct pipeline *p);
const struct claim *pipeline_claim(const struct pipeline *p);

/* Frees everything that is left, without answers. done is called from the loop once p is freed. */
void pipeline_close(struct pipeline *p, void (*done)(void *arg), void *arg);

#endif
