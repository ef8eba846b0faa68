/* counters.h: what this process counts, from one described list, and its two histograms. */
#ifndef WSONCE_COUNTERS_H
#define WSONCE_COUNTERS_H

#include <stdint.h>

/* received = persisted + duplicates + dead_lettered + in flight, at any moment: each received
 * message is in exactly one of the four. in flight is the pipeline's to know. */
#define COUNTERS(X) \
	X(received, "Messages received, from sources and producers.") \
	X(persisted, "Messages whose row this listener inserted.") \
	X(duplicates, \
	  "Messages of events that were committed already, or that came again while the first was at work.") \
	X(dead_lettered, "Messages recorded as dead letters, or copies of such.") \
	X(stale, "Messages refused because of their time: older than --max-age, or none that could be read.") \
	X(coalesced, "Messages that joined an event already at work in this process.") \
	X(variants, "Messages with the id of an event at work in this process, and other bytes.") \
	X(received_bytes, "Bytes of received messages.") \
	X(claims_won, "Claims that this listener got.") \
	X(claims_lost, "Claims that another listener held.") \
	X(claims_done, "Claims answered by a done or dead mark.") \
	X(marks_past, "Marks of another epoch of the database, which are not believed.") \
	X(marks_unsealed, "Marks without the seal of --marks-key-file, which are not believed.") \
	X(claims_skipped, "Events sent to the store without asking Redis, or without its answer.") \
	X(claims_renewed, "Leases extended while work went on.") \
	X(claims_expired, "Own claims found gone when they were to be renewed.") \
	X(claims_released, "Own claims given back after a failed store or at the end.") \
	X(claims_taken_over, "Held events whose claim was found gone.") \
	X(claims_inherited, "Held events whose claim was to be taken over because its owner was found dead.") \
	X(holds, "Events held because another listener had claimed them.") \
	X(deferred, "Events left to the instance that is preferred for them, to be looked at later.") \
	X(done_logged, "Held events that settled by the log of commits that large fleets keep.") \
	X(turns_saved, \
	  "Events left to others while Redis was away, whose rows were found among the newest in the table.") \
	X(deferred_in_vain, "Deferred events that nobody had claimed when they were looked at.") \
	X(hold_timeouts, "Held events sent to the store after twice the claim TTL.") \
	X(batches, "INSERT and COPY statements that succeeded.") \
	X(copy_statements, "Batches stored by COPY.") \
	X(copy_statements_refused, \
	  "Batches that COPY refused, for a row that was there, a bad one or a deadlock, and INSERT stored.") \
	X(batch_splits, "Batches split to isolate a row that Postgres refused.") \
	X(rows_refused, "Rows that Postgres refused, each try counted.") \
	X(rows_put_off, \
	  "Events put off because Postgres could not store them, for no fault of theirs as far as is known.") \
	X(store_retries, "Batches sent again after trouble with the connection or the server.") \
	X(acks_sent, "Acks sent to producers.") \
	X(acks_late, "Acks that went out later than their profile's ack_deadline_ms.") \
	X(source_connects, "Connections made to sources.") \
	X(source_disconnects, "Connections to sources that ended or could not be made.") \
	X(ingest_connects, "Connections accepted from producers.") \
	X(ingest_refused, "Connections of producers refused: token, origin, path, limit or handshake time.") \
	X(ingest_posts, "Requests of producers (POST /events) that were taken.") \
	X(ingest_slowed, "Wrong tokens answered by 429, as too many had come from the address.") \
	X(ingest_displaced, "Connections ended before they were WebSockets to make room for newer ones.") \
	X(ingest_rests, \
	  "Times that a producer was not read from for a while, since most of what it sent was no event.") \
	X(ingest_ended, "Producers that were disconnected for the same reason.") \
	X(ingest_unfinished, \
	  "Connections of producers ended because unfinished messages held too much, or took too long.") \
	X(redis_connects, "Connections made to Redis.") \
	X(redis_errors, "Error answers from Redis to claim commands.") \
	X(postgres_connects, "Connections made to Postgres.") \
	X(relay_rounds, "Looks at the outbox, with records of attempts.") \
	X(relay_retries, "Looks at the outbox that Postgres could not do.") \
	X(ingest_pauses, "Times that producers were not read from because they filled their part of the memory.") \
	X(pauses, "Times that reading stopped at the memory limit.") \
	X(reloads, "Times that settings, tokens and certificates were read again (SIGHUP) and put to use.") \
	X(reloads_failed, "Times that an error in what was read again left everything as it was.")

struct counters {
#define X(name, meaning) uint64_t name;
	COUNTERS(X)
#undef X
};

/* The process has one set of counters; everybody adds to it directly. */
extern struct counters counters;

/* Upper bounds of the histograms' buckets in milliseconds; the last bucket has none. */
/* clang-format off */
#define HISTOGRAM_BOUNDS_MS {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000}
/* clang-format on */
#define HISTOGRAM_BUCKETS 17

struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS]; /* not cumulative */
	uint64_t count;
	double sum_ms;
};

extern struct histogram commit_latency;  /* message received to row committed */
extern struct histogram duplicate_delay; /* claim of the original to arrival of a copy */

/* Records one observation; a negative one (clocks of two hosts differ) counts as 0. */
void histogram_observe(struct histogram *h, double ms);

/* Calls put once for each counter, in the order of the list. */
void counters_each(void (*put)(void *arg, const char *name, const char *meaning, uint64_t value), void *arg);

#endif
