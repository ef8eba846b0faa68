/* arrival.h: how many bytes written to a socket have arrived. */
#ifndef WSONCE_ARRIVAL_H
#define WSONCE_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct arrival {
	uint64_t bytes;   /* acknowledged by the other side's kernel, ever */
	bool is_complete; /* everything written has been acknowledged */
};

/* For a connected TCP socket. If the kernel does not know, the result is 0 bytes, complete. */
struct arrival arrival_of(int socket);

#endif
