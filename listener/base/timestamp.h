/* timestamp.h: parses and prints times. Reads no clock. */
#ifndef WSONCE_TIMESTAMP_H
#define WSONCE_TIMESTAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a time is written. */
enum timestamp_unit {
	TIMESTAMP_RFC3339, /* 2026-03-01T12:00:00.5+01:00 */
	TIMESTAMP_S,       /* seconds since 1970, fractions allowed */
	TIMESTAMP_MS,
	TIMESTAMP_US,
	TIMESTAMP_NS,
	TIMESTAMP_HEX_S, /* 0x5f5e100: seconds, as Ethereum writes them */
};

/* The names of the units, in the order of the enum, for settings and options. */
#define TIMESTAMP_UNITS "rfc3339 s ms us ns hex_s"

/* Returns the unit with this name, which is one of TIMESTAMP_UNITS. */
enum timestamp_unit timestamp_unit_named(const char *name);
const char *timestamp_unit_name(enum timestamp_unit unit);

/* Reads text, which is not NUL-terminated, into microseconds since 1970. Returns false and leaves *us alone if text is
 * malformed or outside the years 1970 to 9999 (UTC). Digits below a microsecond are dropped. RFC 3339 may have a blank
 * or t for the T, and z for the Z. Second 60 becomes the second after 59, and is accepted only at the end of a UTC day,
 * where leap seconds are. A number is as in JSON, or the same in a string, where leading zeros are allowed. */
bool timestamp_parse(const char *text, size_t len, enum timestamp_unit unit, int64_t *us);

#define TIMESTAMP_SIZE 40

/* Writes microseconds since 1970 into out as RFC 3339, in UTC, and returns out. */
const char *timestamp_print(int64_t us, char out[TIMESTAMP_SIZE]);
/* The same with 0 to 6 decimals; further ones are cut off. */
const char *timestamp_print_to(int64_t us, int digits, char out[TIMESTAMP_SIZE]);

#endif
