/* metrics.h: a listener's metrics for Prometheus. */
#ifndef WSONCE_METRICS_H
#define WSONCE_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "ops/admin.h"
#include "spool/spool.h"

/* Call once when the process starts; records its start time. */
void metrics_start(void);

/* Writes all metrics to out. now_ms is the loop clock. */
void metrics_write(const struct admin_parts *parts, int64_t now_ms, FILE *out);

/* Returns the age of the oldest event on disk in seconds; 0 if there is none. */
double metrics_spool_age(const struct spool_view *view);

#endif
