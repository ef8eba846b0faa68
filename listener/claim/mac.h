/* mac.h: message authentication codes, which prove that a listener of the fleet wrote a mark in Redis. */
#ifndef WSONCE_MAC_H
#define WSONCE_MAC_H

#include <stdbool.h>
#include <stddef.h>

#define MAC_LEN 33 /* a slash and 16 bytes in hex */

struct mac_key {
	unsigned char bytes[32];
};

/* The Redis key that has the mark as its value. */
struct mac_place {
	const char *prefix;
	size_t prefix_len;
	const char *id;
	size_t id_len;
};

/* Derives the secret key from a text that all listeners share. */
void mac_key_make(struct mac_key *key, const char *text);

/* Appends the MAC of a mark (len bytes at text), which must have room for MAC_LEN more. Returns the new length. */
size_t mac_append(const struct mac_key *key, const struct mac_place *place, char *text, size_t len);

/* True if this value ends in its MAC. Compares in constant time. */
bool mac_is_right(const struct mac_key *key, const struct mac_place *place, const char *value, size_t len);

#endif
