/* ndjson.c reads a file by lines or records: it finds where each begins and ends, and whether it is too long. */
#include "commands/ndjson.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "commands/dispatch.h"
#include "commands/exported.h"
#include "spool/segment.h"

#define CHUNK_BYTES  65536
#define FIRST_BYTES  4096        /* first bytes, by which a pipe is recognized */
#define BEFORE_BYTES 16384       /* bytes before an offset, by which a file is recognized */
#define TURN_BYTES   (16u << 20) /* bytes read without a line before the caller gets control, to check for signals */
#define MAGIC        "wsspool1"  /* the first bytes of a segment */

struct ndjson {
	int fd;
	char *path;
	bool is_file;
	bool is_begun; /* it is known whether it has lines or records */
	bool is_at_end;
	size_t max_bytes;
	char *bytes; /* bytes read: [from, to) was not yet returned */
	size_t size;
	size_t from;
	size_t to;
	size_t turn;             /* bytes read since the last line, or NDJSON_LATER, was returned */
	uint64_t offset;         /* offset of bytes[from] in the file */
	uint64_t count;          /* lines returned */
	char first[FIRST_BYTES]; /* start of a pipe */
	size_t first_len;
	struct segment_reader segment; /* read is NULL: it has lines */
	struct record record;
	struct bytes event; /* the event of a record, as a message */
	bool is_skipping;   /* the current line is over the limit */
	bool has_long;      /* a line was */
};

static enum ndjson_result fail(const struct ndjson *l, const char *what)
{
	dispatch_fail("%s: %s", l->path, what);
	return NDJSON_FAILED;
}

static const char *temporary_folder(void)
{
	const char *given = getenv("TMPDIR");

	return given ? given : "/tmp";
}

/* --- life --- */

struct ndjson *ndjson_open(const char *path, size_t max_bytes)
{
	struct ndjson *l = memory_calloc(1, sizeof(*l));
	struct stat st;

	l->path = memory_strdup(strcmp(path, "-") == 0 ? "standard input" : path);
	l->max_bytes = max_bytes;
	l->bytes = memory_alloc(l->size = CHUNK_BYTES);
	l->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0 || fstat(l->fd, &st)) {
		dispatch_fail("%s cannot be read: %s", path, strerror(errno));
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
	l->is_begun = l->offset;
	return l;
}

void ndjson_close(struct ndjson *l)
{
	if (!l)
		return;
	if (l->fd >= 0)
		close(l->fd);
	segment_close(&l->segment);
	bytes_free(&l->event);
	free(l->bytes);
	free(l->path);
	free(l);
}

static void wait_for_bytes(const struct ndjson *l)
{
	struct pollfd fd = {l->fd, POLLIN, 0};

	poll(&fd, 1, -1);
}

/* Copies the rest of the input to a file. Returns false and sets errno if that fails. */
static bool copy(const struct ndjson *l, int to)
{
	for (ssize_t n, put; (n = read(l->fd, l->bytes, l->size)) != 0;) {
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (n < 0)
			wait_for_bytes(l);
		for (ssize_t at = 0; at < n; at += put)
			if ((put = write(to, l->bytes + at, (size_t)(n - at))) < 0)
				return false;
	}
	return true;
}

