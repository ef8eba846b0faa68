/* quantity.h: counts, sizes and durations as people write them. */
#ifndef WSONCE_QUANTITY_H
#define WSONCE_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUANTITY_MS  INT64_C(1000) /* durations are in microseconds */
#define QUANTITY_S   (1000 * QUANTITY_MS)
#define QUANTITY_DAY (86400 * QUANTITY_S)

/* Each reader returns false and leaves the value alone if text is malformed. */

/* Decimal digits, up to INT64_MAX. */
bool quantity_count(const char *text, int64_t *n);

/* Bytes: a count, or a count with K, KiB, M, MiB, G or GiB. All are powers of 1024. */
bool quantity_bytes(const char *text, int64_t *bytes);

/* A duration such as 500ms, 45s, 1.5s, 15m, 12h or 30d, in microseconds. A bare number is in seconds. At most 10,000
 * years and six decimals. */
bool quantity_duration(const char *text, int64_t *us);

/* Writes a duration in a form that quantity_duration reads, in the largest unit that divides it. Fractions of a
 * millisecond are dropped. Returns out. */
const char *quantity_print_duration(int64_t us, char *out, size_t size);
const char *quantity_print_seconds(int64_t s, char *out, size_t size);

#endif
