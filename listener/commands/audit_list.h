/* audit_list.h: the expected events, from a file into a temporary table. */
#ifndef WSONCE_AUDIT_LIST_H
#define WSONCE_AUDIT_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "commands/ndjson.h"
#include "commands/session.h"

struct audit_list {
	const char *format;   /* ids, csv or events; NULL: the first line decides, and it is set */
	bool needs_events;    /* ids are not enough */
	int64_t after_us;     /* leaves out older events; 0: none */
	int64_t before_us;    /* leaves out younger events; 0: none */
	const char *verified; /* leaves out events of these minutes, as lines_verified() returns them; NULL: none */
	int64_t from, end;    /* the minutes of verified */
	int64_t is_verified;  /* lines left out because of verified */
	uint64_t lines;       /* lines read */
	bool has_header;      /* the first line names columns, and is left out */
	int64_t too_old;      /* lines left out as too old */
	int64_t too_young;    /* lines left out as too young */
	int64_t without_time; /* lines kept although their time could not be read */
	bool is_wrong_use;    /* the file does not fit the options */
};

/* Reads all lines into the table wsonce_expected of sql/queries/audit_begin.sql. Returns 0; or -1 after printing why.
 */
int audit_list_load(struct audit_list *e, struct ndjson *lines, struct session *session, const struct config *config);

#endif
