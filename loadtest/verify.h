/* verify.h: compares the table events with what was sent. */
#ifndef WSONCE_VERIFY_H
#define WSONCE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "message.h"
#include "outcomes.h"

enum { VERIFY_EXAMPLES = 5, VERIFY_ID_MOST = MESSAGE_PREFIX_MOST + 24 };

/* One kind of difference. */
struct verify_finding {
	uint64_t count;
	char examples[VERIFY_EXAMPLES][VERIFY_ID_MOST]; /* ids of the first few */
};

struct verify_result {
	uint64_t rows;                    /* rows with an id of this form */
	struct verify_finding lost;       /* sent and not refused, but no row */
	struct verify_finding doubled;    /* more than one row */
	struct verify_finding altered;    /* type or payload differs from what was sent */
	struct verify_finding unexpected; /* a row for an event that was refused or never sent */
};

/* Reads the table events; blocks. Returns -1 on an error and prints it on standard error. */
int verify_run(const char *conninfo, const struct message_form *form, const struct outcomes *outcomes,
	       struct verify_result *result);

bool verify_is_clean(const struct verify_result *result);

#endif
