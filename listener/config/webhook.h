/* webhook.h: the webhooks in the settings file. */
#ifndef WSONCE_WEBHOOK_H
#define WSONCE_WEBHOOK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "config/profile.h"
#include "config/webhook_secret.h"

#define WEBHOOKS_MAX        64
#define WEBHOOK_TYPES_MAX   256
#define WEBHOOK_SECRETS_MAX 4

enum webhook_format { WEBHOOK_JSON, WEBHOOK_CLOUDEVENTS };

struct webhook {
	json_t *root;     /* owns the texts, or NULL */
	const char *name; /* in outbox rows, metrics and logs: letters, digits, . _ and - */
	const char *url;  /* http or https */
	char digest[33];  /* digest of the URL without user and password, in hex: identifies the destination */
	char **types;
	size_t type_count;      /* 0: events of every type */
	const json_t *when;     /* conditions of the payload, as in a profile; NULL: none */
	const char *secret_env; /* variable with the secrets; NULL if they are in a file */
	const char *secret_file;
	struct webhook_secret secrets[WEBHOOK_SECRETS_MAX];
	size_t secret_count; /* every one signs; 0 only if secrets were not read */
	int64_t timeout_ms;  /* timeout of one attempt */
	int64_t concurrency; /* most requests of one listener at once */
	int64_t attempts;    /* the delivery is dead after the last one */
	int64_t backoff_ms;  /* upper bound of the first wait; doubles with each attempt */
	int64_t backoff_cap_ms;
	int64_t ttl_ms;        /* a delivery that waited longer is dead; 0: no limit */
	int64_t batch;         /* most deliveries in a request, which is an array; 0: one, without an array */
	int64_t batch_bytes;   /* most bytes in the body of a request with several deliveries */
	int format;            /* enum webhook_format */
	const char *ca;        /* PEM certificates for verifying https; NULL: the system's */
	const char *cert;      /* PEM certificate of the client, which may be followed by its key; NULL: none */
	const char *key;       /* PEM key of cert; NULL: it is in the same file */
	const json_t *headers; /* names and texts; NULL: none */
	const char *bearer_file;
	struct bytes header_lines; /* from webhook_headers_read; empty: none, or secrets were not read */
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

/* Reads variables and files of the headers again. If that fails, keeps the headers, fills fault and returns -1. */
int webhook_refresh_headers(struct webhook *t, char *fault, size_t size);

/* Copies a webhook. webhook_clear frees the copy. */
void webhook_copy(struct webhook *copy, const struct webhook *of);
void webhook_clear(struct webhook *t);

/* True if all settings, secrets and the order are the same. */
bool webhooks_are_same(const struct webhooks *a, const struct webhooks *b);

/* Returns the sum of all webhooks' concurrency. */
size_t webhooks_concurrency(const struct webhooks *t);

#endif
