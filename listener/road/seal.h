/* seal.h: what shows that a mark in Redis was written by a listener of the fleet. */
#ifndef WSONCE_SEAL_H
#define WSONCE_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#define SEAL_LEN 33 /* of a seal: a slash, and 16 bytes in hex */

struct seal_key {
	unsigned char bytes[32];
};

/* Of which key in Redis a mark is the value. */
struct seal_place {
	const char *prefix;
	size_t prefix_len;
	const char *id;
	size_t id_len;
};

/* Makes a key of a text that the listeners share. */
void seal_key_make(struct seal_key *key, const char *text);

/* Writes the seal of a mark, len bytes at text, behind it; there is room for SEAL_LEN more. Returns the new length. */
size_t seal_put(const struct seal_key *key, const struct seal_place *place, char *text, size_t len);

/* Does this value end in its seal? Takes a time that does not depend on where the seal is wrong. */
bool seal_is_right(const struct seal_key *key, const struct seal_place *place, const char *value, size_t len);

#endif
