/* jsonb.h: which JSON the type jsonb cannot hold. */
#ifndef WSONCE_JSONB_H
#define WSONCE_JSONB_H

#include "base/slice.h"

/* Returns what keeps Postgres from storing a valid JSON value as jsonb, or NULL. */
const char *jsonb_fault(struct slice value);

#endif
