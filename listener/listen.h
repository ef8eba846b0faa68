/* listen.h: the command `wsonce listen`. */
#ifndef WSONCE_LISTEN_H
#define WSONCE_LISTEN_H

#include <stdbool.h>

#include "config/config.h"

/* Blocks SIGHUP until listen_run() can handle it, or unblocks it. */
void listen_hold_hangups(bool is_held);

/* Runs a listener until SIGTERM or SIGINT. Returns the exit status: 0 if no event was left in memory, 1 if some were or
 * if it cannot start. Lowers the number of producers in config to what the limit of open files allows. argc and argv
 * are the command line that config was read from; it is read again on SIGHUP. */
int listen_run(struct config *config, int argc, char **argv);

#endif
