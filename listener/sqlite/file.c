/* file.c owns the connection to an SQLite file: it checks that the file is wsonce's, creates the tables, makes commits
 * durable and classifies errors. store/store_sqlite.c stores events in it, commands/session_file.c runs the statements
 * of commands. */
#include "sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/sort_key.h"
#include "sqlite_here.sql.h"
#include "sqlite_insert.sql.h"
#include "sqlite_put_cursor.sql.h"
#include "sqlite_schema.sql.h"
#include "sqlite_write_dead_letters.sql.h"

#define APPLICATION_ID 0x77736f6e /* "wson", in the file's header */
#define VERSION        1          /* of the tables, also in the header */
#define BUSY_STEP_NS   1000000
#define BUSY_STEPS     500 /* ms for which a statement waits for another process */
#define STATEMENTS     48
#define EPOCH_BITS     32 /* low bits of `opened`, which count commits; the epoch is above them */

struct statement {
	const char *sql;
	sqlite3_stmt *prepared;
};

struct sqlite_file {
	sqlite3 *db;
	char *path, *folder;
	const atomic_bool *is_leaving;
	struct statement statements[STATEMENTS];
	int statement_count;
	int code;        /* SQLite's code of the last failure */
	bool is_synced;  /* this connection has committed, so all data from before is on the disk */
	int64_t commits; /* `opened` as the last transaction left it; see sqlite_file_commits */
	int64_t changes; /* rows changed by this connection before its last transaction */
	ino_t log;       /* inode of the write-ahead log; 0: not known yet */
	char id[40];
	char why[SQLITE_FILE_WHY];
};

struct function {
	sqlite_function *call;
	bool is_bytes;
};

/* --- errors --- */

static enum sqlite_result fail(struct sqlite_file *f, enum sqlite_result result, const char *what)
{
	snprintf(f->why, sizeof(f->why), "%.150s %.140s", f->path, what);
	return result;
}

/* True if the file is full, broken or missing. The statement causes any other error. */
static bool is_trouble(int code)
{
	switch (code & 0xff) {
	case SQLITE_CONSTRAINT:
	case SQLITE_ERROR:
	case SQLITE_TOOBIG:
	case SQLITE_MISMATCH:
		return false;
	}
	return true;
}

static enum sqlite_result explain(struct sqlite_file *f, int code)
{
	int os = sqlite3_system_errno(f->db);
	bool is_io = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
	char what[200];

	f->code = code & 0xff;
	snprintf(what, sizeof(what), "(SQLite %d: %s%s%s)", code, sqlite3_errmsg(f->db), is_io && os ? "; " : "",
		 is_io && os ? strerror(os) : "");
	switch (code & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_INTERRUPT:
		return fail(f, SQLITE_FILE_BUSY, "is locked by another process");
	case SQLITE_FULL:
		fail(f, SQLITE_FILE_TROUBLE, "cannot grow: the disk is full ");
		break;
	case SQLITE_CORRUPT:
		fail(f, SQLITE_FILE_TROUBLE, "is corrupt: restore it, or move it away and start with a new one ");
		break;
	case SQLITE_NOTADB:
		return fail(f, SQLITE_FILE_WRONG, "is not an SQLite file: give --store a file of its own");
	case SQLITE_READONLY:
		fail(f, SQLITE_FILE_TROUBLE, "cannot be written: check the rights of the file and its folder ");
		break;
	case SQLITE_CANTOPEN:
		if (code == SQLITE_CANTOPEN_SYMLINK)
			return fail(f, SQLITE_FILE_WRONG, "is a symbolic link: give --store the file itself");
		fail(f, SQLITE_FILE_TROUBLE, "cannot be opened: is its folder there, and may this user write in it? ");
		break;
	case SQLITE_IOERR:
		fail(f, SQLITE_FILE_TROUBLE, "cannot be read or written ");
		break;
	default:
		*f->why = '\0';
		snprintf(what, sizeof(what), "%s (SQLite %d)", sqlite3_errmsg(f->db), code);
	}
	strncat(f->why, what, sizeof(f->why) - strlen(f->why) - 1);
	return is_trouble(code) ? SQLITE_FILE_TROUBLE : SQLITE_FILE_REFUSED;
}

