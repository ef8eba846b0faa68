/* listen.h: the command `wsonce listen`. */
#ifndef WSONCE_LISTEN_H
#define WSONCE_LISTEN_H

#include "config/config.h"

/* Runs a listener until it is told to stop by SIGTERM or SIGINT. Returns the exit status: 0 if
 * nothing was left in memory, 1 otherwise or if it could not start. Lowers the number of producers in
 * config to what the limit of open files allows. */
int listen_run(struct config *config);

#endif
