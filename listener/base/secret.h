/* secret.h: reads passwords and tokens, and hides them. */
#ifndef WSONCE_SECRET_H
#define WSONCE_SECRET_H

#include <stddef.h>

struct url;

#define SECRET_SHORT 4 /* bytes; a shorter secret occurs in too many words */
#define SECRET_WORD  8 /* bytes of the shortest word of a header or path that is taken for a secret */

/* Overwrites each occurrence of secret in text with asterisks, also if text was cut off within the last one, or has it
 * within a JSON string. Ignores NULL and secrets, or parts, shorter than SECRET_SHORT. */
void secret_mask(char *text, const char *secret);
/* Does the same, but looks for the secret in `of`, a copy of text in which nothing is masked: a secret that was masked
 * before may be a part of this one. */
void secret_mask_of(char *text, const char *of, const char *secret);
/* Does the same with a URL's path, its steps, query values and password, because a server may echo them. */
void secret_mask_url(char *text, const struct url *url);

/* Overwrites what looks like a secret in an error that may quote an argument: of a URL what is before @ and after ?, a
 * password of libpq's, and what follows whsec_. */
void secret_mask_logins(char *text);

/* Overwrites a text with asterisks. */
void secret_hide(char *text);

/* Returns the first line of a file, without its end, on the heap. Returns NULL and sets errno if the file cannot be
 * read; or NULL with errno 0 if the line is empty, longer than 8 KiB or holds a NUL. */
char *secret_read(const char *path);

/* Returns the environment variable NAME, else the first line of the file that NAME_FILE names, else systemd's
 * credential NAME, on the heap. NULL if there is none. */
char *secret_named(const char *name);

/* Returns the secret that env:NAME or file:PATH names, by the functions above. Returns NULL if of has neither form. */
char *secret_of(const char *of);

/* Keeps other processes of the same user from reading this one's memory and environment, and turns off core dumps. */
void secret_protect_process(void);

#endif
