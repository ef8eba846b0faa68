/* sort_key.h: the order of JSON numbers and strings as bytes that memcmp compares. */
#ifndef WSONCE_SORT_KEY_H
#define WSONCE_SORT_KEY_H

#include <stddef.h>

#include "base/slice.h"

#define SORT_KEY_ROOM 16 /* bytes that a key may have more than its value */

/* Writes a key to out, which has room for value.len + SORT_KEY_ROOM bytes, and returns its length; 0 if value is
 * neither a number nor a string. Numbers are compared exactly: 1e1 and 10.0 have one key. Strings are compared without
 * quotes and escapes, byte by byte, and come behind all numbers. value is JSON that json_check has accepted. */
size_t sort_key(struct slice value, char *out);

#endif
