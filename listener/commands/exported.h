/* exported.h: the lines of wsonce export, for wsonce replay. docs/commands/export.md has their members. */
#ifndef WSONCE_EXPORTED_H
#define WSONCE_EXPORTED_H

#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "commands/feeder.h"

/* How lines of rows and of dead letters begin. A line that begins like this is taken for one. */
#define EXPORTED_ROW    "{\"wsonce_row\":"
#define EXPORTED_LETTER "{\"wsonce_letter\":"

/* Returns how a line begins, one of the above, or NULL. */
static inline const char *exported_head(const char *line, size_t len)
{
	static const char *const heads[] = {EXPORTED_ROW, EXPORTED_LETTER};

	for (size_t i = 0; i < 2; i++)
		if (len >= strlen(heads[i]) && memcmp(line, heads[i], strlen(heads[i])) == 0)
			return heads[i];
	return NULL;
}

/* The contents of the last line. All zeros before the first. */
struct exported {
	struct feed_event event;
	struct arena texts;
	struct bytes raw;
	char *reason;
};

/* If the bytes of m are such a line, replaces m by the exported event with its received_at, event_time and source, or
 * by the message of a letter, valid until the next call. Leaves other messages alone. */
void exported_read(struct exported *x, struct feeder *f, struct feeder_message *m);
void exported_free(struct exported *x);

#endif
