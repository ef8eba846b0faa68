/* session_file.c owns a command's SQLite file. Answers become libpq results, which need no server, so commands read
 * both alike. A BLOB becomes \x and hexadecimal digits, like a bytea. */
#include "commands/session_file.h"

#include <libpq-fe.h>
#include <openssl/evp.h>
#include <pwd.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "sqlite/file.h"

#define BUSY_TRIES  60 /* half a second each */
#define USER_BYTES  32
#define COLUMNS_MAX 16

/* --- functions in SQL --- */

static bool is_end_of_reason(const char *at, const char *end)
{
	while (at < end && ((*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z')))
		at++;
	return at + 1 == end && *at == ')';
}

/* Replaces quoted words and numbers by an ellipsis, except in the code at the end, as dead_letters_list.sql does. */
static size_t fold(const char *in, size_t len, char *out)
{
	const char *at = in, *end = in + len;
	char *put = out;

	while (at < end) {
		const char *after;

		if (*at == '"' && (after = memchr(at + 1, '"', (size_t)(end - at - 1))))
			after++;
		else
			for (after = at; after < end && *after >= '0' && *after <= '9'; after++)
				;
		if (after == at || (*at != '"' && is_end_of_reason(after, end))) {
			size_t n = after == at ? 1 : (size_t)(after - at);

			memcpy(put, at, n);
			put += n;
			at += n;
		} else {
			put = stpcpy(put, "…");
			at = after;
		}
	}
	return (size_t)(put - out);
}

static size_t digest(const char *in, size_t len, char *out)
{
	sha256(in, len, (uint8_t *)out);
	return SHA256_BYTES;
}

static size_t encode(const char *in, size_t len, char *out)
{
	return (size_t)EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)in, (int)len);
}

/* Decodes the output of set_bytes(). */
static size_t undo_hex(const char *in, size_t len, char *out)
{
	size_t n = 0;

	if (len > 2)
		sodium_hex2bin((unsigned char *)out, len, in + 2, len - 2, NULL, &n, NULL);
	return n;
}

static size_t name_user(const char *in, size_t len, char *out)
{
	const struct passwd *user = getpwuid(geteuid());

	(void)in, (void)len;
	return user ? (size_t)snprintf(out, USER_BYTES, "%s", user->pw_name) % USER_BYTES
		    : (size_t)snprintf(out, USER_BYTES, "%u", geteuid());
}

/* --- life --- */

static bool is_late(int64_t until_ms)
{
	return until_ms && clock_ms(CLOCK_MONOTONIC) >= until_ms;
}

struct sqlite_file *session_file_open(const char *path, bool may_create, int64_t until_ms, char *why)
{
	enum sqlite_result result = SQLITE_FILE_BUSY;
	struct sqlite_file *file = NULL;

	for (int i = 0; i < BUSY_TRIES && result == SQLITE_FILE_BUSY && !(i && is_late(until_ms)); i++)
		file = sqlite_file_open(path, may_create, NULL, &result, why);
	if (!file)
		return NULL;
	sqlite_file_add_function(file, "wsonce_fold", fold, false);
	sqlite_file_add_function(file, "wsonce_user", name_user, false);
	sqlite_file_add_function(file, "wsonce_sha256", digest, true);
	sqlite_file_add_function(file, "wsonce_bytes", undo_hex, true);
	sqlite_file_add_function(file, "wsonce_base64", encode, false);
	return file;
}

/* --- questions --- */

struct answer {
	PGresult *rows;
	int columns;
};

static PGresult *make_rows(int columns)
{
	PGresAttDesc names[COLUMNS_MAX];
	PGresult *rows = memory_given(PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK), "libpq");

	memset(names, 0, sizeof(names));
	for (int i = 0; i < columns; i++)
		names[i].name = (char *)"";
	if (columns)
		PQsetResultAttrs(rows, columns, names);
	return rows;
}

static void set_bytes(PGresult *rows, int row, int column, const struct sqlite_value *v)
{
	AUTO_FREE char *text = memory_alloc(v->len * 2 + 3);

	write_hex(stpcpy(text, "\\x"), v->at, v->len);
	PQsetvalue(rows, row, column, text, (int)(v->len * 2 + 2));
}

