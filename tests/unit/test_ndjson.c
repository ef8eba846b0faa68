/* Reading files line by line: lines across the buffer's end, and lines that are too long. */
#include "commands/ndjson.h"

#include "unit.h"

#define LIMIT 100

TestSuite(ndjson, .timeout = 60);

/* Opens these bytes as a file. */
static struct ndjson *open_bytes(const char *bytes, size_t len, size_t limit)
{
	int fd = memfd_create("lines", 0);
	char path[40];

	cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct ndjson *l = ndjson_open(path, limit);
	cr_assert(l);
	close(fd);
	return l;
}

static struct ndjson *open_text(const char *text)
{
	return open_bytes(text, strlen(text), LIMIT);
}

static struct ndjson_line expect_line(struct ndjson *l, const char *text, uint64_t begin, uint64_t end)
{
	struct ndjson_line line;

	cr_assert_eq(ndjson_next(l, &line), NDJSON_LINE);
	cr_assert_eq(line.len, strlen(text), "%.*s, not %s", (int)line.len, line.bytes, text);
	cr_assert_eq(memcmp(line.bytes, text, line.len), 0);
	cr_assert_eq(line.begin, begin);
	cr_assert_eq(line.end, end);
	return line;
}

static void expect_end(struct ndjson *l)
{
	struct ndjson_line line;

	cr_assert_eq(ndjson_next(l, &line), NDJSON_END);
	ndjson_close(l);
}

/* A line of n bytes over the limit, then a short one. */
static void expect_long(size_t n, const char *end)
{
	char *text = malloc(n + 10);
	struct ndjson_line line;

	memset(text, 'x', n);
	sprintf(text + n, "%snext", end);
	struct ndjson *l = open_bytes(text, strlen(text), LIMIT);
	expect_line(l, "next", n + strlen(end), n + strlen(end) + 4);
	cr_assert_eq(ndjson_next(l, &line), NDJSON_DAMAGED);
	ndjson_close(l);
	free(text);
}

Test(ndjson, one_over_the_limit_is_left_out)
{
	static const size_t sizes[] = {LIMIT + 1, LIMIT + 2, 4095, 4096, 4097, 65535, 65536, 65537, 131072, 200000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		expect_long(sizes[i], "\n");
		expect_long(sizes[i], "\r\n");
	}
}

Test(ndjson, they_are_whole_across_the_borders_of_the_buffer)
{
	char *text = malloc(400000), *at = text, line[40];
	uint64_t begin = 0;

	for (int i = 0; i < 20000; i++)
		at += sprintf(at, "line %d%s\n", i, i % 7 ? "" : "\r");
	struct ndjson *l = open_text(text);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)sprintf(line, "line %d", i) + (i % 7 ? 1 : 2);

		cr_assert_eq(expect_line(l, line, begin, begin + n).number, (uint64_t)i + 1);
		begin += n;
	}
	expect_end(l);
	free(text);
}

Test(ndjson, a_file_can_be_gone_back_in_and_not_beyond_its_end)
{
	struct ndjson *l = open_text("one\ntwo\nthree\n");

	expect_line(l, "one", 0, 4);
	cr_assert_eq(ndjson_skip(l, 8), 0);
	expect_line(l, "three", 8, 14);
	cr_assert_eq(ndjson_skip(l, 4), 0);
	expect_line(l, "two", 4, 8);
	cr_assert_eq(ndjson_skip(l, 14), 0);
	cr_assert_eq(ndjson_skip(l, 15), -1);
	expect_end(l);
}

Test(ndjson, a_pipe_has_nothing_now_and_more_later)
{
	int ends[2];
	char path[40];
	struct ndjson_line line;

	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	struct ndjson *l = ndjson_open(path, LIMIT);
	cr_assert_eq(ndjson_next(l, &line), NDJSON_LATER);
	cr_assert_eq(write(ends[1], "one\ntw", 6), 6);
	expect_line(l, "one", 0, 4);
	cr_assert_eq(ndjson_next(l, &line), NDJSON_LATER);
	cr_assert_eq(write(ends[1], "o\nthree", 7), 7);
	expect_line(l, "two", 4, 8);
	close(ends[1]);
	expect_line(l, "three", 8, 13);
	expect_end(l);
	close(ends[0]);
}

Test(ndjson, one_without_an_end_leaves_the_caller_a_turn)
{
	struct ndjson *l = ndjson_open("/dev/zero", LIMIT);
	struct ndjson_line line;

	for (int i = 0; i < 3; i++)
		cr_assert_eq(ndjson_next(l, &line), NDJSON_LATER);
	ndjson_close(l);
}

Test(ndjson, a_long_one_that_is_waited_for_is_whole)
{
	size_t len = 40u << 20;
	char *text = malloc(len);
	struct ndjson_line line;

	memset(text, 'x', len);
	struct ndjson *l = open_bytes(text, len, len);
	cr_assert_eq(ndjson_wait(l, &line), NDJSON_LINE);
	cr_assert_eq(line.len, len);
	expect_end(l);
	free(text);
}

Test(ndjson, a_pipe_is_skipped_by_reading)
{
	int ends[2];
	char path[40];

	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	struct ndjson *l = ndjson_open(path, LIMIT);
	cr_assert_eq(write(ends[1], "one\ntwo\n", 8), 8);
	close(ends[1]);
	cr_assert_eq(ndjson_skip(l, 4), 0);
	expect_line(l, "two", 4, 8);
	cr_assert_eq(ndjson_skip(l, 9), -1);
	expect_end(l);
	close(ends[0]);
}

Test(ndjson, a_file_that_has_grown_has_the_same_fingerprint_and_another_one_has_not)
{
	char first[65], again[65], other[65];
	struct ndjson *a = open_text("one\ntwo\n"), *b = open_text("one\ntwo\nthree\n"), *c = open_text("one\ntwa\n");

	cr_assert_eq(ndjson_fingerprint(a, 8, first), 0);
	cr_assert_eq(ndjson_fingerprint(b, 8, again), 0);
	cr_assert_eq(ndjson_fingerprint(c, 8, other), 0);
	cr_assert_str_eq(first, again);
	cr_assert_neq(strcmp(first, other), 0);
	ndjson_close(a);
	ndjson_close(b);
	ndjson_close(c);
}

/* Goes to an offset in a pipe with this text. */
static void take_fingerprint(const char *text, uint64_t offset, char hex[65])
{
	int ends[2];
	char path[40];

	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	struct ndjson *l = ndjson_open(path, LIMIT);
	cr_assert_eq(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
	close(ends[1]);
	cr_assert_eq(ndjson_skip(l, offset), 0);
	cr_assert_eq(ndjson_fingerprint(l, offset, hex), 0);
	ndjson_close(l);
	close(ends[0]);
}

Test(ndjson, a_pipe_is_recognized_by_its_first_bytes)
{
	char first[65], again[65], other[65];

	take_fingerprint("one\ntwo\n", 4, first);
	take_fingerprint("one\ntwo\nthree\n", 4, again);
	take_fingerprint("oni\ntwo\n", 4, other);
	cr_assert_str_eq(first, again);
	cr_assert_neq(strcmp(first, other), 0);
}

Test(ndjson, what_cannot_be_opened_is_told)
{
	cr_assert_null(ndjson_open("/nowhere", LIMIT));
	cr_assert_null(ndjson_open("/", LIMIT));
}
