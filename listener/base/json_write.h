/* json_write.h: JSON written anew from JSON that is there, so that equal values become equal bytes. */
#ifndef WSONCE_JSON_WRITE_H
#define WSONCE_JSON_WRITE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/slice.h"

#define JSON_WRITE_DEPTH_MAX 256 /* each level goes through what is inside it again */

/* What was written. */
struct json_written {
	bool has_odd_number; /* that other libraries would print in another way: a real, or an integer beyond 64 bits */
	bool is_cut;         /* it is nested more deeply than JSON_WRITE_DEPTH_MAX, and null stands for what is below */
};

/* The one form in which equal values have equal bytes: names sorted by code points and once (the last one's value), no
 * blanks, UTF-8, the shortest digits of a real that read back as the same. */
struct json_written json_write_canonical(struct bytes *out, struct slice value);

/* The form in which a value stands inside a longer text: names as they come, ASCII, ", " and ": " between. */
void json_write_plain(struct bytes *out, struct slice value);

/* A text as a JSON string in UTF-8. */
void json_write_string(struct bytes *out, const char *text, size_t len);

#endif
