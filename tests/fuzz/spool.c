/* Segments of the spool: the records read from any file are those of a second reader, which tries a record at each
 * byte; and from a damaged segment every undamaged record is read, and nothing that was not written.
 *
 * An input is f and the bytes of a file; or d, a byte with the number of records, a byte for the length of each
 * message, a number of bytes to cut off the end, and three bytes for each change: where (two), and which bits to flip.
 */
#include "spool/segment.h"

#include "fuzz.h"

#define FILE_MOST    20000
#define RECORDS_MOST 20
#define SALT         0x5a17a55au

static struct {
	char bytes[FILE_MOST];
	size_t len;
	size_t most; /* most bytes per read */
} file;

static ssize_t read_file(void *source, char *to, size_t n, off_t at)
{
	size_t left = file.len - (size_t)at;

	must((size_t)at <= file.len, "read at %lld of %zu", (long long)at, file.len);
	n = n < left ? n : left;
	n = n < file.most ? n : file.most;
	memcpy(to, file.bytes + at, n);
	return (ssize_t)n;
}

/* Writes a record again: it must have the same bytes wherever the format leaves no choice. */
static void check_record(const struct record *r, const struct segment_reader *s)
{
	char *again = malloc(s->size);
	struct record back;
	size_t size;

	must(record_size(r) == s->size, "%zu bytes instead of %zu", record_size(r), s->size);
	record_write(again, r, s->head.salt);
	must(record_read(again, s->size, s->head.salt, &back, &size) == RECORD_WHOLE && size == s->size,
	     "what was read cannot be written");
	must(back.ordinal == r->ordinal && back.came_us == r->came_us && back.time_us == r->time_us &&
		     back.message.len == r->message.len && memcmp(back.message.at, r->message.at, r->message.len) == 0,
	     "what was written is read otherwise");
	free(again);
}

/* Returns the place of the next record from `at` on; file.len if there is none. */
static size_t find_record(size_t at, uint32_t salt, size_t *size)
{
	struct record r;

	for (; at < file.len; at++)
		if (record_read(file.bytes + at, file.len - at, salt, &r, size) == RECORD_WHOLE)
			return at;
	return file.len;
}

/* Reads the file in pieces of that size. Returns the number of records, whose ordinals it sets. */
static size_t read_all(size_t most, uint64_t *ordinals, size_t room)
{
	struct segment_reader s = {.read = read_file};
	struct record r;
	size_t n = 0, at = SEGMENT_HEAD, size = 0, wrong = 0;

	file.most = most;
	enum segment_step step = segment_open(&s);
	must(step != SEGMENT_END || file.len < SEGMENT_HEAD, "a head is not read");
	while (step == SEGMENT_RECORD && (step = segment_next(&s, &r)) == SEGMENT_RECORD) {
		size_t next = find_record(at, s.head.salt, &size);

		must(next < file.len && size == s.size && memcmp(file.bytes + next, s.whole, size) == 0,
		     "another record is read than the one at %zu", next);
		wrong += next != at;
		at = next + size;
		check_record(&r, &s);
		if (n < room)
			ordinals[n] = r.ordinal;
		n++;
	}
	if (step == SEGMENT_END && file.len >= SEGMENT_HEAD) {
		must(find_record(at, s.head.salt, &size) == file.len, "a record is not read");
		must(s.torn == file.len - at, "%zu bytes are torn, not %zu", file.len - at, s.torn);
		must(s.wrong == wrong, "%zu places, not %zu", wrong, s.wrong);
	}
	segment_close(&s);
	return n;
}

static void check_file(const uint8_t *data, size_t size)
{
	uint64_t whole[RECORDS_MOST], pieces[RECORDS_MOST];

	file.len = size < FILE_MOST ? size : FILE_MOST;
	memcpy(file.bytes, data, file.len);
	size_t n = read_all(FILE_MOST, whole, RECORDS_MOST);
	must(read_all(7, pieces, RECORDS_MOST) == n, "in pieces it has another number of records");
	must(memcmp(whole, pieces, (n < RECORDS_MOST ? n : RECORDS_MOST) * sizeof(*whole)) == 0, "other records");
}

/* Writes a segment. Its messages contain the salt, which real ones cannot know. */
static size_t write_segment(const uint8_t *lengths, size_t n, size_t *ends)
{
	char message[260];

	segment_head_write(file.bytes, &(const struct segment_head){.first = 1, .salt = SALT});
	file.len = SEGMENT_HEAD;
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (char)(SALT >> (i % 4 * 8));
	for (size_t i = 0; i < n; i++) {
		struct record r = {.ordinal = i + 1, .source = {"feed", 4}, .message = {message, lengths[i]}};

		record_write(file.bytes + file.len, &r, SALT);
		file.len += record_size(&r);
		ends[i] = file.len;
	}
	return file.len;
}

static void check_damage(const uint8_t *data, size_t size)
{
	size_t n = data[0] % RECORDS_MOST, ends[RECORDS_MOST], count, found = 0;
	bool is_touched[RECORDS_MOST] = {false};
	uint64_t ordinals[RECORDS_MOST];

	if (size < n + 2)
		return;
	write_segment(data + 1, n, ends);
	file.len -= data[n + 1] < file.len - SEGMENT_HEAD ? data[n + 1] : file.len - SEGMENT_HEAD;
	for (size_t i = n + 2; i + 3 <= size; i += 3) {
		size_t at = (size_t)(data[i] << 8 | data[i + 1]) % FILE_MOST;

		if (at < SEGMENT_HEAD || at >= file.len || !data[i + 2])
			continue;
		file.bytes[at] ^= (char)data[i + 2];
		for (size_t k = 0; k < n; k++)
			is_touched[k] |= at < ends[k] && at >= (k ? ends[k - 1] : SEGMENT_HEAD);
	}
	count = read_all(FILE_MOST, ordinals, RECORDS_MOST);
	must(count <= n, "%zu records, of %zu", count, n);
	for (size_t k = 0; k < n; k++) {
		bool is_read = found < count && ordinals[found] == k + 1;

		must(is_read || is_touched[k] || ends[k] > file.len, "record %zu is not read", k + 1);
		found += is_read;
	}
	must(found == count, "a record is read that was not written");
}

void try_input(const uint8_t *data, size_t size)
{
	if (size > 1 && *data == 'f')
		check_file(data + 1, size - 1);
	else if (size > 2 && *data == 'd')
		check_damage(data + 1, size - 1);
}
