/* shown.c owns what is shown of a conninfo. libpq knows which of its keywords are secrets. */
#include "postgres/shown.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* In libpq's list, what is to be hidden has * for its way to be shown; others point to files, and are none. */
static const char *value_of(const PQconninfoOption *o)
{
	return strchr(o->dispchar, '*') ? "***" : o->val;
}

char *postgres_show_conninfo(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	char *shown = memory_strdup("");

	for (const PQconninfoOption *o = options; o && o->keyword; o++) {
		bool is_plain = o->val && *o->val && !strpbrk(o->val, " '\\");
		char *more;

		if (!o->val)
			continue;
		more = memory_printf("%s%s%s=%s%s%s", shown, *shown ? " " : "", o->keyword, is_plain ? "" : "'",
				     value_of(o), is_plain ? "" : "'");
		free(shown);
		shown = more;
	}
	PQconninfoFree(options);
	return shown;
}
