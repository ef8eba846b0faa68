/* file.h: an SQLite file of wsonce. Calls may wait for the disk or another process, so never make them on the loop. */
#ifndef WSONCE_SQLITE_FILE_H
#define WSONCE_SQLITE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQLITE_FILE_WHY 300 /* bytes for a reason */

struct sqlite_file;

/* The result of a call, which says what the caller must do. */
enum sqlite_result {
	SQLITE_FILE_FINE,
	SQLITE_FILE_REFUSED, /* this statement failed; the transaction goes on, unless sqlite_file_is_undone() */
	SQLITE_FILE_BUSY,    /* another process writes; nothing was done: try again */
	SQLITE_FILE_TROUBLE, /* such as a full or broken disk; the outcome is unknown: roll back or reopen, try again */
	SQLITE_FILE_WRONG,   /* this file will never work with this program */
};

enum sqlite_type { SQLITE_FILE_NULL, SQLITE_FILE_TEXT, SQLITE_FILE_BYTES };

/* A parameter, or a cell of a row. */
struct sqlite_value {
	enum sqlite_type type;
	const char *at; /* valid during the call or callback; a cell's ends with a NUL */
	size_t len;
	int64_t number;
};

/* Called for each row. Returns false to stop. */
typedef bool sqlite_row_fn(void *arg, const struct sqlite_value *cells, int n);

/* Opens the file, or creates it if may_create. Returns NULL after setting *result and why (SQLITE_FILE_WHY bytes).
 * While *is_leaving is true, no call waits for other processes; is_leaving may be NULL. */
struct sqlite_file *sqlite_file_open(const char *path, bool may_create, const atomic_bool *is_leaving,
				     enum sqlite_result *result, char *why);
/* f may be NULL. */
void sqlite_file_close(struct sqlite_file *f);

/* Returns the id of the file, valid as long as f. */
const char *sqlite_file_id(const struct sqlite_file *f);

/* A transaction that may write. sqlite_file_begin waits up to half a second for other processes. Once
 * sqlite_file_commit returns SQLITE_FILE_FINE, everything that the transaction wrote or read is on the disk. */
enum sqlite_result sqlite_file_begin(struct sqlite_file *f);
enum sqlite_result sqlite_file_commit(struct sqlite_file *f);
void sqlite_file_roll_back(struct sqlite_file *f);
/* Returns the file's number of commits as the open transaction found it, or as the last commit left it. If it is lower
 * than one that the process has seen, the file has lost commits (a backup was restored): begin a new epoch, which other
 * processes will find. */
int64_t sqlite_file_commits(const struct sqlite_file *f);
uint32_t sqlite_file_epoch(const struct sqlite_file *f);
void sqlite_file_begin_epoch(struct sqlite_file *f, int64_t seen);
/* True if no transaction is open, because none was begun or SQLite rolled it back. */
bool sqlite_file_is_undone(const struct sqlite_file *f);

/* Runs one statement with parameters ?1 to ?n. It is prepared once, so sql must live as long as f. row may be NULL.
 * sqlite_file_changed returns the number of rows it wrote. */
enum sqlite_result sqlite_file_run(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				   sqlite_row_fn *row, void *arg);
int64_t sqlite_file_changed(const struct sqlite_file *f);

/* Runs all statements of sql with the same parameters, without keeping them prepared. row gets the rows of every
 * statement. */
enum sqlite_result sqlite_file_run_all(struct sqlite_file *f, const char *sql, const struct sqlite_value *values, int n,
				       sqlite_row_fn *row, void *arg);

/* An SQL function of one text or BLOB. Writes to out, which has room for 3 * len + 32 bytes, and returns the number of
 * bytes written. */
typedef size_t sqlite_function(const char *in, size_t len, char *out);
void sqlite_file_add_function(struct sqlite_file *f, const char *name, sqlite_function *function, bool is_bytes);

/* Returns why the last call failed, valid until the next call. */
const char *sqlite_file_why(const struct sqlite_file *f);

struct sqlite_value sqlite_text(const char *at, size_t len);
/* A null pointer becomes SQL NULL. */
struct sqlite_value sqlite_string(const char *text);
struct sqlite_value sqlite_bytes(const char *at, size_t len);

/* Formats a time (us since 1970) for the tables. text has SQLITE_TIME bytes. */
#define SQLITE_TIME 48
struct sqlite_value sqlite_time(int64_t us, char *text);

#endif
