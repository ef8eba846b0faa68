/* ack.h: the answer to one message in the subprotocol wsonce.ack.v1. */
#ifndef WSONCE_ACK_H
#define WSONCE_ACK_H

#include <stddef.h>

#define ACK_PROTOCOL "wsonce.ack.v1"

enum ack_status { ACK_PERSISTED, ACK_DUPLICATE, ACK_REJECTED, ACK_STATUSES };

struct json_t;

struct ack {
	enum ack_status status;
	const char *id; /* NULL: the message had none that could be read */
	size_t id_len;
	const char *reason;  /* NULL: none was given */
	struct json_t *tree; /* owns id and reason, or NULL when id points into the text */
};

const char *ack_name(enum ack_status status);

/* Parses an ack; -1 if text is not one. On success the text must live until ack_free(). */
int ack_read(const char *text, size_t len, struct ack *ack);

void ack_free(struct ack *ack);

#endif
