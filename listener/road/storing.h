/* storing.h: what the store is given next, and when: batches of events in EV_BATCHED, dead letters in EV_REFUSED,
 * check-ins and cursors. A second connection helps with events where one backend of Postgres is not enough. */
#ifndef WSONCE_STORING_H
#define WSONCE_STORING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "store/cursors.h"
#include "event/event.h"
#include "store/store.h"

#define BATCH_BYTES (8u << 20) /* of messages in one statement */

struct storing;

/* Called from the loop, as in store.h. */
struct storing_callbacks {
	/* ev is in EV_STORING, or in EV_DEAD_LETTERING. */
	void (*on_stored)(void *arg, struct event *ev, enum store_result result, const char *why);
	void (*on_dead_lettered)(void *arg, struct event *ev, enum store_dead_letter dead_letter);
	void (*on_posted)(void *arg);
	void (*on_database)(void *arg, const char *id);
	void (*on_epoch)(void *arg, uint32_t epoch);
	void (*on_unusable)(void *arg, const char *sentence, int status);
	void *arg;
};

/* Starts to connect. config and events must outlive it. */
struct storing *storing_open(uv_loop_t *loop, const struct config *config, struct events *events,
			     const struct storing_callbacks *callbacks);

/* Gives the store what is due, if it is idle; to be called in each turn of the loop. wants_epoch: a mark may have to be
 * believed soon. */
void storing_next(struct storing *s, bool wants_epoch);
/* Milliseconds until storing_next() has something to do that nothing else brings about. */
int64_t storing_wait(struct storing *s);
/* An event has come whose sender waits for its ack: batches are not to grow. */
void storing_await(struct storing *s);

/* The one that does all there is to do, to ask how it is. */
const struct store *storing_store(const struct storing *s);
/* May a server be at work on a batch? */
bool storing_is_sent(const struct storing *s);

/* Has nothing been stored for too long, though there are rows? As stall_check(). */
bool storing_is_unable(struct storing *s);
/* Who has nothing to try counts as able again. */
void storing_forget_stall(struct storing *s);

/* Why rows are not stored, "" if they are, as far as the last statements tell. Valid until the next call. */
const char *storing_trouble(const struct storing *s);
/* Do rows come faster than they are stored? Milliseconds for which the oldest has waited, and a sentence in why, valid
 * until the next call; else 0 and "". */
int64_t storing_is_slow(const struct storing *s, const char **why);
/* Tells the log, at its beginning, once a minute and at its end, that the store is slow. */
void storing_check_slowness(struct storing *s);

/* All that its source sent before this cursor is durable: it is stored within a second of its being so. Copied. */
void storing_put_cursor(struct storing *s, const struct cursor *cursor);

/* cursor lives for the call; NULL: that were all. */
typedef void storing_cursor_cb(void *arg, const struct cursor *cursor);

/* Asks Postgres, as soon as it is there, for the cursors of n sources. Calls cb once for each, and once more in the
 * end, later, never from inside this call; one call at a time. The array must stay until then. */
void storing_read_cursors(struct storing *s, const char *const *sources, size_t n, storing_cursor_cb *cb, void *arg);

/* fn is called when the database has forgotten commits (see sql/migrations/005_epoch.sql): what was durable may not be
 * any more, nor the cursors that were put. Ask storing_read_cursors, and the sources for what came since. */
void storing_on_forgotten(struct storing *s, void (*fn)(void *arg), void *arg);

/* describe gives what the listener tells of itself at each check-in, as in checkin.h. */
void storing_on_checkin(struct storing *s, json_t *(*describe)(void *arg), void *arg);
/* Something has changed that the next check-in should tell: it is due now. */
void storing_hasten_checkin(struct storing *s);

/* The listener ends: nothing waits to be stored together with more. */
void storing_drain(struct storing *s);
/* Is there nothing to wait for before the end? The cursors and the last check-in are sent only if Postgres is there. */
bool storing_is_over(struct storing *s);

/* done is called from the loop when nothing of s is left. */
void storing_close(struct storing *s, void (*done)(void *arg), void *arg);

#endif
