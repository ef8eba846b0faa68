/* audit_list.h: the events that should be there, from a file into a temporary table. */
#ifndef WSONCE_AUDIT_LIST_H
#define WSONCE_AUDIT_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "commands/ndjson.h"
#include "commands/session.h"

struct audit_list {
	const char *format; /* ids, csv or events; NULL: as the first byte tells, and then it is set */
	bool needs_events;  /* ids would not do */
	int64_t after_us;   /* events whose time is before are left out; 0: none is */
	int64_t before_us;  /* or is after; 0: none is */
	uint64_t lines;
	uint64_t too_old;
	uint64_t too_young;
	uint64_t without_time; /* asked for and not found: they are not left out */
	bool is_wrong_use;     /* the file is not for these options */
};

/* Reads all lines into the temporary table wsonce_expected (at: where the line begins; id; digest: of
 * a line that is no event, whose dead letter has the same). Returns 0; or -1 after saying why. */
int audit_list_load(struct audit_list *e, struct ndjson *lines, struct session *session, const struct config *config);

#endif
