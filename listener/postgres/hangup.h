/* hangup.h: leaves a connection whose server does not answer. */
#ifndef WSONCE_HANGUP_H
#define WSONCE_HANGUP_H

#include <libpq-fe.h>

/* Asks the server to cancel what it is doing for this connection, and closes it. The connection is given away, and
 * its socket must not be watched any more. Both happen in a thread, since the server may not take the request;
 * while a few of them wait, further connections are closed without a request. */
void hangup(PGconn *conn);

#endif
