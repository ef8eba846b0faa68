/* report.h: what a listener tells of itself at each check-in, for wsonce status. */
#ifndef WSONCE_REPORT_H
#define WSONCE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "ops/admin.h"

struct report {
	const struct admin_parts *parts;
	uv_loop_t *loop;
	struct counters told; /* at the last report */
	int64_t began_ms;     /* loop clock */
	int64_t told_ms;      /* loop clock, of the last report */
	uint64_t *messages;   /* of each source, by then; heap */
	uint64_t states;      /* a hash of the states that the last one told */
};

/* parts must outlive it. */
void report_init(struct report *r, uv_loop_t *loop, const struct admin_parts *parts);

/* The report, for pipeline_on_checkin; arg is a struct report. Rates count from one to the next. */
json_t *report_describe(void *arg);

void report_free(struct report *r);

/* Is there news, such as a source that is down, since the last report, which is some seconds old? */
bool report_is_due(const struct report *r);

#endif