static bool take_row(void *arg, const struct sqlite_value *cells, int n)
{
	struct answer *a = arg;
	int row = PQntuples(a->rows);

	if (!a->columns) {
		PQclear(a->rows);
		a->rows = make_rows(n);
		a->columns = n;
		row = 0;
	}
	for (int i = 0; i < n; i++)
		if (cells[i].type == SQLITE_FILE_NULL)
			PQsetvalue(a->rows, row, i, NULL, -1);
		else if (cells[i].type == SQLITE_FILE_BYTES)
			set_bytes(a->rows, row, i, &cells[i]);
		else
			PQsetvalue(a->rows, row, i, (char *)cells[i].at, (int)cells[i].len);
	return true;
}

/* Runs the statements in a transaction of their own, unless one is open. */
static enum sqlite_result try_once(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				   struct answer *a)
{
	bool is_ours = sqlite_file_is_undone(f);
	enum sqlite_result result = is_ours ? sqlite_file_begin(f) : SQLITE_FILE_FINE;

	if (result == SQLITE_FILE_FINE)
		result = sqlite_file_run_all(f, sql, values, n, take_row, a);
	if (result == SQLITE_FILE_FINE && is_ours)
		result = sqlite_file_commit(f);
	if (result != SQLITE_FILE_FINE && is_ours)
		sqlite_file_roll_back(f);
	return result;
}

static enum sqlite_result dispatch(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				   struct answer *a)
{
	if (strcmp(sql, "BEGIN") == 0)
		return sqlite_file_begin(f);
	if (strcmp(sql, "COMMIT") == 0)
		return sqlite_file_commit(f);
	if (strcmp(sql, "ROLLBACK") != 0)
		return try_once(f, sql, values, n, a);
	sqlite_file_roll_back(f);
	return SQLITE_FILE_FINE;
}

struct rows {
	session_row_fn *take;
	void *arg;
};

static bool hand_out(void *arg, const struct sqlite_value *cells, int n)
{
	const struct rows *rows = arg;
	const char *texts[COLUMNS_MAX];

	for (int i = 0; i < n; i++)
		texts[i] = cells[i].type == SQLITE_FILE_NULL ? NULL : cells[i].at;
	rows->take(rows->arg, texts, n);
	return true;
}

int session_file_each(struct sqlite_file *f, const char *sql, int n, const char *const *values, session_row_fn *take,
		      void *arg)
{
	struct sqlite_value bound[COLUMNS_MAX];
	struct rows rows = {take, arg};

	for (int i = 0; i < n; i++)
		bound[i] = sqlite_string(values[i]);
	return sqlite_file_run_all(f, sql, bound, n, hand_out, &rows) == SQLITE_FILE_FINE ? 0 : -1;
}

/* SQLite has no schema pg_catalog, which statements for both databases name. */
static char *without_catalog(const char *sql)
{
	static const char schema[] = "pg_catalog.";
	char *own = memory_strdup(sql);

	for (char *at = own; (at = strstr(at, schema));)
		memmove(at, at + sizeof(schema) - 1, strlen(at + sizeof(schema) - 1) + 1);
	return own;
}

struct pg_result *session_file_ask(struct sqlite_file *f, const char *sql, int n, const char *const *values,
				   int64_t until_ms)
{
	struct sqlite_value bound[COLUMNS_MAX];
	enum sqlite_result result = SQLITE_FILE_BUSY;
	struct answer a = {make_rows(0), 0};
	AUTO_FREE char *own = without_catalog(sql);

	for (int i = 0; i < n && i < COLUMNS_MAX; i++)
		bound[i] = sqlite_string(values[i]);
	for (int i = 0;
	     i < BUSY_TRIES && result == SQLITE_FILE_BUSY && !((i || *sqlite_file_why(f)) && is_late(until_ms)); i++)
		result = dispatch(f, own, bound, n, &a);
	if (result == SQLITE_FILE_FINE)
		return a.rows;
	PQclear(a.rows);
	return NULL;
}
