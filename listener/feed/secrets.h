/* secrets.h: keeps the values of ${env:X} and ${file:P} in a profile out of logs and pages. */
#ifndef WSONCE_FEED_SECRETS_H
#define WSONCE_FEED_SECRETS_H

#include <jansson.h>

struct secrets;

struct secrets *secrets_new(void);
void secrets_free(struct secrets *s);

/* Calls fn for each ${env:X} or ${file:P} anywhere in value, a profile. name is the text between the braces. */
typedef void secrets_fn(void *arg, const char *name, size_t len);
void secrets_each(const json_t *value, secrets_fn *fn, void *arg);

/* Adds the current values of all secrets in a profile. The newest 256 are kept. */
void secrets_read(struct secrets *s, const json_t *profile);

/* Adds a secret from a server, such as a token, to those of its variable, a signature to those of "", or one of a
 * template to those of its name. The newest 16 of each name are kept. */
void secrets_add(struct secrets *s, const char *name, const char *text, size_t len);

/* Overwrites all secrets in text with asterisks. */
void secrets_mask(const struct secrets *s, char *text);

#endif
