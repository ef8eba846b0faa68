/* addresses.h: what the listener remembers about each address that producers connect from. */
#ifndef WSONCE_ADDRESSES_H
#define WSONCE_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_FAILURES 5     /* wrong tokens in a row before 429 */
#define ADDRESS_SPELL_MS 60000 /* the count restarts this long after the last wrong token */

struct addresses;
struct address;

/* flag is the setting of their port, for the log; it is not copied. */
struct addresses *addresses_new(const char *flag);
void addresses_free(struct addresses *a);

/* Counts a new socket from this address as a handshake. key is from port_peer_key(). Returns the entry to pass to
 * addresses_leave; NULL for key 0. */
struct address *addresses_enter(struct addresses *a, uint64_t key);

/* Call when a handshake of the address has ended, successful or not. NULL is allowed. */
void addresses_shaken(struct address *address);

/* Call when a socket is closed whose handshake had ended. NULL is allowed. */
void addresses_leave(struct addresses *a, struct address *address);

/* Counts a wrong token. now_ms is the loop clock. Returns true if the address has sent too many, so the answer is 429;
 * this is logged once until the count restarts, for 20 addresses a minute. Returns false for NULL. */
bool addresses_blame(struct addresses *a, struct address *address, int64_t now_ms);

/* Returns the address's debt for garbage, which post.c maintains. The entry is kept while the address has a socket, and
 * for some time after that unless the debt is 0. */
int64_t *address_debt(struct address *address);

/* Returns its key; 0 for NULL. */
uint64_t address_key(const struct address *address);

/* Return its number of sockets in the handshake, and past it; 0 for NULL. */
size_t address_handshakes(const struct address *address);
size_t address_producers(const struct address *address);

#endif
