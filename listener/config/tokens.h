/* tokens.h: the tokens that producers show, and the name that each stands for. */
#ifndef WSONCE_TOKENS_H
#define WSONCE_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENS_MAX      1000 /* valid at once, and as many names of certificates */
#define TOKEN_NAME_MAX  64   /* bytes */
#define TOKEN_BYTES_MIN 16   /* a shorter one can be guessed: a warning */

/* A token, or the name in a certificate, and what it has been used for. It lives until tokens_free, also after it is no
 * longer valid. */
struct token {
	struct token *next;
	char name[TOKEN_NAME_MAX + 1];
	uint8_t digest[32]; /* SHA-256; the token itself is not kept */
	bool is_valid;
	bool is_certificate;  /* the name is one's; there is no token */
	bool is_fixed;        /* it is not the file's, and stays */
	uint64_t connections; /* open */
	uint64_t messages;
	uint64_t rejected; /* of them */
	int64_t debt_ms;   /* of patience, by POST; intake/post.c's */
};

struct tokens;

/* Of one token, or of a file, or of neither (NULL). A line of the file is "name token", or a token alone, which
 * has the name "default" as the one token has; a # begins a comment line. Short tokens are logged if is_warning.
 * Returns NULL and a sentence in error, which names the file and the line and never a token. */
struct tokens *tokens_new(const char *token, const char *file, bool is_warning, char *error, size_t size);
void tokens_free(struct tokens *t);

/* One more, which the file does not change. */
void tokens_add(struct tokens *t, const char *name, const char *token);

/* Reads the file again if it is another one than it was. Returns true if the tokens may have changed. What
 * is wrong in the file is logged, and cannot reload the tokens, keeping the old ones. */
bool tokens_refresh(struct tokens *t);

/* Takes over those of fresh, and its file, and frees it. Tokens that were there keep what they have been used for;
 * those that are in fresh no more are no longer valid. */
void tokens_replace(struct tokens *t, struct tokens *fresh);

/* How many are valid. */
size_t tokens_count(const struct tokens *t);

/* Must producers show one? */
bool tokens_are_demanded(const struct tokens *t);

/* The valid token with these bytes, or NULL. Takes a time that does not depend on where given is wrong. */
struct token *tokens_find(struct tokens *t, const char *given);

/* What stands for the certificates with this name; those beyond TOKENS_MAX share one, "others". */
struct token *tokens_certified(struct tokens *t, const char *name);

/* The first of all, valid or not; the others follow by next. Names may repeat. */
const struct token *tokens_first(const struct tokens *t);

#endif
