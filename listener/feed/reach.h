/* reach.h: which URLs a feed may send its listeners to, and which of them may get secrets. */
#ifndef WSONCE_FEED_REACH_H
#define WSONCE_FEED_REACH_H

#include <stdbool.h>

#include "config/profile.h"

/* Returns NULL if url may be used, else a reason that continues "the URL ...". Allowed are the hosts in the profile's
 * own URLs, with its initial variables, and those in "hosts"; and TLS is required if the profile's URL for the host has
 * it. Sets is_own if it is one of the profile's own hosts; only those get headers with secrets. */
const char *reach_fault(const struct profile *p, const char *url, bool *is_own);

#endif
