/* tokens.h: the tokens of producers and the secrets of webhooks, and their names. */
#ifndef WSONCE_TOKENS_H
#define WSONCE_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/webhook_secret.h"

#define TOKENS_MAX      1000 /* limit of valid tokens, and of names in certificates */
#define SECRETS_MAX     16   /* each costs a digest of every signed body */
#define TOKEN_NAME_MAX  64   /* bytes */
#define TOKEN_BYTES_MIN 16   /* shorter tokens can be guessed and cause a warning */

/* A token, a secret, or the name in a certificate, and its use. Valid or not, it stays until tokens_free. */
struct token {
	struct token *next;
	char name[TOKEN_NAME_MAX + 1];
	uint8_t digest[32];           /* SHA-256; the token itself is not kept */
	struct webhook_secret secret; /* len is 0: none */
	bool is_valid;
	bool is_certificate;  /* the name is from a certificate; there is no token */
	bool is_fixed;        /* not from the file, so a reload keeps it */
	uint64_t connections; /* open now */
	uint64_t messages;
	uint64_t rejected; /* messages that became dead letters */
	int64_t debt_ms;   /* when its debt for garbage is paid off; see intake/producer_credit.h */
};

struct tokens;

/* Reads a token, a file, or neither (NULL). A line of the file is "name token" or a token alone. A token without a name
 * is called "default". Lines that begin with # are comments. is_warning: log short tokens. Returns NULL and a sentence
 * in error, which names file and line and never a token. */
struct tokens *tokens_new(const char *token, const char *file, bool is_warning, char *error, size_t size);
void tokens_free(struct tokens *t);

/* Reads secrets of webhooks from a file like that of tokens, at most SECRETS_MAX. One without a name is called
 * "webhook". If file is NULL, there are no secrets. */
struct tokens *tokens_new_secrets(const char *file, char *error, size_t size);

/* Adds a token that reloads of the file keep. */
void tokens_add(struct tokens *t, const char *name, const char *token);

/* Reads the file again if it has changed. Returns true if the tokens may have changed. If the file is bad, logs an
 * error and keeps the old tokens. */
bool tokens_refresh(struct tokens *t);

/* Takes over the tokens and the file of fresh, and frees it. Tokens that are in both keep their counters; those missing
 * from fresh are no longer valid. */
void tokens_replace(struct tokens *t, struct tokens *fresh);

/* Returns the number of valid tokens. */
size_t tokens_count(const struct tokens *t);

/* True if producers must send a token. */
bool tokens_are_demanded(const struct tokens *t);

/* Returns the valid token that equals given, or NULL, in constant time. */
struct token *tokens_find(struct tokens *t, const char *given);

/* Returns the next valid token or secret after `before` (NULL: the first one), or NULL after the last. */
struct token *tokens_next(const struct tokens *t, const struct token *before);

/* Returns the token that stands for certificates with this name. Beyond TOKENS_MAX names, all share "others". */
struct token *tokens_certified(struct tokens *t, const char *name);

/* Returns the first token of the list, which includes invalid ones. Names may repeat. */
const struct token *tokens_first(const struct tokens *t);

#endif
