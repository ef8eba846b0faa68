/* sqlstate.c interprets SQLSTATEs (PostgreSQL manual, appendix A) and their contexts. connection.c, store_postgres.c
 * and relay.c act on the results. */
#include "postgres/sqlstate.h"

#include <stdio.h>
#include <string.h>

#define SEQUENCE_ENDED "2200H" /* a sequence is exhausted; otherwise the class means bad data in a row */
#define LIMIT          "54000" /* a row is too large, or the server has no transaction ids left */

bool sqlstate_is_class(const char *sqlstate, const char *classes)
{
	for (; *classes; classes += 2)
		if (strncmp(sqlstate, classes, 2) == 0)
			return true;
	return false;
}

/* The server's language (lc_messages) decides the words of a context, so only what all translations of PostgreSQL keep
 * is looked for: numbers, quotes, and the names SQL, JSON, COPY and PL/. */

static const char digits[] = "0123456789";

/* Returns the length of the line at text. */
static size_t line_len(const char *text)
{
	return strcspn(text, "\n");
}

static bool line_has(const char *line, const char *word)
{
	return memmem(line, line_len(line), word, strlen(word));
}

static bool ends_with_number(const char *line)
{
	size_t len = line_len(line);

	return len && strchr(digits, line[len - 1]);
}

/* FUNCTION  PL/pgSQL function f(jsonb) line 3 at RAISE, or SQL function "f" statement 1
 * TEXT      SQL statement "…", COPY events, line 3, JSON data, line 1: …; the rest may look like anything
 * VALUES    with log_parameter_max_length_on_error: unnamed portal parameter $3 = 'a', or, after any error of a
 *           statement, unnamed portal with parameters: $1 = 'a', $2 = 'b'
 * SERVER    the server's own words: a row's place, or unnamed portal parameter $3 */
enum line_kind { LINE_FUNCTION, LINE_TEXT, LINE_VALUES, LINE_SERVER };

static bool has_value(const char *line)
{
	const char *end = line + line_len(line);

	while ((line = memchr(line, '$', (size_t)(end - line)))) {
		size_t number = strspn(++line, digits);

		if (number && strncmp(line + number, " = ", 3) == 0)
			return true;
	}
	return false;
}

/* A DO block counts as text: it is ours (SCHEMA_AS_BLOCK). */
static enum line_kind line_kind(const char *line)
{
	if (has_value(line))
		return LINE_VALUES;
	if (line_has(line, "PL/"))
		return line_has(line, "inline_code_block") ? LINE_TEXT : LINE_FUNCTION;
	if (line_has(line, "SQL"))
		return ends_with_number(line) ? LINE_FUNCTION : LINE_TEXT;
	return line_has(line, "COPY") || line_has(line, "JSON") ? LINE_TEXT : LINE_SERVER;
}

/* True if the first line of the context has the place of a row, as for a statement that waits for another transaction:
 * while inserting index tuple (0,3) in relation "events_event_id_key". In French there is a blank after the comma, and
 * in Korean the line begins with 0,3. */
static bool is_waiting(const char *context)
{
	bool may_be = line_kind(context) == LINE_SERVER;

	for (const char *at = context; may_be && *at && *at != '\n'; at++) {
		const char *number = at == context || *at == '(' ? at + (*at == '(') : NULL;
		size_t block = number ? strspn(number, digits) : 0;
		size_t blank = block && strncmp(number + block, ", ", 2) == 0;

		if (block && number[block] == ',' && strspn(number + block + 1 + blank, digits))
			return true;
	}
	return false;
}

static bool names_function(const char *context)
{
	for (const char *line = context; *line; line += line_len(line), line += *line == '\n')
		if (line_kind(line) == LINE_FUNCTION)
			return true;
	return false;
}

/* True if the error was raised inside a function, and not while waiting for another transaction's row. */
static bool is_in_function(const char *context)
{
	return context && !is_waiting(context) && names_function(context);
}

/* True if the event has no say in the column: the table or the settings fill it. */
static bool is_filled_by_us(const struct sqlstate_violation *v, const char *name, size_t len)
{
	static const char ours[] = "\nid\n\nprocessed_at\n\nreceived_at\n\ninstance\n\nsource\n";
	char line[80];

	snprintf(line, sizeof(line), "\n%.*s\n", (int)len, name);
	return strstr(ours, line) || (v->unfilled && strstr(v->unfilled, line));
}

/* True if the key in detail, as Key (received_at, id)=(…) already exists, has only such columns. The words may be
 * translated, and quote_all_identifiers puts quotes around the columns. */
static bool is_key_filled_by_us(const struct sqlstate_violation *v)
{
	const char *at = v->detail ? strchr(v->detail, '(') : NULL;

	while (at) {
		size_t len = strcspn(at += 1 + strspn(at + 1, " \""), "\",)");

		if (!is_filled_by_us(v, at, len))
			return false;
		at += len + strspn(at + len, "\"");
		if (*at != ',')
			return *at == ')';
	}
	return false;
}

