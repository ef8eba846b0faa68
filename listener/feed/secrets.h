/* secrets.h: the values behind ${env:X} and ${file:P} of a profile, kept out of what others can read. */
#ifndef WSONCE_FEED_SECRETS_H
#define WSONCE_FEED_SECRETS_H

#include <jansson.h>

struct secrets;

/* None so far. */
struct secrets *secrets_new(void);
void secrets_free(struct secrets *s);

/* Calls fn for each ${env:X} or ${file:P} anywhere in value, a profile, with what is between the braces. */
typedef void secrets_fn(void *arg, const char *name, size_t len);
void secrets_each(const json_t *value, secrets_fn *fn, void *arg);

/* Adds those that are named anywhere in a profile, as they are now. */
void secrets_read(struct secrets *s, const json_t *profile);

/* Adds one, such as a token that a server gave; of these the newest 64 are kept. */
void secrets_add(struct secrets *s, const char *text, size_t len);

/* Overwrites each of them in text by asterisks. */
void secrets_mask(const struct secrets *s, char *text);

#endif
