/* wire.h: bytes to and from one server, with or without TLS. */
#ifndef WSONCE_REDIS_WIRE_H
#define WSONCE_REDIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/tls.h"

struct wire;

/* All are called from the loop, with arg. Each may close the wire. */
struct wire_callbacks {
	/* The wire is connected. Bytes written from inside this callback go out at once. */
	void (*on_open)(void *arg);
	/* Received bytes, valid during the call. Returns false if it has closed the wire. */
	bool (*on_bytes)(void *arg, const char *bytes, size_t len);
	/* The wire is broken; close it. why is valid as long as the wire. */
	void (*on_fault)(void *arg, const char *why);
	void *arg;
};

/* Begins to connect to address and port or, if address is NULL, to the socket at path. Returns NULL with the reason in
 * why if it cannot begin. With trust, uses TLS, and the server must have a certificate for host. */
struct wire *wire_open(uv_loop_t *loop, const char *address, int port, const char *path, const struct tls_trust *trust,
		       const char *host, const struct wire_callbacks *callbacks, char *why, size_t size);

/* Copies bytes, for wire_flush() to send. */
void wire_write(struct wire *w, const char *bytes, size_t len);

/* Sends what the socket takes now, and the rest later. Calls on_fault if the wire is broken. Call it before waiting for
 * I/O. */
void wire_flush(struct wire *w);

void wire_close(struct wire *w);

#endif
