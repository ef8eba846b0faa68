/* metrics.h: what a listener counts and measures, for Prometheus. */
#ifndef WSONCE_METRICS_H
#define WSONCE_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "ops/admin.h"

/* Once, when the process starts: the time is that of its start. */
void metrics_start(void);

/* Writes all metrics to out. now_ms is the loop's clock. */
void metrics_write(const struct admin_parts *parts, int64_t now_ms, FILE *out);

#endif
