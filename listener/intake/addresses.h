/* addresses.h: what is known of each address that producers come from. */
#ifndef WSONCE_ADDRESSES_H
#define WSONCE_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_FAILURES 5     /* wrong tokens in a spell, after which an address has too many; */
#define ADDRESS_SPELL_MS 60000 /* the spell ends so long after the last */

struct addresses;
struct address;

struct addresses *addresses_new(void);
void addresses_free(struct addresses *a);

/* Counts a socket of this address, as port_peer_key() has it, as a handshake. Returns what addresses_leave is to be
 * given; NULL for key 0. */
struct address *addresses_enter(struct addresses *a, uint64_t key);

/* One of its handshakes has ended, well or not. NULL is allowed. */
void addresses_shaken(struct address *address);

/* A socket of it is gone, which is not a handshake any more. NULL is allowed. */
void addresses_leave(struct addresses *a, struct address *address);

/* A token was wrong. now_ms is the loop clock. Returns whether the address had too many already, so that it is to be
 * answered by 429; that is logged once in a spell. NULL is allowed: false. */
bool addresses_blame(struct address *address, int64_t now_ms);

/* What post.c keeps of its patience; lives as long as the address has a socket, and a while longer unless it is 0. */
int64_t *address_debt(struct address *address);

/* Its handshakes, and its sockets that are not handshakes any more; 0 for NULL. */
size_t address_handshakes(const struct address *address);
size_t address_producers(const struct address *address);

#endif
