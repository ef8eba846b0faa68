/* wire.h: bytes to and from one server, in the clear or by TLS. */
#ifndef WSONCE_REDIS_WIRE_H
#define WSONCE_REDIS_WIRE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/tls.h"

struct wire;

/* All are called from the loop, with arg. Each may close the wire. */
struct wire_callbacks {
	/* Bytes may be sent: what is written here goes at once. */
	void (*on_open)(void *arg);
	/* Returns false if it has closed the wire. bytes live for the call. */
	bool (*on_bytes)(void *arg, const char *bytes, size_t len);
	/* It is broken, and to be closed. why lives as long as the wire. */
	void (*on_fault)(void *arg, const char *why);
	void *arg;
};

/* Begins to connect to an address and port, or, without an address, to the socket at path. trust: whom TLS trusts, and
 * host is the name that the certificate must have; NULL: no TLS. NULL if it cannot be begun; *why then says why. */
struct wire *wire_open(uv_loop_t *loop, const char *address, int port, const char *path,
		       const struct wire_callbacks *callbacks, char *why, size_t size);
int wire_use_tls(struct wire *w, const struct tls_trust *trust, const char *host);

/* Reads answers. What it makes of them is for its owner to say. */
redisReader *wire_reader(const struct wire *w);

/* Keeps bytes, which are copied, for wire_flush(). */
void wire_write(struct wire *w, const char *bytes, size_t len);

/* Sends what the socket takes; the rest goes when it can. Calls on_fault if it is broken. To be called before each wait
 * for I/O. */
void wire_flush(struct wire *w);

void wire_close(struct wire *w);

#endif
