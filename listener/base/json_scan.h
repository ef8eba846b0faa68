/* json_scan.h: the quick check of a text's grammar. */
#ifndef WSONCE_JSON_SCAN_H
#define WSONCE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* True: a text that is UTF-8 is one JSON value of at most JSON_DEPTH_MAX levels with nothing but blanks around it,
 * which value is without. False: it may be one, which json_check() knows. */
bool json_scan(const char *text, size_t len, struct slice *value);

#endif
