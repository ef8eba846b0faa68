/* reach.h: where a feed may lead its listeners, and what they say with secrets in it. */
#ifndef WSONCE_FEED_REACH_H
#define WSONCE_FEED_REACH_H

#include <stdbool.h>

#include "config/profile.h"

/* May this URL be connected to? NULL: yes. Else the reason, which goes on from "the URL". Only the hosts that the
 * profile's own URLs name with its first variables, and those of "hosts"; and none without TLS if the profile's URL for
 * that host has it. is_own: whether it is one of the profile's own hosts, which alone get headers with secrets. */
const char *reach_fault(const struct profile *p, const char *url, bool *is_own);

#endif
