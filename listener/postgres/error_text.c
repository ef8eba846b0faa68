/* error_text.c cleans libpq's error messages, which have several lines and quote parts of the conninfo. */
#include "postgres/error_text.h"

#include <libpq-fe.h>

#include "base/secret.h"

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
		char c = (char)(*text == '\n' || *text == '\t' ? ' ' : *text);

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
