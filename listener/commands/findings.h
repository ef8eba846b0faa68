/* findings.h: what a check finds, one line each: ok, warning or wrong, and what to do about it. */
#ifndef WSONCE_FINDINGS_H
#define WSONCE_FINDINGS_H

#include "config/config.h"

enum finding { FINDING_OK, FINDING_WARNING, FINDING_WRONG, FINDINGS };

struct findings {
	unsigned int counts[FINDINGS];
	struct json_out *json; /* NULL: print lines */
};

/* Prints a line or an object: what was checked, and by format the result and, if it is not ok, what to do. */
void finding(struct findings *f, enum finding how, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Checks settings and files without any server: unknown variables, files that cannot be read or that others can read.
 */
void findings_of_settings(struct findings *f, const struct config *config);

/* Tests whether a listener with these settings could work, and prints a line for each finding, or one JSON object.
 * Returns the exit status: 1 if something is wrong. */
int check_all(const struct config *config, bool is_json);

/* Prints the counts. Returns the exit status: 1 if something is wrong. */
int findings_status(const struct findings *f);

#endif
