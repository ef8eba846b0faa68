/* cancel.c closes connections in the middle of a statement. A backend that waits for a lock does not notice that its
 * client is gone; without a cancel request, each retry would leave one more backend behind. */
#include "postgres/cancel.h"

#include <pthread.h>
#include <stdatomic.h>

#define WAITING_MAX 4

static atomic_int waiting;

static void *cancel(void *arg)
{
	PGconn *conn = arg;
	PGcancel *request = PQgetCancel(conn);
	char error[256];

	if (request)
		PQcancel(request, error, sizeof(error));
	PQfreeCancel(request);
	PQfinish(conn);
	atomic_fetch_sub(&waiting, 1);
	return NULL;
}

static int start(PGconn *conn)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, cancel, conn))
		return -1;
	pthread_detach(thread);
	return 0;
}

void postgres_cancel(PGconn *conn)
{
	if (atomic_fetch_add(&waiting, 1) < WAITING_MAX && start(conn) == 0)
		return;
	atomic_fetch_sub(&waiting, 1);
	PQfinish(conn);
}
