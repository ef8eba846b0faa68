/* watch.h: sees the events of libwebsockets' sockets before libwebsockets does. */
#ifndef WSONCE_WATCH_H
#define WSONCE_WATCH_H

#include <stdbool.h>
#include <uv.h>

/* One socket; a member of its owner's struct. All zeros: not watched. */
struct watch {
	int fd;
	uv_poll_t *poll; /* made by libwebsockets; NULL: not watched */
	/* Called for each event, with libuv's status and events, which it may change. Returns true if libwebsockets
	 * gets them. May end the watch. */
	bool (*on_poll)(struct watch *w, int *status, int *events);
	void (*on_served)(struct watch *w); /* NULL; or called after libwebsockets. May end the watch */
};

/* Begins to watch a socket for which libwebsockets waits; another watch of the same socket ends.
 * on_served is NULL: set it afterwards. */
void watch_begin(struct watch *w, uv_loop_t *loop, int fd, bool (*cb)(struct watch *w, int *status, int *events));

/* Call after anything that may make libwebsockets wait for other events, because it then restores its own callback. */
void watch_hook(struct watch *w);

void watch_end(struct watch *w);

/* Returns the watch of a socket, or NULL. */
struct watch *watch_of(int fd);

/* Ends all watches. */
void watch_end_all(void);

#endif
