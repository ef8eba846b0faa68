/* cancel.h: drops a connection to a server that does not answer. */
#ifndef WSONCE_CANCEL_H
#define WSONCE_CANCEL_H

#include <libpq-fe.h>

/* Asks the server to cancel the current statement, and closes the connection. Takes ownership of conn; stop watching
 * its socket first. Runs in a thread, since the server may not accept the request. While several such threads wait,
 * closes further connections without a request. */
void postgres_cancel(PGconn *conn);

#endif
