/* ndjson.h: a file or a pipe, line by line, in bounded memory and without waiting. */
#ifndef WSONCE_NDJSON_H
#define WSONCE_NDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ndjson;

/* One line, without its end ("\n" or "\r\n"). Lives until the next call. */
struct ndjson_line {
	const char *bytes;
	size_t len;
	const uint8_t *digest; /* SHA-256 of the whole, if it is over the limit and bytes are only its head */
	uint64_t total;        /* bytes of the whole then */
	uint64_t begin;        /* where it begins in the file */
	uint64_t end;          /* where the next one does */
	uint64_t number;       /* from 1, of those read here */
	bool is_ended;         /* by a newline: else it is the last, and may be half of what is to come */
};

enum ndjson_result { NDJSON_LINE, NDJSON_END, NDJSON_LATER, NDJSON_FAILED };

/* Opens path, or standard input if it is "-". max_bytes: of a line; more is too long. NULL after
 * saying why. */
struct ndjson *ndjson_open(const char *path, size_t max_bytes);
void ndjson_close(struct ndjson *l);

/* The next line that is not empty. NDJSON_LATER: a pipe has nothing just now, or there was no line in many
 * megabytes. NDJSON_FAILED: it cannot be read, which has been told. */
enum ndjson_result ndjson_next(struct ndjson *l, struct ndjson_line *line);

/* The same, waiting for it. */
enum ndjson_result ndjson_wait(struct ndjson *l, struct ndjson_line *line);

/* Goes to an offset: of a file at once, of a pipe by reading so far. Returns 0; or -1 after saying
 * why, also if it ends before. */
int ndjson_skip(struct ndjson *l, uint64_t offset);

/* The SHA-256 of its first bytes, at most a few thousand and at most up_to, in hex: by that it is known
 * again when it has grown. up_to is not beyond what was read or skipped. Returns -1 after saying why. */
int ndjson_fingerprint(struct ndjson *l, uint64_t up_to, char hex[65]);

/* The same of the bytes before an offset, up to some thousands, so that it is known whether the file is still the one
 * that was read; of a pipe it is "". */
int ndjson_before(struct ndjson *l, uint64_t offset, char hex[65]);

/* Is path the same file, by whatever name? */
bool ndjson_is_file(const struct ndjson *l, const char *path);

/* Bytes in all; 0 if that is not known, of a pipe. */
uint64_t ndjson_size(const struct ndjson *l);

#endif