/* Another process writes batches that take a few milliseconds each, so a longer sleep might never find the file
 * free. */
static int on_busy(void *arg, int tries)
{
	struct sqlite_file *f = arg;

	if (tries >= BUSY_STEPS || (f->is_leaving && atomic_load(f->is_leaving)))
		return 0;
	nanosleep(&(struct timespec){0, BUSY_STEP_NS}, NULL);
	return 1;
}

/* --- statements --- */

static enum sqlite_result prepare(struct sqlite_file *f, const char *sql, sqlite3_stmt **prepared)
{
	struct statement *s = f->statements;
	int code;

	for (int i = 0; i < f->statement_count; i++, s++)
		if (s->sql == sql) {
			*prepared = s->prepared;
			return SQLITE_FILE_FINE;
		}
	code = sqlite3_prepare_v3(f->db, sql, -1, SQLITE_PREPARE_PERSISTENT, prepared, NULL);
	if (code) {
		enum sqlite_result result = explain(f, code);

		return result == SQLITE_FILE_REFUSED ? SQLITE_FILE_TROUBLE : result;
	}
	if (f->statement_count == STATEMENTS) {
		sqlite3_finalize(f->statements[0].prepared);
		memmove(f->statements, f->statements + 1, sizeof(*f->statements) * --f->statement_count);
	}
	f->statements[f->statement_count++] = (struct statement){sql, *prepared};
	return SQLITE_FILE_FINE;
}

static int bind(sqlite3_stmt *statement, int place, const struct sqlite_value *v)
{
	switch (v->type) {
	case SQLITE_FILE_TEXT:
		return sqlite3_bind_text64(statement, place, v->at, v->len, SQLITE_STATIC, SQLITE_UTF8);
	case SQLITE_FILE_BYTES:
		return sqlite3_bind_blob64(statement, place, v->at, v->len, SQLITE_STATIC);
	case SQLITE_FILE_NULL:
		break;
	}
	return sqlite3_bind_null(statement, place);
}

static struct sqlite_value cell(sqlite3_stmt *statement, int column)
{
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_NULL:
		return (struct sqlite_value){SQLITE_FILE_NULL, "", 0, 0};
	case SQLITE_BLOB:
		return sqlite_bytes(sqlite3_column_blob(statement, column),
				    (size_t)sqlite3_column_bytes(statement, column));
	}
	return (struct sqlite_value){SQLITE_FILE_TEXT, (const char *)sqlite3_column_text(statement, column),
				     (size_t)sqlite3_column_bytes(statement, column),
				     sqlite3_column_int64(statement, column)};
}

#define CELLS_MAX 16

static bool give_row(sqlite3_stmt *statement, sqlite_row_fn *row, void *arg)
{
	struct sqlite_value cells[CELLS_MAX] = {{.at = ""}};
	int n = sqlite3_column_count(statement);

	if (!row)
		return true;
	for (int i = 0; i < n && i < CELLS_MAX; i++)
		cells[i] = cell(statement, i);
	return row(arg, cells, n < CELLS_MAX ? n : CELLS_MAX);
}

static enum sqlite_result run_prepared(struct sqlite_file *f, sqlite3_stmt *statement,
				       const struct sqlite_value *values, int n, sqlite_row_fn *row, void *arg)
{
	int code = SQLITE_OK;

	for (int i = 0; i < n && i < sqlite3_bind_parameter_count(statement) && !code; i++)
		code = bind(statement, i + 1, &values[i]);
	while (!code && (code = sqlite3_step(statement)) == SQLITE_ROW)
		code = give_row(statement, row, arg) ? SQLITE_OK : SQLITE_DONE;
	return code == SQLITE_DONE ? SQLITE_FILE_FINE : explain(f, sqlite3_extended_errcode(f->db));
}

/* True if the statement still fits the tables. SQLite prepares it again after they have changed. */
static bool fits_tables(struct sqlite_file *f, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	bool fits = sqlite3_prepare_v2(f->db, sql, -1, &statement, NULL) == SQLITE_OK;

	sqlite3_finalize(statement);
	return fits;
}

enum sqlite_result sqlite_file_run(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				   sqlite_row_fn *row, void *arg)
{
	sqlite3_stmt *statement = NULL;
	enum sqlite_result result = prepare(f, sql, &statement);

