/* storing.h: chooses what to store next, and when: batches of events in EV_BATCHED, dead letters in EV_REFUSED,
 * check-ins and cursors. A second connection helps with events if one backend of Postgres is not enough. */
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

#define BATCH_BYTES (8u << 20) /* bytes of messages per statement */

struct storing;

/* Called from the loop, as in store.h. */
struct storing_callbacks {
	/* ev, in EV_BATCHED, should be stored now but is older than --max-age: the callback moves it to EV_REFUSED. */
	void (*on_stale)(void *arg, struct event *ev);
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

/* Gives the store what is due, if it is idle. Call it in each turn of the loop. wants_epoch: a mark may need the epoch
 * soon. */
void storing_next(struct storing *s, bool wants_epoch);
/* Returns the milliseconds until storing_next() has something to do. */
int64_t storing_wait(struct storing *s);
/* An event has arrived whose sender waits for its ack: batches should not grow. */
void storing_await(struct storing *s);

/* The first connection's store, to query its state. */
const struct store *storing_store(const struct storing *s);
/* True if a server may be storing a batch. */
bool storing_is_sent(const struct storing *s);

/* True if rows wait and none has been stored for too long. See stall_check(). */
bool storing_is_unable(struct storing *s);
/* A listener with nothing to try counts as able again. */
void storing_forget_stall(struct storing *s);

/* Returns why rows are not stored, "" if they are, by the last statements. Valid until the next call. */
const char *storing_trouble(const struct storing *s);
/* True if many rows wait and are stored soon: further ones had better wait in the feeds' connections. If the oldest
 * waits for long, Postgres is slow, and only the memory budget limits what is read. */
bool storing_is_far_ahead(struct storing *s);
/* If rows arrive faster than they are stored, returns how long the oldest has waited in ms and sets why to a sentence,
 * valid until the next call; else 0 and "". */
int64_t storing_is_slow(const struct storing *s, const char **why);
/* What waits because it could not be written, or "". */
const char *storing_kept(const struct storing *s);
/* Logs that the store is slow: at the start, once a minute, and at the end. */
void storing_check_slowness(struct storing *s);

/* Stores a copy of a cursor within a second. Everything that its source sent before it must be durable. */
void storing_put_cursor(struct storing *s, const struct cursor *cursor);

/* cursor is valid during the call. NULL marks the end. */
typedef void storing_cursor_cb(void *arg, const struct cursor *cursor);

/* Reads the cursors of n sources once Postgres is connected. Later, calls cb for each and then with NULL. One query at
 * a time. The array must stay valid until then. */
void storing_read_cursors(struct storing *s, const char *const *sources, size_t n, storing_cursor_cb *cb, void *arg);

/* fn is called when the database has lost commits (see sql/migrations/005_epoch.sql): events and cursors that were
 * durable may be gone. Call storing_read_cursors, and ask the sources for everything since then. */
void storing_on_forgotten(struct storing *s, void (*fn)(void *arg), void *arg);
/* Does the same because events that cursors have passed are lost. */
void storing_forget_cursors(struct storing *s);

/* describe returns what the listener reports at each check-in, as in checkin.h. */
void storing_on_checkin(struct storing *s, json_t *(*describe)(void *arg), void *arg);
/* True if the last check-in was answered and the next one is not due. */
bool storing_has_checked_in(const struct storing *s);
/* Sends a check-in now, because something has changed. */
void storing_hasten_checkin(struct storing *s);

/* The listener is stopping: store rows at once. */
void storing_drain(struct storing *s);
/* True if nothing needs to be waited for before the end. Cursors and the last check-in are sent only if Postgres is
 * connected. */
bool storing_is_over(struct storing *s);

/* done is called from the loop once s is freed. */
void storing_close(struct storing *s, void (*done)(void *arg), void *arg);

#endif
