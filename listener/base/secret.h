/* secret.h: keeping passwords and tokens out of what others can read. */
#ifndef WSONCE_SECRET_H
#define WSONCE_SECRET_H

#include <stddef.h>

#define SECRET_SHORT 4 /* bytes; a shorter one is a part of too many words to be looked for */

/* Overwrites each place in text where the secret is by asterisks. NULL and short secrets are no secrets. */
void secret_mask(char *text, const char *secret);

/* Overwrites a text by asterisks. */
void secret_hide(char *text);

/* The first line of a file, without its end, on the heap; NULL and errno if the file cannot be read, or with errno
 * 0 if that line is empty or longer than 8 KiB. */
char *secret_read(const char *path);

/* The value of the variable NAME, else the first line of the file that NAME_FILE names, else that of systemd's
 * credential NAME, on the heap; NULL if there is none. */
char *secret_named(const char *name);

/* No other process of the same user may look into the memory of this one or its environment, and it leaves no core
 * dump. */
void secret_seal_process(void);

#endif