	if (result != SQLITE_FILE_FINE)
		return result;
	result = run_prepared(f, statement, values, n, row, arg);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	if (result == SQLITE_FILE_REFUSED && f->code == SQLITE_ERROR && !fits_tables(f, sql))
		return SQLITE_FILE_TROUBLE;
	return result;
}

enum sqlite_result sqlite_file_run_all(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				       sqlite_row_fn *row, void *arg)
{
	enum sqlite_result result = SQLITE_FILE_FINE;

	while (*sql && result == SQLITE_FILE_FINE) {
		sqlite3_stmt *statement = NULL;

		if (sqlite3_prepare_v2(f->db, sql, -1, &statement, &sql))
			return explain(f, sqlite3_extended_errcode(f->db));
		if (statement)
			result = run_prepared(f, statement, values, n, row, arg);
		sqlite3_finalize(statement);
	}
	return result;
}

static void call_function(sqlite3_context *context, int n, sqlite3_value **values)
{
	const struct function *function = sqlite3_user_data(context);
	const char *in = sqlite3_value_blob(values[0]);
	size_t len = (size_t)sqlite3_value_bytes(values[0]);
	char *out = memory_alloc(len * 3 + 32);
	size_t out_len = function->call(in ? in : "", len, out);

	(void)n;
	if (function->is_bytes)
		sqlite3_result_blob64(context, out, out_len, free);
	else
		sqlite3_result_text64(context, out, out_len, free, SQLITE_UTF8);
}

void sqlite_file_add_function(struct sqlite_file *f, const char *name, sqlite_function *function, bool is_bytes)
{
	struct function *kept = memory_alloc(sizeof(*kept));

	*kept = (struct function){function, is_bytes};
	sqlite3_create_function_v2(f->db, name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, kept,
				   call_function, NULL, NULL, free);
}

/* Values that are not JSON sort before all others. */
static size_t key_of_json(const char *in, size_t len, char *out)
{
	struct slice value;

	return json_check(in, len, &value) ? 0 : sort_key(value, out);
}

int64_t sqlite_file_changed(const struct sqlite_file *f)
{
	return sqlite3_changes64(f->db);
}

const char *sqlite_file_why(const struct sqlite_file *f)
{
	return f->why;
}

/* --- transactions --- */

static ino_t log_inode(const struct sqlite_file *f)
{
	struct stat st;

	return stat(sqlite3_filename_wal(sqlite3_db_filename(f->db, "main")), &st) ? 0 : st.st_ino;
}

/* True if the file or its log was renamed, deleted or replaced: what we write would be lost. SQLite itself never
 * replaces the log while a connection is open. */
