/* The files that replay reads: lines of a file or a pipe, or a segment, and a checkpoint. Lines must equal those of a
 * second reader that has all bytes at once, wherever reading begins; so must records; an accepted checkpoint must be
 * written and read again unchanged.
 *
 * An input is a byte, c (a checkpoint), f (lines of a file) or p (of a pipe); for lines a byte with the most that a
 * line may have; and the bytes. */
#include <sys/mman.h>

#include "commands/checkpoint.h"
#include "commands/dispatch.h"
#include "commands/exported.h"
#include "commands/ndjson.h"
#include "fuzz.h"

#define MAGIC "wsspool1"

static char folder[] = "/tmp/wsonce-fuzz-XXXXXX";
static char checkpoint_path[60];
static unsigned int failures; /* errors printed */

/* Replaces the function of dispatch.c. */
int dispatch_fail(const char *format, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	must(!strstr(text, "memory"), "memory is said to be out: %s", text);
	failures++;
	return STATUS_FAILED;
}

/* Replaces the C library's function: there are no power cuts here. */
int fsync(int fd)
{
	return 0;
}

/* --- lines, by a second reader --- */

struct expected {
	const uint8_t *at;
	size_t len; /* without its end */
	uint64_t begin, end, number;
	bool is_ended;
};

/* Finds the next line at or after offset that is not empty and not longer than most. Returns false at the end. */
static bool find_line(struct expected *e, const uint8_t *bytes, size_t size, uint64_t offset, uint64_t number,
		      size_t most)
{
	for (; offset < size; offset = e->end) {
		const uint8_t *stop = memchr(bytes + offset, '\n', size - offset);

		e->at = bytes + offset;
		e->begin = offset;
		e->is_ended = stop;
		e->len = stop ? (size_t)(stop - e->at) : size - offset;
		e->end = offset + e->len + e->is_ended;
		e->number = ++number;
		if (e->len && e->at[e->len - 1] == '\r')
			e->len--;
		if (e->len && (e->len <= most || exported_head((const char *)e->at, e->len)))
			return true;
	}
	return false;
}

static void check_line(const struct ndjson_line *line, const struct expected *e)
{
	must(line->begin == e->begin && line->end == e->end, "a line from %llu to %llu, not %llu to %llu",
	     (unsigned long long)line->begin, (unsigned long long)line->end, (unsigned long long)e->begin,
	     (unsigned long long)e->end);
	must(line->is_ended == e->is_ended, "its end is there, or not");
	must(line->len == e->len, "%zu bytes, not %zu", line->len, e->len);
	must(memcmp(line->bytes, e->at, line->len) == 0, "other bytes");
}

static bool is_refused(const uint8_t *bytes, size_t size)
{
	return (size >= 2 && (memcmp(bytes, "\x1f\x8b", 2) == 0 || memcmp(bytes, "\xff\xfe", 2) == 0 ||
			      memcmp(bytes, "\xfe\xff", 2) == 0)) ||
	       (size >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0);
}

/* Returns a descriptor of these bytes. */
static int make_file(const uint8_t *bytes, size_t size, bool is_pipe)
{
	int pair[2] = {-1, -1};

	if (is_pipe)
		must(pipe(pair) == 0, "no pipe");
	else
		pair[0] = pair[1] = memfd_create("lines", 0);
	must(write(pair[1], bytes, size) == (ssize_t)size, "cannot write");
	if (is_pipe)
		close(pair[1]);
	return pair[0];
}

/* Reads all lines from an offset on. */
static void read_lines(const char *path, const uint8_t *bytes, size_t size, size_t most, uint64_t from)
{
	struct ndjson *n = ndjson_open(path, most);
	struct ndjson_line line;
	struct expected e = {.end = from};
	bool has_bom = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0;
	enum ndjson_result result;
	char hex[65], again[65];

	must(n, "cannot open %s", path);
	must(!from || ndjson_skip(n, from) == 0, "cannot skip to %llu of %zu", (unsigned long long)from, size);
	if (!from && has_bom)
		e.end = 3;
	while ((result = ndjson_wait(n, &line)) == NDJSON_LINE) {
		must(find_line(&e, bytes, size, e.end, e.number, most), "a line too many");
		must(line.number == e.number, "line %llu, not %llu", (unsigned long long)line.number,
		     (unsigned long long)e.number);
		check_line(&line, &e);
	}
	must((result == NDJSON_FAILED) == (!from && is_refused(bytes, size)), "refused, or not");
	must(result == NDJSON_FAILED || !find_line(&e, bytes, size, e.end, e.number, most), "a line too few");
	if (result == NDJSON_END)
		must(ndjson_fingerprint(n, e.end, hex) == 0 && ndjson_fingerprint(n, e.end, again) == 0 &&
			     strcmp(hex, again) == 0 && strlen(hex) == 64,
		     "no fingerprint");
	ndjson_close(n);
}

