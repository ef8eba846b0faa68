/* unpack.h: inflates messages. Each is compressed on its own. */
#ifndef WSONCE_UNPACK_H
#define WSONCE_UNPACK_H

#include "base/slice.h"
#include "config/profile.h"

struct unpack;

/* coding is not BINARY_PLAIN. The dictionary, for zstd, is copied; at is NULL if absent. Returns NULL if it is
 * damaged. */
struct unpack *unpack_new(enum profile_binary coding, struct slice dictionary);
/* NULL is allowed. */
void unpack_free(struct unpack *u);

/* What unpack returns if the message inflates to more than `most` bytes. */
extern const char unpack_is_bomb[];

/* Inflates a whole message of at most `most` bytes, points it to the result and returns NULL; or leaves it alone and
 * returns why it cannot. The caller frees *inflated in both cases. */
const char *unpack(struct unpack *u, struct slice *message, size_t most, char **inflated);

#endif
