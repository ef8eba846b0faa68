/* conninfo.c checks and redacts conninfos, and cleans libpq's error messages, which have several lines and quote parts
 * of the conninfo. libpq knows which keywords there are and which are secret. */
#include "postgres/conninfo.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/secret.h"

/* True if a host or port looks like the rest of a password with an @, / or ? that is not written as %40, %2F or %3F.
 * libpq would print it in errors. The name of an abstract socket begins with @. */
static bool is_odd(const PQconninfoOption *o)
{
	const char *at = o->val ? strchr(o->val, '@') : NULL;

	if (!o->val)
		return false;
	if (strcmp(o->keyword, "port") == 0)
		return o->val[strspn(o->val, "0123456789,")] != '\0';
	return strcmp(o->keyword, "host") == 0 && at && at != o->val && at[-1] != ',';
}

/* A word without = is the name of a database, which PQconninfoParse does not accept. */
bool postgres_is_conninfo(const char *conninfo)
{
	PQconninfoOption *options;
	char *fault = NULL;
	bool is_fine;

	if (!strchr(conninfo, '=') && !strstr(conninfo, "://"))
		return true;
	options = PQconninfoParse(conninfo, &fault);
	if (!options && (!fault || strstr(fault, "out of memory")))
		memory_exhausted("libpq", 0);
	is_fine = options;
	for (const PQconninfoOption *o = options; o && o->keyword; o++)
		is_fine = is_fine && !is_odd(o);
	PQconninfoFree(options);
	PQfreemem(fault);
	return is_fine;
}

/* libpq marks secrets with * in dispchar. Keywords that name files are not secret. */
static const char *value_of(const PQconninfoOption *o)
{
	return strchr(o->dispchar, '*') ? "***" : o->val;
}

char *postgres_redact_conninfo(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	struct bytes redacted = {NULL, 0, 0};

	for (const PQconninfoOption *o = options; o && o->keyword; o++) {
		bool is_plain = o->val && *o->val && !strpbrk(o->val, " '\\");
		char *one;

		if (!o->val)
			continue;
		one = memory_printf("%s%s=%s%s%s", redacted.len ? " " : "", o->keyword, is_plain ? "" : "'",
				    value_of(o), is_plain ? "" : "'");
		bytes_add_text(&redacted, one);
		free(one);
	}
	PQconninfoFree(options);
	return (char *)bytes_text(&redacted);
}

static void hide_passwords(PGconn *conn, char *text)
{
	PQconninfoOption *options = PQconninfo(conn);

	for (PQconninfoOption *o = options; o && o->keyword; o++)
		if (o->dispchar[0] == '*')
			secret_mask(text, o->val);
	PQconninfoFree(options);
}

char *error_text_copy(struct pg_conn *conn, const char *text, char *out, size_t size)
{
	size_t n = 0;

	for (; *text && n < size - 1; text++) {
		bool is_hint = text[0] == '\n' && text[1] == '\t' && isupper((unsigned char)text[2]);
		char c = (char)(*text == '\n' || *text == '\t' ? ' ' : *text);

		if (is_hint && n && isalnum((unsigned char)out[n - 1]))
			c = '.';
		if (c != ' ' || (n && out[n - 1] != ' '))
			out[n++] = c;
	}
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
	if (conn)
		hide_passwords(conn, out);
	return out;
}
