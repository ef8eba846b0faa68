/* file.h: an SQLite file of wsonce. Every call may wait for the disk or for another process: none is for the loop. */
#ifndef WSONCE_SQLITE_FILE_H
#define WSONCE_SQLITE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQLITE_FILE_WHY 300 /* bytes of a reason */

struct sqlite_file;

/* What came of a call, by what has to be done about it. */
enum sqlite_result {
	SQLITE_FILE_FINE,
	SQLITE_FILE_REFUSED, /* this statement alone; the transaction goes on, unless sqlite_file_is_undone() */
	SQLITE_FILE_BUSY,    /* another process writes: nothing was done, try again */
	SQLITE_FILE_TROUBLE, /* the disk is full or broken, say: nothing is sure, roll back or open anew, and try again
			      */
	SQLITE_FILE_WRONG,   /* not a file that this program can work with, whatever time passes */
};

enum sqlite_type { SQLITE_FILE_NULL, SQLITE_FILE_TEXT, SQLITE_FILE_BYTES };

/* A parameter, or a cell of a row. */
struct sqlite_value {
	enum sqlite_type type;
	const char *at; /* of a parameter, must live for the call; of a cell, for the callback, and ended by NUL */
	size_t len;
	int64_t number;
};

/* Takes a row. Returns whether to go on. */
typedef bool sqlite_row_fn(void *arg, const struct sqlite_value *cells, int n);

/* Opens the file, which is made if there is none and may_create. NULL: *result and why, SQLITE_FILE_WHY bytes, say what
 * is wrong. While *is_leaving, nothing waits for other processes; NULL: that never happens. */
struct sqlite_file *sqlite_file_open(const char *path, bool may_create, const atomic_bool *is_leaving,
				     enum sqlite_result *result, char *why);
/* NULL is nothing to close. */
void sqlite_file_close(struct sqlite_file *f);

/* Which file this is; lives as long as f. */
const char *sqlite_file_id(const struct sqlite_file *f);

/* A transaction that writes. sqlite_file_begin waits for other processes for a moment. What sqlite_file_commit says is
 * fine is on the disk, with all that was read in the transaction. */
enum sqlite_result sqlite_file_begin(struct sqlite_file *f);
enum sqlite_result sqlite_file_commit(struct sqlite_file *f);
void sqlite_file_roll_back(struct sqlite_file *f);
/* The count of commits, kept in the file: as the transaction at work found it, or the last commit left it. A
 * transaction that finds fewer than the process has seen is in a file that has forgotten commits, as a backup has that
 * was restored: an epoch begins with it, which other processes find as well. */
int64_t sqlite_file_commits(const struct sqlite_file *f);
uint32_t sqlite_file_epoch(const struct sqlite_file *f);
void sqlite_file_begin_epoch(struct sqlite_file *f, int64_t seen);
/* Has the transaction ended by itself? */
bool sqlite_file_is_undone(const struct sqlite_file *f);

/* Runs one statement with parameters ?1 to ?n, whose text lives as long as f: it is prepared once. row may be NULL.
 * sqlite_file_changed tells how many rows it wrote. */
enum sqlite_result sqlite_file_run(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				   sqlite_row_fn *row, void *arg);
int64_t sqlite_file_changed(const struct sqlite_file *f);

/* Runs all statements of sql, which are not kept prepared, with the same parameters. row gets the rows of each. */
enum sqlite_result sqlite_file_run_all(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				       sqlite_row_fn *row, void *arg);

/* A function of one argument in SQL: of a text, or of bytes. out has room for three times as many and 32 more; it
 * returns how many it has put there. */
typedef size_t sqlite_function(const char *in, size_t len, char *out);
void sqlite_file_add_function(struct sqlite_file *f, const char *name, sqlite_function *function, bool is_bytes);

/* Why the last call was not fine; lives until the next. */
const char *sqlite_file_why(const struct sqlite_file *f);

struct sqlite_value sqlite_text(const char *at, size_t len);
/* NULL becomes NULL. */
struct sqlite_value sqlite_string(const char *text);
struct sqlite_value sqlite_bytes(const char *at, size_t len);

/* This moment as the tables have it: the text is put into SQLITE_TIME bytes. us since 1970. */
#define SQLITE_TIME 48
struct sqlite_value sqlite_time(int64_t us, char *text);

#endif
