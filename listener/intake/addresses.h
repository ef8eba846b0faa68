/* addresses.h: what the listener remembers about each address that producers connect from. */
#ifndef WSONCE_ADDRESSES_H
#define WSONCE_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_FAILURES 5     /* wrong tokens allowed in a row before 429 */
#define ADDRESS_SPELL_MS 60000 /* the count restarts this long after the last wrong token */

struct addresses;
struct address;

struct addresses *addresses_new(void);
void addresses_free(struct addresses *a);

/* Counts a new socket from this address as a handshake. key is from port_peer_key(). Returns the entry to pass to
 * addresses_leave; NULL for key 0. */
struct address *addresses_enter(struct addresses *a, uint64_t key);

/* One of its handshakes has ended, whether it succeeded or not. NULL is allowed. */
void addresses_shaken(struct address *address);

/* One of its sockets whose handshake had ended is closed. NULL is allowed. */
void addresses_leave(struct addresses *a, struct address *address);

/* Counts a wrong token. now_ms is the loop clock. Returns true if the address had too many already: answer 429 then.
 * This is logged once until the count restarts. Returns false for NULL. */
bool addresses_blame(struct address *address, int64_t now_ms);

/* The debt that post.c keeps for this address. It lives as long as the address has a socket, and a while longer unless
 * it is 0. */
int64_t *address_debt(struct address *address);

/* Its sockets in the handshake, and those past it; 0 for NULL. */
size_t address_handshakes(const struct address *address);
size_t address_producers(const struct address *address);

#endif
