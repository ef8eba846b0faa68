/* link.h: connections to ingest endpoints, each with a window of messages that await their acks. */
#ifndef WSONCE_LINK_H
#define WSONCE_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "ack.h"
#include "message.h"
#include "script.h"

struct links;
struct sending;

/* The address of an endpoint. */
struct link_target {
	char host[256];
	int port;
	char path[512];
};

struct links_settings {
	const struct link_target *targets;
	unsigned int targets_count;
	unsigned int connections; /* in total, spread over the targets round-robin */
	unsigned int window;      /* maximum of unacked messages per connection */
	bool wants_acks;          /* false: a message is settled once written */
	const char *token;        /* for Authorization: Bearer; NULL if none */
	double retry_after_s;     /* resend a message without ack after this */
	struct message_form form;
	uint64_t seed; /* for masks and reconnect delays */
};

struct links_counts {
	uint64_t messages;   /* written, resends included */
	uint64_t resends;    /* messages written again */
	uint64_t moved;      /* messages moved to another connection because theirs was down */
	uint64_t connects;   /* completed handshakes */
	uint64_t reconnects; /* of these, all but the first of each connection */
	uint64_t refusals;   /* failed attempts to connect */
	uint64_t stray_acks; /* for no pending message, such as a second ack after a resend */
	uint64_t bad_acks;   /* acks that could not be parsed */
};

/* m was acked; it is freed after the call. now_ns is when the ack was read. Without acks, ack is NULL
 * and now_ns is when m was written. May call links_offer(), not links_close(). */
typedef void links_acked_cb(void *arg, const struct sending *m, const struct ack *ack, int64_t now_ns);

/* There may be room: a connection is up, an ack was read, or messages without acks were written.
 * May call links_offer(), not links_close(). */
typedef void links_room_cb(void *arg);

/* Parses ws://HOST[:PORT][/PATH]; the defaults are 80 and /events. Returns -1 if url has another form. */
int link_read_url(const char *url, struct link_target *target);

/* Connects, and reconnects until links_close(). NULL if it cannot start. The data that settings point
 * to must outlive the links. */
struct links *links_open(uv_loop_t *loop, const struct links_settings *settings, links_acked_cb *acked,
			 links_room_cb *room, void *arg);

/* True if a connection is up whose window is not full. */
bool links_has_room(const struct links *l);

/* Gives a message to such a connection, round-robin. Returns -1 if out of memory. */
int links_offer(struct links *l, const struct script_step *step, int64_t planned_ns);

/* Messages offered and not acked yet. */
uint64_t links_under_way(const struct links *l);
unsigned int links_ready(const struct links *l);
const struct links_counts *links_counts(const struct links *l);

/* Why the last attempt to connect failed; "" if none did. */
const char *links_trouble(const struct links *l);

/* Resends messages that have waited too long. Call about ten times a second. */
void links_check(struct links *l, int64_t now_ns);

/* Closes all connections with code 1000; links_ready() is 0 when all are closed. */
void links_say_goodbye(struct links *l);

/* Drops the remaining connections. Run the loop until it is done, then call links_free(). */
void links_close(struct links *l);
void links_free(struct links *l);

#endif
