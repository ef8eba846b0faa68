/* reach.h: which URLs a feed may send a listener to, and which of those may receive secrets. */
#ifndef WSONCE_FEED_REACH_H
#define WSONCE_FEED_REACH_H

#include <stdbool.h>

#include "config/profile.h"

/* Returns NULL if url may be used, else the reason. The hosts in the profile's own URLs (with its initial variables)
 * and in "hosts" are allowed, and TLS is required if the profile's URL for the host has it. Sets is_own if the host is
 * in one of the profile's own URLs: only those hosts get headers with secrets. */
const char *reach_fault(const struct profile *p, const char *url, bool *is_own);

#endif
