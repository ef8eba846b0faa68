/* secrets.h: the values behind ${env:X} and ${file:P} of a profile, kept out of what others can read. */
#ifndef WSONCE_FEED_SECRETS_H
#define WSONCE_FEED_SECRETS_H

#include <jansson.h>

struct secrets;

/* Those that are named anywhere in a profile, as they are now. */
struct secrets *secrets_new(const json_t *profile);
void secrets_free(struct secrets *s);

/* One more, such as a token that a server gave. */
void secrets_add(struct secrets *s, const char *text, size_t len);

/* Overwrites each of them in text by asterisks. */
void secrets_mask(const struct secrets *s, char *text);

#endif