int ndjson_keep(struct ndjson *l)
{
	int fd = l->is_file ? l->fd : open(temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (l->is_file)
		return 0;
	if (fd < 0 || !copy(l, fd) || dup2(fd, l->fd) < 0) {
		dispatch_fail("cannot copy %s to %s for resubmitting: %s", l->path, temporary_folder(),
			      strerror(errno));
		return -1;
	}
	close(fd);
	l->is_file = true;
	return 0;
}

uint64_t ndjson_size(const struct ndjson *l)
{
	struct stat st;

	return l->is_file && fstat(l->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static bool is_file(const struct ndjson *l, const char *path)
{
	struct stat ours, other;

	return l->is_file && fstat(l->fd, &ours) == 0 && stat(path, &other) == 0 && ours.st_dev == other.st_dev &&
	       ours.st_ino == other.st_ino;
}

bool ndjson_would_lose(const struct ndjson *l, const char *path)
{
	AUTO_FREE char *part = memory_printf("%s.part", path);

	return is_file(l, path) || is_file(l, part);
}

/* --- reading --- */

/* Makes room for another chunk. */
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

static void keep_first(struct ndjson *l, const char *bytes, size_t len)
{
	size_t n = FIRST_BYTES - l->first_len;

	n = n < len ? n : len;
	memcpy(l->first + l->first_len, bytes, n);
	l->first_len += n;
}

/* Returns why bytes do not begin a text in UTF-8, or NULL. */
static const char *find_magic(const char *bytes, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *what;
	} kinds[] = {
		{MAGIC, strlen(MAGIC), "is a segment"},
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

/* Reads more. Returns NDJSON_LINE if there were bytes. */
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
	if (!l->is_file)
		keep_first(l, l->bytes + l->to, (size_t)n);
	l->to += (size_t)n;
	l->turn += (size_t)n;
	return NDJSON_LINE;
}

static void advance(struct ndjson *l, size_t n)
{
	l->from += n;
	l->offset += n;
}

/* --- what the first bytes say --- */

/* Reads for segment.h: first the bytes that were read but not returned, then more of the file. */
static ssize_t read_segment(void *source, char *to, size_t n, off_t at)
{
	struct ndjson *l = source;
	enum ndjson_result result = l->from < l->to ? NDJSON_LINE : fill(l);
	size_t held = l->to - l->from;

	(void)at;
	errno = result == NDJSON_LATER ? EAGAIN : EIO;
	if (result == NDJSON_LATER || result == NDJSON_FAILED)
		return -1;
	n = n < held ? n : held;
	memcpy(to, l->bytes + l->from, n);
	advance(l, n);
	return (ssize_t)n;
}

static enum ndjson_result begin_segment(struct ndjson *l)
{
	if (l->to - l->from < SEGMENT_HEAD)
		return fail(l, "is a segment that ends within its head");
	if (!segment_head_read(l->bytes + l->from, &l->segment.head))
		return fail(l, "is a segment whose head is damaged");
	advance(l, SEGMENT_HEAD);
	l->segment.read = read_segment;
	l->segment.source = l;
	return NDJSON_LINE;
}

/* Skips a byte order mark before the first line. */
static enum ndjson_result begin_lines(struct ndjson *l)
{
	const char *magic = find_magic(l->bytes + l->from, l->to - l->from);

	if (magic)
		return fail(l, magic);
	advance(l, text_mark_len(l->bytes + l->from, l->to - l->from));
	return NDJSON_LINE;
}

/* Reads until it is known whether the file has lines or records. */
static enum ndjson_result recognize(struct ndjson *l)
{
	enum ndjson_result result = NDJSON_LINE;
	size_t held = 0, magic = strlen(MAGIC);
	bool may_be_segment = true;

	while (!l->is_begun && result == NDJSON_LINE && may_be_segment && held < SEGMENT_HEAD) {
		result = fill(l);
		held = l->to - l->from;
		may_be_segment = memcmp(l->bytes + l->from, MAGIC, held < magic ? held : magic) == 0;
	}
	if (l->is_begun || result == NDJSON_LATER || result == NDJSON_FAILED)
		return result;
	l->is_begun = true;
	return may_be_segment && held >= magic ? begin_segment(l) : begin_lines(l);
}

/* --- lines --- */

/* Returns a line, whose last len bytes are in the buffer. */
static void take(struct ndjson *l, struct ndjson_line *line, size_t len, bool is_ended)
{
	const char *at = l->bytes + l->from;
	uint64_t begin = l->offset;

	advance(l, len + is_ended);
	if (len && at[len - 1] == '\r')
		len--;
	*line = (struct ndjson_line){at, len, begin, l->offset, ++l->count, is_ended, NULL};
	l->is_skipping = false;
}

static void refuse_long(struct ndjson *l, uint64_t at)
{
	dispatch_fail("%s: left out the line at byte %" PRIu64 ", which is longer than --max-message (%zu bytes)",
		      l->path, at, l->max_bytes);
	l->has_long = true;
}

/* Returns the limit of a line. A row may be longer than its message: jsonb adds blanks, and prints 1e9 with all digits.
 */
static size_t limit_of(const struct ndjson *l, const char *at, size_t held)
{
	return l->max_bytes < RECORD_MOST && exported_head(at, held) ? RECORD_MOST : l->max_bytes;
}

static enum ndjson_result next_raw(struct ndjson *l, struct ndjson_line *line)
{
	enum ndjson_result result = NDJSON_LINE;
	size_t scanned = 0;

	while (result == NDJSON_LINE || result == NDJSON_END) {
		size_t held = l->to - l->from, len = held;
		const char *at = l->bytes + l->from;
		const char *end = held > scanned ? memchr(at + scanned, '\n', held - scanned) : NULL;
		bool is_whole = end || l->is_at_end;
		size_t most = limit_of(l, at, held);

		if (end)
			len = (size_t)(end - at);
		if (!l->is_skipping && (len > most + 1 || (len > most && is_whole && at[len - 1] != '\r'))) {
			refuse_long(l, l->offset);
			l->is_skipping = true;
		}
		if (l->is_skipping) {
			advance(l, len);
			len = 0;
		}
		if (end || (is_whole && len)) {
			take(l, line, len, end);
			return NDJSON_LINE;
		}
		if (is_whole)
			return l->has_long ? NDJSON_DAMAGED : NDJSON_END;
		scanned = len;
		result = fill(l);
	}
	return result;
}

/* --- records --- */

static void add_time(struct bytes *event, const char *name, int64_t time_us)
{
	char text[TIMESTAMP_SIZE];

	timestamp_print_to(time_us, 6, text);
	bytes_add_text(event, name);
	json_write_string(event, text, strlen(text));
}

struct slice ndjson_message(struct bytes *event, const struct record *r)
{
	if (r->kind == RECORD_MESSAGE)
		return r->message;
	event->len = 0;
	bytes_add_text(event, EXPORTED_ROW "0");
	add_time(event, ",\"received_at\":", r->came_us);
	if (r->has_time)
		add_time(event, ",\"event_time\":", r->time_us);
	bytes_add_text(event, ",\"source\":");
	json_write_string(event, r->source.at, r->source.len);
	bytes_add_text(event, ",\"event_id\":");
	json_write_string(event, r->id.at, r->id.len);
	bytes_add_text(event, ",\"event_type\":");
	json_write_string(event, r->type.at, r->type.len);
	bytes_add_text(event, ",\"payload\":");
	bytes_add(event, r->message.at, r->message.len);
	bytes_add_byte(event, '}');
	return bytes_slice(event);
}

static enum ndjson_result end_segment(const struct ndjson *l)
{
	if (l->segment.torn)
		fail(l, "its last record is incomplete, and was left out");
	if (l->segment.wrong)
		dispatch_fail("%s: has damaged records in %zu places, which were skipped", l->path, l->segment.wrong);
	return l->segment.wrong || l->has_long ? NDJSON_DAMAGED : NDJSON_END;
}

static enum ndjson_result next_record(struct ndjson *l, struct ndjson_line *line)
{
	struct segment_reader *s = &l->segment;
	struct slice message;
	uint64_t end;

	s->error = 0;
	switch (segment_next(s, &l->record)) {
	case SEGMENT_FAILED:
		return s->error == EAGAIN ? NDJSON_LATER : NDJSON_FAILED;
	case SEGMENT_END:
		return end_segment(l);
	case SEGMENT_RECORD:
		break;
	}
	message = ndjson_message(&l->event, &l->record);
	end = l->offset - (s->end - s->begin);
	*line = (struct ndjson_line){message.at, message.len, end - s->size, end, ++l->count, true, &l->record};
	if (message.len > (l->record.kind == RECORD_EVENT ? RECORD_MOST : l->max_bytes)) {
		refuse_long(l, line->begin);
		line->len = 0;
	}
	return NDJSON_LINE;
}

enum ndjson_result ndjson_next(struct ndjson *l, struct ndjson_line *line)
{
	enum ndjson_result result;

	l->turn = 0;
	result = recognize(l);
	if (result != NDJSON_LINE)
		return result;
	do
		result = l->segment.read ? next_record(l, line) : next_raw(l, line);
	while (result == NDJSON_LINE && !line->len);
	return result;
}

enum ndjson_result ndjson_wait(struct ndjson *l, struct ndjson_line *line)
{
	enum ndjson_result result;

	while ((result = ndjson_next(l, line)) == NDJSON_LATER)
		wait_for_bytes(l);
	return result;
}

/* --- places in the file --- */

static int end_early(const struct ndjson *l)
{
	fail(l, "ends before the place to go on from: is it another file?");
	return -1;
}

int ndjson_skip(struct ndjson *l, uint64_t offset)
{
	enum ndjson_result result;

	while ((result = recognize(l)) == NDJSON_LATER)
		wait_for_bytes(l);
	if (result == NDJSON_FAILED)
		return -1;
	l->segment.begin = l->segment.end = l->segment.skipping = 0;
	l->is_skipping = false;
	if (l->is_file && (offset < l->offset || offset - l->offset > l->to - l->from)) {
		if (offset > ndjson_size(l))
			return end_early(l);
		l->from = l->to = 0;
		l->offset = offset;
		l->is_at_end = false;
	}
	while (l->offset < offset && result != NDJSON_END && result != NDJSON_FAILED) {
		size_t held = l->to - l->from;
		uint64_t ahead = offset - l->offset;

		advance(l, ahead < held ? (size_t)ahead : held);
		if (ahead <= held)
			return 0;
		wait_for_bytes(l);
		l->turn = 0;
		result = fill(l);
	}
	if (result == NDJSON_END)
		end_early(l);
	return l->offset < offset ? -1 : 0;
}

int ndjson_fingerprint(struct ndjson *l, uint64_t offset, char hex[65])
{
	size_t most = l->is_file ? BEFORE_BYTES : l->first_len, n = offset < most ? (size_t)offset : most;
	char before[BEFORE_BYTES];
	uint8_t digest[SHA256_BYTES];

	if (l->is_file && pread(l->fd, before, n, (off_t)(offset - n)) != (ssize_t)n) {
		fail(l, "cannot read the bytes before the place to go on from");
		return -1;
	}
	sha256(l->is_file ? before : l->first, n, digest);
	write_hex(hex, digest, SHA256_BYTES);
	return 0;
}

bool ndjson_write(FILE *out, const char *message, size_t len, bool is_exported)
{
	size_t mark = text_mark_len(message, len);

	if (!is_exported && (find_magic(message, len) || exported_head(message + mark, len - mark)))
		putc(' ', out);
	for (size_t i = 0; i < len; i++)
		putc(message[i] == '\n' || message[i] == '\r' ? ' ' : message[i], out);
	putc('\n', out);
	return !ferror(out);
}
