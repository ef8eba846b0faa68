/* Permissions of SQLite files, and links in their paths. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "cursor_order.h"
#include "sqlite/file.h"
#include "sqlite_insert.sql.h"
#include "sqlite_put_cursor.sql.h"
#include "unit.h"

static char folder[] = "/tmp/wsonce-file-XXXXXX";
static char path[64], other[64], why[SQLITE_FILE_WHY];

static void set_up(void)
{
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.db", folder);
	snprintf(other, sizeof(other), "%s/other.db", folder);
}

static void tear_down(void)
{
	unlink(path);
	unlink(other);
	rmdir(folder);
}

TestSuite(sqlite_file, .init = set_up, .fini = tear_down, .timeout = 60);

static struct sqlite_file *open_file(const char *at)
{
	enum sqlite_result result;

	return sqlite_file_open(at, true, NULL, &result, why);
}

Test(sqlite_file, a_new_one_is_its_user_s_alone)
{
	struct stat st;

	umask(0);
	struct sqlite_file *f = open_file(path);
	cr_assert(f);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	sqlite_file_close(f);
}

Test(sqlite_file, a_link_is_not_followed)
{
	cr_assert_eq(symlink(other, path), 0);
	cr_assert_null(open_file(path));
	cr_assert_not_null(strstr(why, "is a symbolic link"), "%s", why);
	cr_assert_neq(access(other, F_OK), 0);
}

Test(sqlite_file, a_link_to_its_folder_is)
{
	char link[80], at[100];

	snprintf(link, sizeof(link), "%s.link", folder);
	snprintf(at, sizeof(at), "%s/events.db", link);
	cr_assert_eq(symlink(folder, link), 0);
	struct sqlite_file *f = open_file(at);
	unlink(link);
	cr_assert(f);
	sqlite_file_close(f);
}

/* Returns true if the file can be opened beside one of another user at this path, in a folder of that mode. */
static bool opens_beside(const char *suffix, mode_t mode)
{
	char strange[80];

	snprintf(strange, sizeof(strange), "%s%s", path, suffix);
	int fd = open(strange, O_CREAT | O_EXCL | O_RDWR, 0666);
	cr_assert(fd >= 0 && fchown(fd, 65534, 65534) == 0 && close(fd) == 0 && chmod(folder, mode) == 0);
	struct sqlite_file *f = open_file(path);
	bool is_open = f;
	sqlite_file_close(f);
	unlink(path);
	unlink(strange);
	return is_open;
}

Test(sqlite_file, another_user_s_is_not_used_where_everybody_may_write)
{
	if (geteuid())
		return; /* only root can make a file of another user */
	cr_assert_not(opens_beside("", 01777));
	cr_assert_not(opens_beside("-wal", 01777));
	cr_assert_not(opens_beside("-shm", 01777));
	cr_assert(opens_beside("", 0755));
	cr_assert(opens_beside(".bak", 01777));
}

Test(sqlite_file, a_pipe_is_refused_at_once)
{
	enum sqlite_result result;

	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_null(sqlite_file_open(path, true, NULL, &result, why));
	cr_assert(result == SQLITE_FILE_WRONG && strstr(why, "a pipe"), "%s", why);
}

static enum sqlite_result write_once(struct sqlite_file *f)
{
	return sqlite_file_run(f, "UPDATE wsonce_retention SET rows_deleted_s = 7", NULL, 0, NULL, NULL);
}

static void delete_log(void)
{
	char log[80];

	snprintf(log, sizeof(log), "%s-wal", path);
	cr_assert_eq(unlink(log), 0);
	snprintf(log, sizeof(log), "%s-shm", path);
	cr_assert_eq(unlink(log), 0);
}

/* For example, a backup was copied over the file and the log deleted: what is written to that log is lost. */
Test(sqlite_file, nothing_is_committed_to_a_log_that_was_deleted)
{
	struct sqlite_file *f = open_file(path);

	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_commit(f), SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_FINE);
	cr_assert_eq(write_once(f), SQLITE_FILE_FINE);
	delete_log();
	cr_assert_eq(sqlite_file_commit(f), SQLITE_FILE_TROUBLE);
	cr_assert(strstr(sqlite_file_why(f), "is gone"), "%s", sqlite_file_why(f));
	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_TROUBLE);
	sqlite_file_close(f);
}

