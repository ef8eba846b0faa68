/* ndjson.c owns the reading of a file by lines: where each begins and ends, and what is too long. What
 * lines mean is for others. */
#include "commands/ndjson.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands/dispatch.h"

#define CHUNK_BYTES  65536
#define HEAD_BYTES   4096        /* kept of a line that is over the limit, as of such a message */
#define FIRST_BYTES  4096        /* that a file is known by */
#define BEFORE_BYTES 16384       /* before an offset that the file is known by, too */
#define TURN_BYTES   (16u << 20) /* read without a line: then the caller has a turn, with its signals */

struct ndjson {
	int fd;
	char *path;
	bool is_file;
	bool is_at_end;
	size_t max_bytes;
	char *bytes; /* what was read: [from, to) is not yet handed out */
	size_t size;
	size_t from;
	size_t to;
	size_t turn;     /* bytes read since the last line, or NDJSON_LATER, was handed out */
	uint64_t offset; /* in the file, of bytes[from] */
	uint64_t count;  /* lines handed out */
	char first[FIRST_BYTES];
	size_t first_len;
	EVP_MD_CTX *digest; /* of a line over the limit; NULL: none is at hand */
	bool has_cr;        /* it ends, so far, in a \r that is not yet in the digest */
	uint64_t total;
	uint64_t begin;
	char head[HEAD_BYTES];
	uint8_t sha256[SHA256_BYTES];
};

static enum ndjson_result fail(const struct ndjson *l, const char *what)
{
	dispatch_fail("%s: %s", l->path, what);
	return NDJSON_FAILED;
}

/* --- life --- */

struct ndjson *ndjson_open(const char *path, size_t max_bytes)
{
	struct ndjson *l = memory_calloc(1, sizeof(*l));
	struct stat st;

	l->path = memory_strdup(strcmp(path, "-") == 0 ? "standard input" : path);
	l->max_bytes = max_bytes;
	l->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0 || fstat(l->fd, &st)) {
		dispatch_fail("%s: %s", path, strerror(errno));
		ndjson_close(l);
		return NULL;
	}
	if (S_ISDIR(st.st_mode)) {
		fail(l, "is a folder");
		ndjson_close(l);
		return NULL;
	}
	l->is_file = S_ISREG(st.st_mode);
	if (l->is_file)
		l->offset = (uint64_t)lseek(l->fd, 0, SEEK_CUR);
	return l;
}

void ndjson_close(struct ndjson *l)
{
	if (!l)
		return;
	if (l->fd >= 0)
		close(l->fd);
	EVP_MD_CTX_free(l->digest);
	free(l->bytes);
	free(l->path);
	free(l);
}