/* --- records --- */

#define RECORDS_MOST 16

struct reading {
	uint64_t begin, end;
	size_t len;
};

/* Reads up to RECORDS_MOST records from an offset on. */
static size_t read_records(const char *path, size_t size, size_t most, uint64_t from, struct reading *found)
{
	struct ndjson *n = ndjson_open(path, most);
	enum ndjson_result result = NDJSON_LINE;
	struct ndjson_line line;
	size_t count = 0;

	must(n, "cannot open %s", path);
	if (from)
		must(ndjson_skip(n, from) == 0, "cannot skip to %llu", (unsigned long long)from);
	while (count < RECORDS_MOST && (result = ndjson_wait(n, &line)) == NDJSON_LINE) {
		must(line.record && line.len && line.is_ended, "no record");
		must(line.begin >= from && line.end > line.begin && line.end <= size, "from %llu to %llu of %zu",
		     (unsigned long long)line.begin, (unsigned long long)line.end, size);
		must(line.len <= most, "%zu bytes are too many", line.len);
		found[count++] = (struct reading){line.begin, line.end, line.len};
		from = line.end;
	}
	must(result != NDJSON_LATER, "it is not there yet");
	ndjson_close(n);
	return count;
}

static void try_records(const char *path, size_t size, size_t most, bool is_pipe)
{
	struct reading all[RECORDS_MOST], rest[RECORDS_MOST];
	size_t n = read_records(path, size, most, 0, all);

	for (size_t i = 0; !is_pipe && i < n; i++) {
		size_t left = read_records(path, size, most, all[i].end, rest);

		must(left >= n - i - 1 && memcmp(rest, all + i + 1, (n - i - 1) * sizeof(*all)) == 0,
		     "other records behind record %zu", i);
	}
}

static void try_lines(const uint8_t *bytes, size_t size, size_t most, bool is_pipe)
{
	int fd = make_file(bytes, size, is_pipe);
	struct expected e = {.end = 0};
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (size >= strlen(MAGIC) && memcmp(bytes, MAGIC, strlen(MAGIC)) == 0) {
		try_records(path, size, most, is_pipe);
		close(fd);
		return;
	}
	read_lines(path, bytes, size, most, 0);
	if (!is_pipe && !is_refused(bytes, size))
		for (int i = 0; i < 8 && find_line(&e, bytes, size, e.end, e.number, most); i++)
			read_lines(path, bytes, size, most, e.end);
	close(fd);
}

/* --- a checkpoint --- */

static void try_checkpoint(const uint8_t *bytes, size_t size)
{
	int fd = make_file(bytes, size, false);
	json_t *taken, *again;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	failures = 0;
	taken = checkpoint_read(path);
	if (!taken) {
		must(failures == 1, "%u lines say that it is none", failures);
	} else {
		must(!failures && json_is_integer(json_object_get(taken, "offset")), "taken, and it is none");
		must(checkpoint_write(checkpoint_path, taken) == 0, "it cannot be written");
		again = checkpoint_read(checkpoint_path);
		must(again && json_equal(taken, again), "another one than was written");
		json_decref(again);
	}
	json_decref(taken);
	close(fd);
}

static void clean_up(void)
{
	unlink(checkpoint_path);
	rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	must(mkdtemp(folder), "no folder");
	snprintf(checkpoint_path, sizeof(checkpoint_path), "%s/checkpoint", folder);
	atexit(clean_up);
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	if (size > 1 && *data == 'c')
		try_checkpoint(data + 1, size - 1);
	else if (size > 2 && (*data == 'f' || *data == 'p'))
		try_lines(data + 2, size - 2, 1U + data[1], *data == 'p');
}
