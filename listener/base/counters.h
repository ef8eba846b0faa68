/* counters.h: the counters of this process, from one list, and its two histograms. */
#ifndef WSONCE_COUNTERS_H
#define WSONCE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* At any moment, received = persisted + duplicates + dead_lettered + in flight. The pipeline knows how many are in
 * flight. */
#define COUNTERS(X) \
	X(received, "Messages received, from sources and producers.") \
	X(persisted, "Messages whose row this listener inserted.") \
	X(duplicates, "Messages whose event was already committed, or in flight in this process.") \
	X(dead_lettered, "Messages recorded as dead letters, and copies of them.") \
	X(stale, "Messages refused because their time was older than --max-age, or could not be read.") \
	X(times_unread, "Events stored without their time, because it could not be read.") \
	X(coalesced, "Messages that joined an event already in flight in this process.") \
	X(variants, "Messages with the id of an event in flight in this process, but other bytes.") \
	X(received_bytes, "Bytes of received messages.") \
	X(claims_won, "Claims that this listener won.") \
	X(claims_lost, "Claims that another listener held.") \
	X(claims_done, "Claims answered by a done or dead mark.") \
	X(marks_past, "Marks ignored because they are from another epoch of the database.") \
	X(marks_unsealed, "Marks ignored because they lack a MAC by the key of --marks-key-file.") \
	X(claims_skipped, "Events sent to the store without asking Redis, or without its answer.") \
	X(claims_renewed, "Leases extended while their events were in flight.") \
	X(claims_expired, "Own claims found missing when they were renewed.") \
	X(claims_released, "Own claims released after a failed store or at shutdown.") \
	X(claims_taken_over, "Held events whose claim another listener had given up.") \
	X(claims_inherited, "Held events whose claim was taken over because its owner was found dead.") \
	X(holds, "Events held because another listener had claimed them.") \
	X(deferred, "Events left to the leader of their source.") \
	X(done_told, "Copies settled because another listener announced its commit on the done channel.") \
	X(deferred_in_vain, "Deferred events that their leader had not claimed.") \
	X(hold_timeouts, "Held events sent to the store after twice the claim TTL.") \
	X(batches, "INSERT and COPY statements that succeeded.") \
	X(copy_statements, "Batches stored by COPY.") \
	X(copy_statements_refused, \
	  "Batches that COPY refused because of an existing row, a bad row or a deadlock, and INSERT stored.") \
	X(batch_splits, "Batches split to isolate a row that Postgres refused.") \
	X(rows_refused, "Rows that Postgres refused. Every try counts.") \
	X(rows_put_off, \
	  "Events put off because Postgres could not store them, probably for a reason outside the event.") \
	X(store_retries, "Batches sent again after an error of the connection or the server.") \
	X(acks_sent, "Acks sent to producers.") \
	X(acks_late, "Acks sent later than their profile's ack_deadline_ms.") \
	X(source_connects, "Connections made to sources.") \
	X(source_disconnects, "Connections to sources that ended or failed.") \
	X(source_silences, "Connections to sources closed because other listeners heard messages there.") \
	X(fill_calls, "HTTP calls for events that sources did not send.") \
	X(fill_events, "Events in the answers to these calls.") \
	X(fills_failed, "Holes that these calls filled only partly or not at all.") \
	X(ingest_connects, "Connections accepted from producers.") \
	X(ingest_refused, "Connections of producers refused: token, origin, path, limit or handshake time.") \
	X(ingest_posts, "Requests of producers (POST /events) that were accepted.") \
	X(ingest_slowed, "Wrong tokens answered with 429, because too many had come from the address.") \
	X(ingest_displaced, "Connections closed before they became WebSockets, to make room for newer ones.") \
	X(ingest_rests, "Times that reading from a producer paused because most of its messages were not events.") \
	X(ingest_ended, "Producers disconnected because most of their messages were not events.") \
	X(ingest_unfinished, \
	  "Connections of producers closed because unfinished messages held too much memory or took too long.") \
	X(redis_connects, "Connections made to Redis.") \
	X(redis_errors, "Error answers from Redis to claim commands.") \
	X(postgres_connects, "Connections made to Postgres.") \
	X(relay_rounds, "Statements that leased deliveries from the outbox or recorded attempts.") \
	X(relay_retries, "Statements on the outbox that failed.") \
	X(ingest_pauses, "Times that reading from producers paused because they had filled their share of memory.") \
	X(pauses, "Times that all reading paused at the memory limit.") \
	X(spooled, "Events written to the spool.") \
	X(unspooled, "Events that came back from the spool.") \
	X(spool_lost, "Events in the spool that could not be read again.") \
	X(reloads, "Reloads of settings, tokens and certificates (SIGHUP) that took effect.") \
	X(reloads_failed, "Reloads that an error stopped, so that nothing changed.")

struct counters {
#define X(name, meaning) uint64_t name;
	COUNTERS(X)
#undef X
};

/* Each thread has its own counters. Those of the loop's thread are reported; callers add to them directly. */
extern _Thread_local struct counters counters;

extern bool has_reload_failed; /* the last one */

/* Upper bounds of the histogram buckets in milliseconds. The last bucket has none. */
/* clang-format off */
#define HISTOGRAM_BOUNDS_MS {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000}
/* clang-format on */
#define HISTOGRAM_BUCKETS 17

struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS]; /* not cumulative */
	uint64_t count;
	double sum_ms;
};

extern struct histogram commit_latency;  /* from message received to row committed */
extern struct histogram duplicate_delay; /* from the claim of the original to the arrival of a copy */

/* Records one observation. A negative value, which differing clocks of two hosts can cause, counts as 0. */
void histogram_observe(struct histogram *h, double ms);

/* Calls put once for each counter, in the order of the list. */
void counters_each(void (*put)(void *arg, const char *name, const char *meaning, uint64_t value), void *arg);

#endif