uint64_t ndjson_size(const struct ndjson *l)
{
	struct stat st;

	return l->is_file && fstat(l->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

bool ndjson_is_file(const struct ndjson *l, const char *path)
{
	struct stat ours, other;

	return l->is_file && fstat(l->fd, &ours) == 0 && stat(path, &other) == 0 && ours.st_dev == other.st_dev &&
	       ours.st_ino == other.st_ino;
}

/* --- reading --- */

/* Makes room for a chunk behind what is there. */
static void reserve(struct ndjson *l)
{
	size_t held = l->to - l->from;

	if (l->from) {
		memmove(l->bytes, l->bytes + l->from, held);
		l->from = 0;
		l->to = held;
	}
	if (l->size - held >= CHUNK_BYTES)
		return;
	l->size = held * 2 + CHUNK_BYTES;
	l->bytes = memory_realloc(l->bytes, l->size);
}

static void keep_first(struct ndjson *l, uint64_t offset, const char *bytes, size_t len)
{
	size_t n = FIRST_BYTES - l->first_len;

	if (offset != l->first_len)
		return;
	n = n < len ? n : len;
	memcpy(l->first + l->first_len, bytes, n);
	l->first_len += n;
}

/* What a file that is no text of lines in UTF-8 begins with; NULL if it does not. */
static const char *find_magic(const char *bytes, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *what;
	} kinds[] = {
		{"\x1f\x8b", 2, "is compressed by gzip: give the output of zcat"},
		{"\x28\xb5\x2f\xfd", 4, "is compressed by zstd: give the output of zstdcat"},
		{"\xff\xfe", 2, "is UTF-16: give it as UTF-8"},
		{"\xfe\xff", 2, "is UTF-16: give it as UTF-8"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (len >= kinds[i].len && memcmp(bytes, kinds[i].magic, kinds[i].len) == 0)
			return kinds[i].what;
	return NULL;
}

/* The first bytes came: those of a byte order mark are none of the first line. */
static enum ndjson_result look_at_first(struct ndjson *l)
{
	const char *magic = find_magic(l->bytes + l->from, l->to - l->from);

	if (magic)
		return fail(l, magic);
	if (l->to - l->from >= 3 && memcmp(l->bytes + l->from, "\xef\xbb\xbf", 3) == 0) {
		l->from += 3;
		l->offset += 3;
	}
	return NDJSON_LINE;
}

/* NDJSON_LINE: something came. */
static enum ndjson_result fill(struct ndjson *l)
{
	struct pollfd fd = {l->fd, POLLIN, 0};
	uint64_t offset;
	ssize_t n;

	if (l->turn >= TURN_BYTES || (!l->is_file && poll(&fd, 1, 0) == 0))
		return NDJSON_LATER;
	reserve(l);
	offset = l->offset + (l->to - l->from);
	n = l->is_file ? pread(l->fd, l->bytes + l->to, CHUNK_BYTES, (off_t)offset)
		       : read(l->fd, l->bytes + l->to, CHUNK_BYTES);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? NDJSON_LATER : fail(l, strerror(errno));
	if (n == 0) {
		l->is_at_end = true;
		return NDJSON_END;
	}
	keep_first(l, offset, l->bytes + l->to, (size_t)n);
	l->to += (size_t)n;
	l->turn += (size_t)n;
	return offset == 0 ? look_at_first(l) : NDJSON_LINE;
}

static void advance(struct ndjson *l, size_t n)
{
	l->from += n;
	l->offset += n;
}

/* --- lines over the limit --- */

static void begin_long(struct ndjson *l)
{
	l->digest = sha256_begin();
	l->total = 0;
	l->has_cr = false;
	l->begin = l->offset;
}

/* A \r counts only when something else than the end of the line follows. */
static void add_long(struct ndjson *l, const char *bytes, size_t len)
{
	bool ends_in_cr = len && bytes[len - 1] == '\r';
	size_t n;

	if (!len)
		return;
	if (l->has_cr)
		EVP_DigestUpdate(l->digest, "\r", 1);
	EVP_DigestUpdate(l->digest, bytes, len - ends_in_cr);
	l->has_cr = ends_in_cr;
	n = l->total < HEAD_BYTES ? HEAD_BYTES - (size_t)l->total : 0;
	memcpy(l->head + (HEAD_BYTES - n), bytes, n < len ? n : len);
	l->total += len;
}

static void end_long(struct ndjson *l, struct ndjson_line *line, bool is_ended)
{
	sha256_end(&l->digest, l->sha256);
	l->total -= l->has_cr;
	*line = (struct ndjson_line){l->head,    l->total < HEAD_BYTES ? (size_t)l->total : HEAD_BYTES,
				     l->sha256,  l->total,
				     l->begin,   l->offset,
				     ++l->count, is_ended};
}

/* --- lines --- */

/* Takes the rest of a line over the limit, as far as it is there. */
static enum ndjson_result next_long(struct ndjson *l, struct ndjson_line *line)
{
	enum ndjson_result result;

	for (;;) {
		size_t len = l->to - l->from;
		char *end = len ? memchr(l->bytes + l->from, '\n', len) : NULL;

		if (end)
			len = (size_t)(end - l->bytes) - l->from;
		if (len)
			add_long(l, l->bytes + l->from, len);
		advance(l, len + (end != NULL));
		result = end || l->is_at_end ? NDJSON_LINE : fill(l);
		if (result == NDJSON_END)
			continue;
		if (end || l->is_at_end)
			end_long(l, line, end);
		if (result != NDJSON_LINE || end || l->is_at_end)
			return result;
	}
}

/* A whole line of len bytes is there, then what ends it. */
static void take(struct ndjson *l, struct ndjson_line *line, size_t len, size_t with_end)
{
	const char *at = l->bytes + l->from;
	uint64_t begin = l->offset;
	bool is_ended = with_end > len;

	advance(l, with_end);
	if (len && at[len - 1] == '\r')
		len--;
	*line = (struct ndjson_line){at, len, NULL, len, begin, l->offset, ++l->count, is_ended};
}

static enum ndjson_result next_raw(struct ndjson *l, struct ndjson_line *line)
{
	size_t scanned = 0;

	if (l->digest)
		return next_long(l, line);
	for (;;) {
		size_t held = l->to - l->from;
		char *end = held > scanned ? memchr(l->bytes + l->from + scanned, '\n', held - scanned) : NULL;
		size_t len = end ? (size_t)(end - l->bytes) - l->from : held;
		enum ndjson_result result;

		if (len > l->max_bytes + 1 ||
		    (len > l->max_bytes && (end || l->is_at_end) && l->bytes[l->from + len - 1] != '\r')) {
			begin_long(l);
			return next_long(l, line);
		}
		if (end || (l->is_at_end && held)) {
			take(l, line, len, len + (end != NULL));
			return NDJSON_LINE;
		}
		if (l->is_at_end)
			return NDJSON_END;
		scanned = held;
		result = fill(l);
		if (result == NDJSON_LATER || result == NDJSON_FAILED)
			return result;
	}
}

enum ndjson_result ndjson_next(struct ndjson *l, struct ndjson_line *line)
{
	enum ndjson_result result;

	l->turn = 0;
	do
		result = next_raw(l, line);
	while (result == NDJSON_LINE && !line->len);
	return result;
}

enum ndjson_result ndjson_wait(struct ndjson *l, struct ndjson_line *line)
{
	enum ndjson_result result;

	while ((result = ndjson_next(l, line)) == NDJSON_LATER) {
		struct pollfd fd = {l->fd, POLLIN, 0};

		poll(&fd, 1, -1);
	}
	return result;
}

/* --- places in the file --- */

static int skip_file(struct ndjson *l, uint64_t offset)
{
	uint64_t ahead = offset - l->offset;

	if (offset > ndjson_size(l)) {
		fail(l, "ends before the place to go on from: is it another file?");
		return -1;
	}
	if (offset >= l->offset && ahead <= l->to - l->from) {
		advance(l, (size_t)ahead);
		return 0;
	}
	l->from = l->to = 0;
	l->offset = offset;
	l->is_at_end = false;
	return 0;
}

int ndjson_skip(struct ndjson *l, uint64_t offset)
{
	struct pollfd fd = {l->fd, POLLIN, 0};

	if (l->is_file)
		return skip_file(l, offset);
	while (l->offset < offset) {
		uint64_t ahead = offset - l->offset;
		enum ndjson_result result;

		if (l->from < l->to) {
			advance(l, ahead < l->to - l->from ? (size_t)ahead : l->to - l->from);
			continue;
		}
		poll(&fd, 1, -1);
		l->turn = 0;
		result = fill(l);
		if (result == NDJSON_END)
			fail(l, "ends before the place to go on from: is it another file?");
		if (result == NDJSON_END || result == NDJSON_FAILED)
			return -1;
	}
	return 0;
}

static void write_digest(const char *bytes, size_t n, char hex[65])
{
	unsigned char digest[SHA256_BYTES];

	sha256(bytes, n, digest);
	write_hex(hex, digest, SHA256_BYTES);
}

int ndjson_fingerprint(struct ndjson *l, uint64_t up_to, char hex[65])
{
	size_t n = up_to < FIRST_BYTES ? (size_t)up_to : FIRST_BYTES;

	if (l->is_file && l->first_len < n) {
		ssize_t got = pread(l->fd, l->first, n, 0);

		l->first_len = got > 0 ? (size_t)got : 0;
	}
	if (l->first_len < n) {
		fail(l, "its beginning cannot be read");
		return -1;
	}
	write_digest(l->first, n, hex);
	return 0;
}

int ndjson_before(struct ndjson *l, uint64_t offset, char hex[65])
{
	size_t n = offset < BEFORE_BYTES ? (size_t)offset : BEFORE_BYTES;
	char bytes[BEFORE_BYTES];

	*hex = '\0';
	if (!l->is_file)
		return 0;
	if (pread(l->fd, bytes, n, (off_t)(offset - n)) != (ssize_t)n) {
		fail(l, "what stands before the place to go on from cannot be read");
		return -1;
	}
	write_digest(bytes, n, hex);
	return 0;
}
