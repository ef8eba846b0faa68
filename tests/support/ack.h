/* Acks of wsonce.ack.v1, parsed as JSON. A malformed ack fails the test. */
#ifndef SUPPORT_ACK_H
#define SUPPORT_ACK_H

struct peer;

struct ack {
	char *event_id; /* NULL for JSON's null */
	char *status;   /* persisted, duplicate or rejected */
	char *reason;   /* only if rejected; else NULL */
	long n;         /* the message's number on its connection, from 1 */
};

/* The next ack; fails the test if there is none within deadline_ms (stretched). */
struct ack *ack_read(struct peer *p, int deadline_ms);

/* Requires that the next ack has this id (NULL for null) and status; waits up to 10 s (stretched). */
void ack_expect(struct peer *p, const char *event_id, const char *status);

/* Requires that the next ack rejects this id, for a reason that contains this text. */
void ack_expect_rejected(struct peer *p, const char *event_id, const char *reason);

#endif
