/* exported.h: the lines of wsonce export, for wsonce replay. docs/commands/export.md has their members. */
#ifndef WSONCE_EXPORTED_H
#define WSONCE_EXPORTED_H

#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "commands/feeder.h"

/* How each line of a row and of a dead letter begins. A message that begins so is taken for one. */
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

/* What the last line said. All zeros before the first. */
struct exported {
	struct feed_event event;
	struct arena texts;
	struct bytes raw;
	char *reason;
};

/* If the bytes of m are such a line, makes m what was exported: an event with its received_at, event_time and source,
 * or the message of a letter. m is valid until the next call. Leaves m alone if they are anything else. */
void exported_read(struct exported *x, struct feeder *f, struct feeder_message *m);
void exported_free(struct exported *x);

#endif
