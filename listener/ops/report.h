/* report.h: what a listener reports about itself: at each check-in, for wsonce status, and in /api/status. */
#ifndef WSONCE_REPORT_H
#define WSONCE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "ops/admin.h"

struct report {
	const struct admin_parts *parts;
	uv_loop_t *loop;
	struct counters told; /* counters at the last report */
	int64_t began_ms;     /* loop clock */
	int64_t told_ms;      /* loop clock: the last report */
	uint64_t *messages;   /* messages of each source at the last report; heap */
	uint64_t states;      /* hash of the states in the last report */
};

/* parts must outlive it. */
void report_init(struct report *r, uv_loop_t *loop, const struct admin_parts *parts);

/* Returns the report as it is now. Its counts begin at the last report_take(). */
json_t *report_describe(const struct report *r);
/* The same with the settings, the last hour and settled_us, for storing_on_checkin; arg is a struct report. */
json_t *report_take(void *arg);

void report_free(struct report *r);

/* True if a state, such as a source being down, has changed since the last report, and that was some seconds ago. */
bool report_is_due(const struct report *r);

#endif
