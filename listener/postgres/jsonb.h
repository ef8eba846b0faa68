/* jsonb.h: finds JSON that Postgres's type jsonb cannot hold. */
#ifndef WSONCE_JSONB_H
#define WSONCE_JSONB_H

#include "base/slice.h"

/* Returns why Postgres cannot store a valid JSON value as jsonb, or NULL. */
const char *jsonb_fault(struct slice value);

#endif
