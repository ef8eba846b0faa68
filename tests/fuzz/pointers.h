/* pointers.h: the head of an input of the envelope's fuzzer: lines like "id /a", "type /b",
 * "payload /c" and "time /d", then an empty line, then the message. */
#ifndef FUZZ_POINTERS_H
#define FUZZ_POINTERS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "json.h"

#define POINTERS_MAX 8 /* parts of an id */

struct pointers {
	struct config_list ids;
	char *items[POINTERS_MAX];
	char *type;
	char *payload;
	char *time; /* NULL: not read */
	struct span message;
};

/* Returns -1 if the head is not of this form, or has pointers that config.c would refuse. In both
 * cases pointers_clear frees what is held. */
int pointers_read(struct pointers *p, const char *input, size_t len);
void pointers_clear(struct pointers *p);

#endif
