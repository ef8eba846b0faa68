/* timestamp.h: moments as people and producers write them. Pure: no clock is read here. */
#ifndef WSONCE_TIMESTAMP_H
#define WSONCE_TIMESTAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a moment is written. */
enum timestamp_unit {
	TIMESTAMP_RFC3339, /* 2026-03-01T12:00:00.5+01:00 */
	TIMESTAMP_S,       /* seconds since 1970, fractions allowed */
	TIMESTAMP_MS,
	TIMESTAMP_US,
	TIMESTAMP_NS,
	TIMESTAMP_HEX_S, /* 0x5f5e100: seconds, as Ethereum writes them */
};

/* The names of the units, in the order of the enum, as settings and options take them. */
#define TIMESTAMP_UNITS "rfc3339 s ms us ns hex_s"

/* The unit of this name, one of TIMESTAMP_UNITS. */
enum timestamp_unit timestamp_unit_named(const char *name);

/* The moment in text, which is not ended by NUL, in microseconds since 1970. false, and *us as it was,
 * if text is none: only the years 1970 to 9999 (UTC) count, and what is finer than a microsecond is
 * cut off. RFC 3339 may have a blank or t for the T, and z for the Z. Its second 60 is taken as the
 * second after 59, and only at the end of a UTC day, where leap seconds are. A number is as JSON has
 * it, or the same in a string, where zeros may lead. */
bool timestamp_parse(const char *text, size_t len, enum timestamp_unit unit, int64_t *us);

#define TIMESTAMP_SIZE 40

/* Writes microseconds since 1970 as RFC 3339 has it, in UTC, into out, and returns it. */
const char *timestamp_print(int64_t us, char out[TIMESTAMP_SIZE]);

#endif