Test(sqlite_file, a_column_that_is_gone_is_no_row_s_fault)
{
	static const char sql[] = "UPDATE wsonce_retention SET rows_deleted_s = 7";
	struct sqlite_file *f = open_file(path), *other_one = open_file(path);

	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_run(f, sql, NULL, 0, NULL, NULL), SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_commit(f), SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_run_all(other_one, "ALTER TABLE wsonce_retention RENAME COLUMN rows_deleted_s TO x",
					 NULL, 0, NULL, NULL),
		     SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_FINE);
	cr_assert_eq(sqlite_file_run(f, sql, NULL, 0, NULL, NULL), SQLITE_FILE_TROUBLE);
	cr_assert(strstr(sqlite_file_why(f), "no such column"), "%s", sqlite_file_why(f));
	sqlite_file_roll_back(f);
	sqlite_file_close(other_one);
	sqlite_file_close(f);
}

/* Runs statements as another program would, with SQLite's own settings. */
static void run_elsewhere(const char *sql)
{
	sqlite3 *db = NULL;

	cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void must_insert(struct sqlite_file *f, const char *id)
{
	const struct sqlite_value values[] = {sqlite_string(id),    sqlite_string("t"),  sqlite_string("{\"x\":1}"),
					      sqlite_string("now"), sqlite_string(NULL), sqlite_string("i"),
					      sqlite_string("now"), sqlite_string(NULL)};

	cr_assert(f);
	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_FINE, "%s", sqlite_file_why(f));
	cr_assert_eq(sqlite_file_run(f, SQL_SQLITE_INSERT, values, 8, NULL, NULL), SQLITE_FILE_FINE, "%s",
		     sqlite_file_why(f));
	cr_assert_eq(sqlite_file_commit(f), SQLITE_FILE_FINE, "%s", sqlite_file_why(f));
}

/* With PRAGMA trusted_schema = OFF, SQLite calls a file with such an index corrupt. */
Test(sqlite_file, an_index_and_a_trigger_on_the_payload_s_members_hold_up_nothing)
{
	struct sqlite_file *f = open_file(path);

	must_insert(f, "before");
	run_elsewhere("CREATE INDEX x ON events (payload ->> '$.x'); CREATE TABLE seen (x);"
		      "CREATE TRIGGER seen AFTER INSERT ON events BEGIN INSERT INTO seen VALUES "
		      "(json_extract(new.payload, '$.x')); END");
	must_insert(f, "after");
	sqlite_file_close(f);
	f = open_file(path);
	must_insert(f, "opened again");
	sqlite_file_close(f);
}

static enum sqlite_result put_cursor(struct sqlite_file *f, const char *source, const char *value)
{
	const struct sqlite_value values[] = {sqlite_string(source), sqlite_string(""),   sqlite_string("max/n"),
					      sqlite_string(value),  sqlite_string(NULL), sqlite_string("i"),
					      sqlite_string("now")};

	return sqlite_file_run(f, SQL_SQLITE_PUT_CURSOR, values, 7, NULL, NULL);
}

Test(sqlite_file, larger_cursor_replaces_a_smaller_one)
{
	struct sqlite_file *f = open_file(path);

	cr_assert_eq(sqlite_file_begin(f), SQLITE_FILE_FINE);
	for (size_t i = 0; i < CURSORS_IN_ORDER; i++)
		for (size_t j = 0; j < CURSORS_IN_ORDER; j++) {
			const char *old = cursor_in_order(i), *new = cursor_in_order(j);
			char source[40];

			snprintf(source, sizeof(source), "%zu-%zu", i, j);
			cr_assert_eq(put_cursor(f, source, old), SQLITE_FILE_FINE);
			cr_assert_eq(put_cursor(f, source, new), SQLITE_FILE_FINE, "%s", sqlite_file_why(f));
			cr_expect_eq(sqlite_file_changed(f), cursor_is_beyond(i, j), "%s after %s", new, old);
		}
	sqlite_file_close(f);
}
