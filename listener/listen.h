/* listen.h: the command `wsonce listen`. */
#ifndef WSONCE_LISTEN_H
#define WSONCE_LISTEN_H

#include <stdbool.h>

#include "config/config.h"

/* From here on SIGHUP waits until listen_run() can take it, or does so no more. */
void listen_hold_hangups(bool is_held);

/* Runs a listener until it is told to stop by SIGTERM or SIGINT. Returns the exit status: 0 if
 * nothing was left in memory, 1 otherwise or if it could not start. Lowers the number of producers in
 * config to what the limit of open files allows. argc and argv are what config was read from, and will be again on
 * SIGHUP. */
int listen_run(struct config *config, int argc, char **argv);

#endif