bool sqlstate_is_of_table(const struct sqlstate_violation *v, const char *context)
{
	if (!v->sqlstate || is_in_function(context))
		return false;
	if (strcmp(v->sqlstate, "23514") == 0)
		return !v->constraint;
	if (strcmp(v->sqlstate, "23502") == 0)
		return v->column && is_filled_by_us(v, v->column, strlen(v->column));
	return strstr("23503 23505 23P01", v->sqlstate) && is_key_filled_by_us(v);
}

bool sqlstate_is_of_row(const struct sqlstate_violation *v)
{
	return v->sqlstate && v->constraint && strcmp(v->sqlstate, LIMIT) == 0;
}

/* A data error whose context ends with a parameter comes from Bind: unnamed portal parameter $3. Spanish has no $, and
 * Korean has words after the number. */
static bool is_in_parameter(const char *context)
{
	const char *last = context && strrchr(context, '\n') ? strrchr(context, '\n') + 1 : context;
	const char *mark = last ? strpbrk(last, "$:'") : NULL;

	return last && line_kind(last) >= LINE_VALUES &&
	       (mark ? *mark == '$' && mark[1] && strchr(digits, mark[1]) : ends_with_number(last));
}

enum sqlstate_doubt sqlstate_doubt(const char *sqlstate, const char *context)
{
	static const char *const doubts[] = {"23502", "23514", "22003", "23503"};
	int doubt = DOUBT_NULL;

	while (doubt < DOUBTS && (!sqlstate || strcmp(sqlstate, doubts[doubt]) != 0))
		doubt++;
	return is_in_function(context) || is_in_parameter(context) ? DOUBTS : (enum sqlstate_doubt)doubt;
}

/* A value that Bind refuses will never be accepted. A row that a trigger,
 * a handler or a constraint refuses may pass later. Errors of other classes are a row's fault only if a function raised
 * them, and never if the operator, the disk or another transaction caused them. A statement that took too long inside a
 * function (57014) is a row's fault; waiting for another transaction's lock (55P03) is not. A limit is the row's only
 * if other rows pass: the server has no transaction ids left under the same SQLSTATE. */
enum postgres_result sqlstate_judge(const char *sqlstate, const char *context)
{
	if (!sqlstate)
		return POSTGRES_UNKNOWN;
	if (strcmp(sqlstate, SEQUENCE_ENDED) == 0)
		return POSTGRES_TROUBLE;
	if (sqlstate_is_class(sqlstate, "22540A") && is_in_parameter(context))
		return POSTGRES_BAD_VALUE;
	if (strcmp(sqlstate, LIMIT) == 0)
		return POSTGRES_TROUBLE;
	if (sqlstate_is_class(sqlstate, "22542123P02F383944"))
		return POSTGRES_BAD_ROW;
	if (sqlstate_is_class(sqlstate, "40"))
		return POSTGRES_CONFLICT;
	if (strcmp(sqlstate, "55P03") == 0 || !is_in_function(context))
		return POSTGRES_TROUBLE;
	if (sqlstate_is_class(sqlstate, "25535758") && strcmp(sqlstate, "57014") != 0)
		return POSTGRES_TROUBLE;
	return POSTGRES_BAD_ROW;
}

/* A function may raise any error because of an event, but a deadlock, a lock that another transaction holds, or a
 * server that is read-only or shutting down is never the event's fault. A full disk, and outside functions any error
 * that may come from the server or the row, is the row's if other rows are stored meanwhile. */
enum postgres_blame sqlstate_blame(const char *sqlstate, const char *context)
{
	static const char nobody[] = "40P01 55P03 25006 57P01 57P02 57P03 57P04 57P05";

	if (!sqlstate || strstr(nobody, sqlstate) || (context && is_waiting(context)))
		return POSTGRES_BLAME_NOBODY;
	if (strcmp(sqlstate, LIMIT) == 0 || sqlstate_is_class(sqlstate, "53"))
		return POSTGRES_BLAME_OPEN;
	if (is_in_function(context))
		return POSTGRES_BLAME_ROW;
	if (strcmp(sqlstate, SEQUENCE_ENDED) == 0 || sqlstate_is_class(sqlstate, "08254057"))
		return POSTGRES_BLAME_NOBODY;
	return POSTGRES_BLAME_OPEN;
}

bool sqlstate_is_locked(const char *sqlstate)
{
	return sqlstate && strcmp(sqlstate, "55P03") == 0;
}

bool sqlstate_is_late(const char *sqlstate)
{
	return sqlstate_is_locked(sqlstate) || (sqlstate && strcmp(sqlstate, "57014") == 0);
}

bool sqlstate_is_blocked(const char *context)
{
	return context && is_waiting(context);
}

bool sqlstate_is_local(const char *context)
{
	return sqlstate_is_blocked(context) || is_in_function(context);
}
