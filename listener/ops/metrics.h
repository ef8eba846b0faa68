/* metrics.h: a listener's metrics for Prometheus. */
#ifndef WSONCE_METRICS_H
#define WSONCE_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "ops/admin.h"

/* Call once when the process starts; records its start time. */
void metrics_start(void);

/* Writes all metrics to out. now_ms is the loop clock. */
void metrics_write(const struct admin_parts *parts, int64_t now_ms, FILE *out);

#endif
