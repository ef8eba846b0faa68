/* arrival.h: how much of what was written to a socket has arrived. */
#ifndef WSONCE_ARRIVAL_H
#define WSONCE_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct arrival {
	uint64_t bytes;   /* acknowledged by the other side's kernel, ever */
	bool is_complete; /* nothing written is still on its way */
};

/* Of a connected TCP socket. One that cannot be asked has got nothing and expects nothing. */
struct arrival arrival_of(int socket);

#endif
