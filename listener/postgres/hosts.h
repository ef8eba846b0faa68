/* hosts.h: the hosts in a conninfo. Each connection tries one of them. */
#ifndef WSONCE_HOSTS_H
#define WSONCE_HOSTS_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#define HOSTS_MUTE 16 /* more hosts share counts */

/* The lists are comma separated, as in libpq, or NULL. */
struct hosts {
	char *host;
	char *hostaddr;
	char *port;
	size_t count;                  /* 0 if not known yet */
	size_t at;                     /* index of the host to try next */
	int64_t timeout_ms;            /* connect_timeout, or 0 */
	unsigned int mute[HOSTS_MUTE]; /* by index: attempts that were not answered since the last success */
};

/* Reads the hosts from conninfo, the environment, or a service file. */
void hosts_learn(struct hosts *h, const char *conninfo);
void hosts_free(struct hosts *h);

/* Returns the current host's element of a list, on the heap; NULL if list is NULL. */
char *hosts_pick(const struct hosts *h, const char *list);
/* Returns the current host's name, on the heap; NULL if it is an address or the folder of a socket. */
char *hosts_to_look_up(const struct hosts *h);
/* Appends the current host to the lists of to, once for each of its addresses, which are separated by spaces; once if
 * addresses is NULL: then it needs none. Does not count them. */
void hosts_append(struct hosts *to, const struct hosts *h, const char *addresses);

#endif
