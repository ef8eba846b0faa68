/* json_write.h: rewrites JSON so that equal values have equal bytes. */
#ifndef WSONCE_JSON_WRITE_H
#define WSONCE_JSON_WRITE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/slice.h"

#define JSON_WRITE_DEPTH_MAX 256 /* bounds the time, since each level reads its contents again */

/* What the writer found in the value. */
struct json_written {
	bool has_odd_number; /* a real, or an integer beyond 64 bits: other libraries may print it differently */
	bool is_cut;         /* it is nested deeper than JSON_WRITE_DEPTH_MAX, and null replaces what is below */
};

/* Writes value in the form in which equal values have equal bytes: names sorted by code point, the last of equal names
 * only, no blanks, UTF-8, and for a real the fewest digits of its double, or its own if the double differs. */
struct json_written json_write_canonical(struct bytes *out, struct slice value);

/* Writes value for use inside a longer text: names in their order, ASCII, ", " and ": " as separators. */
void json_write_plain(struct bytes *out, struct slice value);

/* Writes a text as a JSON string in UTF-8. */
void json_write_string(struct bytes *out, const char *text, size_t len);

#endif
