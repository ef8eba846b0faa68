/* redact.c prints a conninfo. libpq knows which of its keywords are secret. */
#include "postgres/redact.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* libpq marks secrets with * in dispchar. Keywords that name files are not secret. */
static const char *value_of(const PQconninfoOption *o)
{
	return strchr(o->dispchar, '*') ? "***" : o->val;
}

char *postgres_redact_conninfo(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	char *redacted = memory_strdup("");

	for (const PQconninfoOption *o = options; o && o->keyword; o++) {
		bool is_plain = o->val && *o->val && !strpbrk(o->val, " '\\");
		char *more;

		if (!o->val)
			continue;
		more = memory_printf("%s%s%s=%s%s%s", redacted, *redacted ? " " : "", o->keyword, is_plain ? "" : "'",
				     value_of(o), is_plain ? "" : "'");
		free(redacted);
		redacted = more;
	}
	PQconninfoFree(options);
	return redacted;
}
