/* webhook.h: the webhooks in the settings file. */
#ifndef WSONCE_WEBHOOK_H
#define WSONCE_WEBHOOK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/profile.h"

#define WEBHOOKS_MAX        64
#define WEBHOOK_TYPES_MAX   256
#define WEBHOOK_SECRETS_MAX 4

/* A key of HMAC-SHA256. */
struct webhook_secret {
	unsigned char bytes[64];
	size_t len;
};

struct webhook {
	json_t *root;     /* owns the texts, or NULL */
	const char *name; /* in outbox rows, metrics and logs: letters, digits, . _ and - */
	const char *url;  /* http or https */
	char digest[33];  /* of the URL without user and password, in hex: identifies the destination */
	char **types;
	size_t type_count;      /* 0: events of every type */
	const char *secret_env; /* variable with the secrets; NULL if they are in a file */
	const char *secret_file;
	struct webhook_secret secrets[WEBHOOK_SECRETS_MAX];
	size_t secret_count; /* every one signs; 0 only if secrets were not read */
	int64_t timeout_ms;  /* of one attempt */
	int64_t concurrency; /* most requests of one listener at once */
	int64_t attempts;    /* the delivery is dead after the last one */
	int64_t backoff_ms;  /* upper bound of the first wait; doubles with each attempt */
	int64_t backoff_cap_ms;
	const char *ca; /* PEM certificates for verifying https; NULL: the system's */
};

struct webhooks {
	struct webhook *items;
	size_t count;
	unsigned int version; /* how often they changed while the listener ran */
};

/* Reads "webhooks" of the settings file, an array of objects; origin is where it is written. Reads secrets only if
 * has_secrets, since operators' commands do not deliver. Returns 0, or -1 after filling fault. Call webhooks_free in
 * both cases. */
int webhooks_read(struct webhooks *t, const json_t *value, bool has_secrets, const struct profile_origin *origin,
		  struct profile_fault *fault);
void webhooks_free(struct webhooks *t);

/* Copies a webhook. webhook_clear frees the copy. */
void webhook_copy(struct webhook *copy, const struct webhook *of);
void webhook_clear(struct webhook *t);

/* True if all settings, secrets and the order are the same. */
bool webhooks_are_same(const struct webhooks *a, const struct webhooks *b);

/* Returns the sum of all webhooks' concurrency. */
size_t webhooks_concurrency(const struct webhooks *t);

#endif
