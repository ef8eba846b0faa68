/* link.h: connections to ingest endpoints, each with a window of messages under way. */
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

/* Where an endpoint is. */
struct link_target {
	char host[256];
	int port;
	char path[512];
};

struct links_settings {
	const struct link_target *targets;
	unsigned int targets_count;
	unsigned int connections; /* over all targets, in turns */
	unsigned int window;      /* most messages without ack, per connection */
	bool wants_acks;          /* false: what is written counts as settled */
	const char *token;        /* for Authorization: Bearer; NULL = none */
	double retry_after_s;     /* what has no ack after this is sent again */
	struct message_form form;
	uint64_t seed; /* of masks and waiting times */
};

struct links_counts {
	uint64_t messages;   /* written, resends included */
	uint64_t resends;    /* messages that were written before */
	uint64_t moved;      /* messages that changed their connection, as theirs was down */
	uint64_t connects;   /* handshakes done */
	uint64_t reconnects; /* of them, those that were not a connection's first */
	uint64_t refusals;   /* attempts that did not lead to a connection */
	uint64_t stray_acks; /* for nothing that was under way, such as a second ack after a resend */
	uint64_t bad_acks;   /* that could not be read */
};

/* m was acked, and is freed after the call. now_ns is when the ack was read. Where acks are not
 * wanted, ack is NULL, and now_ns is when m was written. May call
 * links_offer(), not links_close(). */
typedef void links_acked_cb(void *arg, const struct sending *m, const struct ack *ack, int64_t now_ns);

/* A connection has come up, an ack was read, or messages were written that get none: there may be
 * room. The same rules. */
typedef void links_room_cb(void *arg);

/* Reads ws://HOST[:PORT][/PATH] (80, /events). Returns -1 if url is something else. */
int link_read_url(const char *url, struct link_target *target);

/* Connects, and reconnects until links_close(). NULL if that cannot be begun. What settings point
 * to must live on. */
struct links *links_open(uv_loop_t *loop, const struct links_settings *settings, links_acked_cb *acked,
			 links_room_cb *room, void *arg);

/* Whether some connection is up and its window not full. */
bool links_has_room(const struct links *l);

/* Gives a message to such a connection, in turns. Returns -1 when there is no memory. */
int links_offer(struct links *l, const struct script_step *step, int64_t planned_ns);

/* Messages that were offered and not acked. */
uint64_t links_under_way(const struct links *l);
unsigned int links_ready(const struct links *l);
const struct links_counts *links_counts(const struct links *l);

/* Why the last attempt to connect failed; "" if none did. */
const char *links_trouble(const struct links *l);

/* Sends again what waits too long. To be called some ten times a second. */
void links_check(struct links *l, int64_t now_ns);

/* Says goodbye with code 1000 to who is connected; links_ready() tells when all are gone. */
void links_say_goodbye(struct links *l);

/* Cuts what is left. It is done when the loop has nothing to do any more; then links_free(). */
void links_close(struct links *l);
void links_free(struct links *l);

#endif
