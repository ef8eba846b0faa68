/* ndjson.h: a file or a pipe, line by line, or by the records of a segment (docs/spool.md), in bounded memory and
 * without waiting. */
#ifndef WSONCE_NDJSON_H
#define WSONCE_NDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "spool/record.h"

#define NDJSON_UNLIMITED (SIZE_MAX - 1)

struct ndjson;

/* One line, without its end ("\n" or "\r\n"), or the message of a record. Lives until the next call. */
struct ndjson_line {
	const char *bytes;
	size_t len;
	uint64_t begin;              /* offset in the file */
	uint64_t end;                /* offset of the next line */
	uint64_t number;             /* number of the line, from 1 */
	bool is_ended;               /* it ends with a newline; if not, it is the last line and may still be growing */
	const struct record *record; /* record of a segment; else NULL */
};

enum ndjson_result {
	NDJSON_LINE,
	NDJSON_END,
	NDJSON_DAMAGED, /* the end; unreadable lines or records were skipped, which was printed */
	NDJSON_LATER,
	NDJSON_FAILED,
};

/* Opens path, or standard input if it is "-". Lines over max_bytes are left out. Returns NULL after printing why. */
struct ndjson *ndjson_open(const char *path, size_t max_bytes);
void ndjson_close(struct ndjson *l);

/* Copies a pipe to a temporary file, to read it twice. Call it before the first line. Returns -1 after printing why. */
int ndjson_keep(struct ndjson *l);

/* Returns the next line that is not empty. NDJSON_LATER: a pipe has no whole line now, or many megabytes had none.
 * NDJSON_FAILED: it cannot be read, and the reason was printed. */
enum ndjson_result ndjson_next(struct ndjson *l, struct ndjson_line *line);
/* The same, but waits and never returns NDJSON_LATER. */
enum ndjson_result ndjson_wait(struct ndjson *l, struct ndjson_line *line);

/* Goes to an offset; in a pipe, reads up to it. Returns 0; or -1 after printing why, also if the file ends before it.
 */
int ndjson_skip(struct ndjson *l, uint64_t offset);

/* Writes a SHA-256, in hex, by which the file is recognized after it has grown: of up to 16 KiB before the offset, or
 * of the first 4 KiB of a pipe. The offset must not be beyond what was read or skipped. Returns -1 after printing why.
 */
int ndjson_fingerprint(struct ndjson *l, uint64_t offset, char hex[65]);

/* True if path, or path with .part appended, is the file that is read, even under another name. */
bool ndjson_would_lose(const struct ndjson *l, const char *path);

/* Returns the message of a record. If a profile has read it, writes into event a line as of export. */
struct slice ndjson_message(struct bytes *event, const struct record *r);

/* Writes a message as a line. Newlines, which JSON has between tokens only, become blanks, and unless it is a line of
 * export, a blank precedes what would be read as such, a segment or a compressed file. False: it cannot write. */
bool ndjson_write(FILE *out, const char *message, size_t len, bool is_exported);

/* Returns its length in bytes, or 0 if it is a pipe. */
uint64_t ndjson_size(const struct ndjson *l);

#endif
