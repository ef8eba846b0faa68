/* service_manager.h: what a listener tells systemd, if that started it with Type=notify. */
#ifndef WSONCE_SERVICE_MANAGER_H
#define WSONCE_SERVICE_MANAGER_H

#include <uv.h>

struct service_manager;

/* Says READY=1, and from then on WATCHDOG=1 twice in each WATCHDOG_USEC, from the loop: a loop that hangs is silent.
 * Returns NULL if there is no NOTIFY_SOCKET, which the other functions take. */
struct service_manager *service_manager_open(uv_loop_t *loop);

/* Sends fields as sd_notify(3) has them, separated by newlines, such as "STOPPING=1". They are copied. If the socket is
 * full, they are sent later, from the loop, in their order. What it refuses is left unsaid. */
void service_manager_tell(struct service_manager *m, const char *fields);

/* Nothing is said any more. The loop must be run until it has nothing more to do. */
void service_manager_close(struct service_manager *m);

/* After the loop has ended. */
void service_manager_free(struct service_manager *m);

#endif
