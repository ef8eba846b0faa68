/* sort_key.h: the order of JSON numbers and strings as bytes that memcmp compares. */
#ifndef WSONCE_SORT_KEY_H
#define WSONCE_SORT_KEY_H

#include <stddef.h>

#include "base/slice.h"

#define SORT_KEY_ROOM 16 /* how much longer a key may be than its value */

/* Writes a key to out, which has room for value.len + SORT_KEY_ROOM bytes, and returns its length; 0 if value is
 * neither a number nor a string. Numbers are compared exactly: 1e1 and 10.0 have the same key. Strings are compared
 * byte by byte, without quotes and escapes, and come after all numbers. json_check must have accepted value. */
size_t sort_key(struct slice value, char *out);

#endif
