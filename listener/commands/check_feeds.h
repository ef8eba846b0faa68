/* check_feeds.h: the part of wsonce check about where messages come from. */
#ifndef WSONCE_CHECK_FEEDS_H
#define WSONCE_CHECK_FEEDS_H

#include "commands/findings.h"
#include "config/config.h"

/* Connects to each feed and looks at what it sends first. */
void check_feeds(struct findings *f, const struct config *c);

/* Can the addresses be listened on? */
void check_doors(struct findings *f, const struct config *c);

#endif
