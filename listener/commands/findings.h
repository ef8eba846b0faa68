/* findings.h: what a check has found, a line each: ok, warning or wrong, and what to do. */
#ifndef WSONCE_FINDINGS_H
#define WSONCE_FINDINGS_H

#include "config/config.h"

enum finding { FINDING_OK, FINDING_WARNING, FINDING_WRONG, FINDINGS };

struct findings {
	unsigned int counts[FINDINGS];
};

/* Prints a line about what; the rest says how it is and, if it is not ok, what to do. */
void finding(struct findings *f, enum finding how, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Settings and files, no servers: variables that are no settings, files that cannot be read or that others can. */
void findings_of_settings(struct findings *f, const struct config *config);

/* The exit status: 1 if something is wrong. */
int findings_status(const struct findings *f);

#endif
