/* listen.h: the command `wsonce listen`. */
#ifndef WSONCE_LISTEN_H
#define WSONCE_LISTEN_H

#include <stdbool.h>

/* Blocks SIGHUP until a listener can handle it, or unblocks it. */
void listen_block_sighup(bool is_blocked);

#endif
