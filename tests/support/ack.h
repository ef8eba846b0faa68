/* What a producer of wsonce.ack.v1 is told, read as JSON. A wrong shape fails the test. */
#ifndef SUPPORT_ACK_H
#define SUPPORT_ACK_H

struct peer;

struct ack {
	char *event_id; /* NULL for JSON's null */
	char *status;   /* persisted, duplicate or rejected */
	char *reason;   /* with rejected only; else NULL */
	long n;         /* the message's number on its connection, from 1 */
};

/* The next ack, within deadline_ms (stretched); none fails the test. */
struct ack *ack_read(struct peer *p, int deadline_ms);

/* The next ack is for this id (NULL: null) and says this status; waits up to 10 s (stretched). */
void ack_expect(struct peer *p, const char *event_id, const char *status);

/* The next ack says rejected, of this id, for a reason that holds this text. */
void ack_expect_rejected(struct peer *p, const char *event_id, const char *reason);

#endif
