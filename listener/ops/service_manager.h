/* service_manager.h: notifications to systemd, for units with Type=notify. */
#ifndef WSONCE_SERVICE_MANAGER_H
#define WSONCE_SERVICE_MANAGER_H

#include <uv.h>

struct service_manager;

/* Sends READY=1, then WATCHDOG=1 twice per WATCHDOG_USEC from the loop, so that the watchdog notices a hung loop.
 * Returns NULL without NOTIFY_SOCKET; the other functions accept NULL. */
struct service_manager *service_manager_open(uv_loop_t *loop);

/* Sends fields in the format of sd_notify(3), such as "STOPPING=1", separated by newlines. Copies them. If the socket
 * is full, they are sent later from the loop, in order. Other errors are ignored. */
void service_manager_tell(struct service_manager *m, const char *fields);

/* Sends nothing more. Run the loop until it is done, then call service_manager_free. */
void service_manager_close(struct service_manager *m);

void service_manager_free(struct service_manager *m);

#endif