static bool has_moved(struct sqlite_file *f)
{
	int moved = 0;

	return (sqlite3_file_control(f->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved) ||
	       (f->log && log_inode(f) != f->log);
}

/* Prevents a checkpoint, which would write the old log into the new file. */
static enum sqlite_result fail_moved(struct sqlite_file *f)
{
	sqlite3_db_config(f->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return fail(f, SQLITE_FILE_TROUBLE, "is gone: it, or its -wal, was moved, deleted or replaced");
}

static bool take_number(void *arg, const struct sqlite_value *cells, int n)
{
	(void)n;
	*(int64_t *)arg = cells[0].number;
	return false;
}

static enum sqlite_result ask(struct sqlite_file *f, const char *sql, int64_t *number)
{
	return sqlite_file_run(f, sql, NULL, 0, take_number, number);
}

enum sqlite_result sqlite_file_begin(struct sqlite_file *f)
{
	enum sqlite_result result;

	if (has_moved(f))
		return fail_moved(f);
	result = sqlite_file_run(f, "BEGIN IMMEDIATE", NULL, 0, NULL, NULL);
	if (!f->log && result == SQLITE_FILE_FINE)
		f->log = log_inode(f);
	f->changes = sqlite3_total_changes64(f->db);
	return result == SQLITE_FILE_FINE ? ask(f, "SELECT opened FROM wsonce_database", &f->commits) : result;
}

static enum sqlite_result count_commit(struct sqlite_file *f)
{
	char text[24];
	struct sqlite_value value;

	snprintf(text, sizeof(text), "%lld", (long long)f->commits + 1);
	value = sqlite_string(text);
	return sqlite_file_run(f, "UPDATE wsonce_database SET opened = ?1", &value, 1, NULL, NULL);
}

/* The first commit of a connection always writes, to sync the log: a killed process may have left data that we can read
 * but that a power cut could undo. */
enum sqlite_result sqlite_file_commit(struct sqlite_file *f)
{
	bool is_counted = !f->is_synced || sqlite3_total_changes64(f->db) != f->changes;
	enum sqlite_result result = is_counted ? count_commit(f) : SQLITE_FILE_FINE;

	if (result == SQLITE_FILE_FINE)
		result = sqlite_file_run(f, "COMMIT", NULL, 0, NULL, NULL);
	if (result == SQLITE_FILE_FINE && has_moved(f))
		result = fail_moved(f);
	f->is_synced |= result == SQLITE_FILE_FINE;
	f->commits += is_counted && result == SQLITE_FILE_FINE;
	return result == SQLITE_FILE_REFUSED ? SQLITE_FILE_TROUBLE : result;
}

int64_t sqlite_file_commits(const struct sqlite_file *f)
{
	return f->commits;
}

uint32_t sqlite_file_epoch(const struct sqlite_file *f)
{
	return (uint32_t)(f->commits >> EPOCH_BITS) + 1;
}

void sqlite_file_begin_epoch(struct sqlite_file *f, int64_t seen)
{
	f->commits = ((seen >> EPOCH_BITS) + 1) << EPOCH_BITS;
	f->is_synced = false;
}

void sqlite_file_roll_back(struct sqlite_file *f)
{
	if (!sqlite3_get_autocommit(f->db))
		sqlite3_exec(f->db, "ROLLBACK", NULL, NULL, NULL);
}

bool sqlite_file_is_undone(const struct sqlite_file *f)
{
	return sqlite3_get_autocommit(f->db);
}

/* --- opening --- */

static enum sqlite_result execute(struct sqlite_file *f, const char *sql)
{
	int code = sqlite3_exec(f->db, sql, NULL, NULL, NULL);

	return code ? explain(f, sqlite3_extended_errcode(f->db)) : SQLITE_FILE_FINE;
}

/* Sets *is_empty if the file has no content, so that it may become ours. */
static enum sqlite_result identify(struct sqlite_file *f, bool *is_empty)
{
	int64_t application = 0, version = 0, objects = 0;
	enum sqlite_result result = ask(f, "PRAGMA application_id", &application);

	if (result == SQLITE_FILE_FINE)
		result = ask(f, "PRAGMA user_version", &version);
	if (result == SQLITE_FILE_FINE)
		result = ask(f, "SELECT count(*) FROM sqlite_schema", &objects);
	if (result != SQLITE_FILE_FINE)
		return result;
	*is_empty = !application && !version && !objects;
	if (*is_empty)
		return SQLITE_FILE_FINE;
	if (application != APPLICATION_ID)
		return fail(f, SQLITE_FILE_WRONG, "belongs to another program: give --store a file of its own");
	if (version > VERSION)
		return fail(f, SQLITE_FILE_WRONG, "was made by a newer wsonce: use that version");
	return SQLITE_FILE_FINE;
}

/* Prepares the statements with which a listener writes. SQLite refuses ON CONFLICT if the unique key is missing. */
static enum sqlite_result check_tables(struct sqlite_file *f)
{
	static const char *const probes[] = {
		SQL_SQLITE_INSERT,
		SQL_SQLITE_WRITE_DEAD_LETTERS,
		SQL_SQLITE_PUT_CURSOR,
		SQL_SQLITE_HERE,
		"SELECT resolution, retried_at FROM dead_letters",
		"SELECT rows_deleted_s FROM wsonce_retention",
		"UPDATE wsonce_database SET opened = opened + 1 WHERE is_only",
	};
	sqlite3_stmt *statement;

	for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++) {
		int code = sqlite3_prepare_v2(f->db, probes[i], -1, &statement, NULL);

		sqlite3_finalize(statement);
		if (code == SQLITE_ERROR) {
			char what[200];

			snprintf(what, sizeof(what), "has tables that wsonce did not make: %.120s",
				 sqlite3_errmsg(f->db));
			return fail(f, SQLITE_FILE_WRONG, what);
		}
		if (code)
			return explain(f, sqlite3_extended_errcode(f->db));
	}
	return SQLITE_FILE_FINE;
}

/* A transaction keeps other processes from creating the tables at the same time. */
static enum sqlite_result make_tables(struct sqlite_file *f)
{
	bool is_empty = false;
	char marks[100];
	enum sqlite_result result = execute(f, "BEGIN IMMEDIATE");

	if (result == SQLITE_FILE_FINE)
		result = identify(f, &is_empty);
	snprintf(marks, sizeof(marks), "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID, VERSION);
	if (result == SQLITE_FILE_FINE && is_empty)
		result = execute(f, SQL_SQLITE_SCHEMA);
	if (result == SQLITE_FILE_FINE && is_empty)
		result = execute(f, marks);
	if (result == SQLITE_FILE_FINE)
		result = execute(f, "COMMIT");
	sqlite_file_roll_back(f);
	return result;
}

/* Syncs the folder: the file's name must be on the disk before anything is acknowledged. */
static enum sqlite_result sync_folder(struct sqlite_file *f)
{
	int fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = fd >= 0 && fsync(fd) && errno != EINVAL;

	if (fd >= 0)
		close(fd);
	return failed ? fail(f, SQLITE_FILE_TROUBLE, "is in a folder that cannot be synced") : SQLITE_FILE_FINE;
}

/* In a folder where everybody may write, such as /tmp, a file of another user would show the events to that user.
 * Opening a pipe would block. */
static bool is_strange(const struct sqlite_file *f, const char *suffix)
{
	char *name = memory_printf("%s%s", f->path, suffix);
	struct stat st, folder;
	bool is_there = lstat(name, &st) == 0 && stat(f->folder, &folder) == 0;

	free(name);
	return is_there && (S_ISFIFO(st.st_mode) || (folder.st_mode & S_IWOTH && st.st_uid != geteuid()));
}

static enum sqlite_result check_owner(struct sqlite_file *f)
{
	if (is_strange(f, "") || is_strange(f, "-wal") || is_strange(f, "-shm") || is_strange(f, "-journal"))
		return fail(f, SQLITE_FILE_WRONG,
			    "or its -wal, -shm or -journal is another user's or a pipe: use a folder of your own");
	return SQLITE_FILE_FINE;
}

static bool take_id(void *arg, const struct sqlite_value *cells, int n)
{
	struct sqlite_file *f = arg;

	(void)n;
	snprintf(f->id, sizeof(f->id), "%s", cells[0].at);
	return false;
}

static bool take_mode(void *arg, const struct sqlite_value *cells, int n)
{
	(void)n;
	*(bool *)arg = strcmp(cells[0].at, "wal") == 0;
	return false;
}

/* synchronous = FULL, so that a commit is on the disk before it is acknowledged. The cache is large because ids come in
 * random order, so any page of their index may be needed. */
static enum sqlite_result set_up(struct sqlite_file *f)
{
	bool is_wal = false;
	enum sqlite_result result = sqlite_file_run(f, "PRAGMA journal_mode = WAL", NULL, 0, take_mode, &is_wal);

	if (result == SQLITE_FILE_FINE && !is_wal)
		result = fail(f, SQLITE_FILE_WRONG, "is on a file system without write-ahead logs: use a local disk");
	if (result == SQLITE_FILE_FINE)
		result = execute(f, "PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;"
				    "PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;"
				    "PRAGMA cell_size_check = ON");
	return result;
}

static enum sqlite_result look(struct sqlite_file *f, bool may_create)
{
	bool is_empty = false;
	enum sqlite_result result = identify(f, &is_empty);

	if (result == SQLITE_FILE_FINE && sqlite3_db_readonly(f->db, "main"))
		result = fail(f, SQLITE_FILE_WRONG, "cannot be written by this user: check its rights");
	if (result == SQLITE_FILE_FINE && is_empty && !may_create)
		result = fail(f, SQLITE_FILE_WRONG, "has no tables of wsonce: check --store");
	if (result == SQLITE_FILE_FINE)
		result = set_up(f);
	if (result == SQLITE_FILE_FINE)
		result = check_owner(f); /* of -wal and -shm, which SQLite has made by now */
	if (result == SQLITE_FILE_FINE && is_empty)
		result = make_tables(f);
	if (result == SQLITE_FILE_FINE)
		result = sync_folder(f);
	if (result == SQLITE_FILE_FINE)
		result = check_tables(f);
	if (result == SQLITE_FILE_FINE)
		result = sqlite_file_run(f, "SELECT id FROM wsonce_database", NULL, 0, take_id, f);
	return result;
}

/* Opens the path with symbolic links in its folder resolved: SQLITE_OPEN_NOFOLLOW would refuse those, too. Creates the
 * file with mode 0600, which SQLite copies to -wal and -shm. */
static enum sqlite_result open_database(struct sqlite_file *f, bool may_create)
{
	char *folder = realpath(f->folder, NULL), *copy = memory_strdup(f->path);
	char *path = memory_printf("%s/%s", folder ? folder : f->folder, basename(copy));
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, fd = -1, code;

	if (may_create)
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	code = sqlite3_open_v2(path, &f->db, flags | (may_create ? SQLITE_OPEN_CREATE : 0), NULL);
	free(folder);
	free(copy);
	free(path);
	memory_given(f->db, "sqlite");
	sqlite3_extended_result_codes(f->db, 1);
	sqlite3_busy_handler(f->db, on_busy, f);
	sqlite_file_add_function(f, "wsonce_sort_key", key_of_json, true);
	return code ? explain(f, sqlite3_extended_errcode(f->db)) : look(f, may_create);
}

struct sqlite_file *sqlite_file_open(const char *path, bool may_create, const atomic_bool *is_leaving,
				     enum sqlite_result *result, char *why)
{
	struct sqlite_file *f = memory_calloc(1, sizeof(*f));
	char *copy = memory_strdup(path);

	f->path = memory_strdup(path);
	f->folder = memory_strdup(dirname(copy));
	free(copy);
	f->is_leaving = is_leaving;
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS,
		       0); /* the statistics take a global lock; has an effect before the first open only */
	*result = check_owner(f);
	if (*result == SQLITE_FILE_FINE)
		*result = open_database(f, may_create);
	if (*result == SQLITE_FILE_FINE)
		return f;
	if (*result == SQLITE_FILE_TROUBLE && f->code != SQLITE_FULL && f->code != SQLITE_IOERR)
		*result = SQLITE_FILE_WRONG; /* when first opening the file, fail instead of trying for ever */
	snprintf(why, SQLITE_FILE_WHY, "%s", f->why);
	sqlite_file_close(f);
	return NULL;
}

void sqlite_file_close(struct sqlite_file *f)
{
	if (!f)
		return;
	for (int i = 0; i < f->statement_count; i++)
		sqlite3_finalize(f->statements[i].prepared);
	sqlite3_close(f->db);
	free(f->path);
	free(f->folder);
	free(f);
}

const char *sqlite_file_id(const struct sqlite_file *f)
{
	return f->id;
}

/* --- values --- */

struct sqlite_value sqlite_text(const char *at, size_t len)
{
	return (struct sqlite_value){SQLITE_FILE_TEXT, at, len, 0};
}

struct sqlite_value sqlite_string(const char *text)
{
	return text ? sqlite_text(text, strlen(text)) : (struct sqlite_value){SQLITE_FILE_NULL, "", 0, 0};
}

/* SQLite binds a null pointer as NULL, even with length 0. */
struct sqlite_value sqlite_bytes(const char *at, size_t len)
{
	return (struct sqlite_value){SQLITE_FILE_BYTES, len ? at : "", len, 0};
}

/* Formats the second only when it changes: most times in a batch share it. */
struct sqlite_value sqlite_time(int64_t us, char *text)
{
	static _Thread_local char known[SQLITE_TIME];
	static _Thread_local time_t known_s;
	time_t seconds = (time_t)(us / 1000000);
	int rest = (int)(us % 1000000);
	struct tm tm;

	if (!*known || seconds != known_s) {
		gmtime_r(&seconds, &tm);
		strftime(known, sizeof(known), "%Y-%m-%dT%H:%M:%S.000000Z", &tm);
		known_s = seconds;
	}
	memcpy(text, known, SQLITE_TIME);
	for (int i = 25; i > 19; i--, rest /= 10)
		text[i] = (char)('0' + rest % 10);
	return sqlite_text(text, strlen(text));
}
