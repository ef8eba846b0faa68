/* record.c encodes and decodes records. Numbers are little-endian. */
#include "spool/record.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/crc32c.h"

#define MAGIC    "wsspool1" /* eight bytes */
#define HAS_TIME 1
#define CHECKED  8 /* offset in a record: the CRC covers all that follows */

/* The head of a record in the file. It has no padding. */
struct record_bytes {
	uint32_t salt, crc, size;
	uint8_t kind, flags;
	uint16_t source_len, id_len, zero;
	uint32_t type_len;
	uint64_t ordinal, came_us, time_us;
};

struct head_bytes {
	char magic[8];
	uint64_t first, oldest_us;
	uint32_t salt, crc;
	uint64_t count;
	uint32_t count_crc, zero;
};

static_assert(sizeof(struct record_bytes) == RECORD_HEAD && sizeof(struct head_bytes) == SEGMENT_HEAD, "no gaps");

static char *put_slice(char *at, struct slice s)
{
	return s.len ? mempcpy(at, s.at, s.len) : at;
}

size_t record_size(const struct record *r)
{
	return RECORD_HEAD + r->source.len + r->id.len + r->type.len + r->message.len;
}

void record_write(char *at, const struct record *r, uint32_t salt)
{
	size_t size = record_size(r);
	struct record_bytes head = {
		.salt = htole32(salt),
		.size = htole32((uint32_t)size),
		.kind = (uint8_t)r->kind,
		.flags = r->has_time ? HAS_TIME : 0,
		.source_len = htole16((uint16_t)r->source.len),
		.id_len = htole16((uint16_t)r->id.len),
		.type_len = htole32((uint32_t)r->type.len),
		.ordinal = htole64(r->ordinal),
		.came_us = htole64((uint64_t)r->came_us),
		.time_us = htole64((uint64_t)r->time_us),
	};
	char *rest = mempcpy(at, &head, sizeof(head));

	put_slice(put_slice(put_slice(put_slice(rest, r->source), r->id), r->type), r->message);
	head.crc = htole32(crc32c(salt, at + CHECKED, size - CHECKED));
	memcpy(at, &head, sizeof(head));
}

/* Cuts len bytes off the front of the input, and returns them. */
static struct slice cut(const char **at, size_t *left, size_t len)
{
	struct slice s = {*at, len};

	*at += len;
	*left -= len;
	return s;
}

enum record_verdict record_read(const char *at, size_t len, uint32_t salt, struct record *r, size_t *size)
{
	struct record_bytes head = {0};
	size_t left;

	*size = RECORD_HEAD;
	memcpy(&head, at, len < RECORD_HEAD ? len : RECORD_HEAD);
	if (len >= sizeof(head.salt) && le32toh(head.salt) != salt)
		return RECORD_WRONG;
	if (len < RECORD_HEAD)
		return RECORD_SHORT;
	*r = (struct record){.kind = head.kind == RECORD_EVENT ? RECORD_EVENT : RECORD_MESSAGE,
			     .has_time = head.flags & HAS_TIME,
			     .ordinal = le64toh(head.ordinal),
			     .came_us = (int64_t)le64toh(head.came_us),
			     .time_us = (int64_t)le64toh(head.time_us),
			     .source.len = le16toh(head.source_len),
			     .id.len = le16toh(head.id_len),
			     .type.len = le32toh(head.type_len)};
	*size = le32toh(head.size);
	if (*size > RECORD_MOST || *size < record_size(r) || head.kind > RECORD_EVENT ||
	    (r->kind == RECORD_EVENT) != (r->id.len != 0))
		return RECORD_WRONG;
	if (len < *size)
		return RECORD_SHORT;
	if (crc32c(salt, at + CHECKED, *size - CHECKED) != le32toh(head.crc))
		return RECORD_WRONG;
	left = *size - RECORD_HEAD;
	at += RECORD_HEAD;
	r->source = cut(&at, &left, r->source.len);
	r->id = cut(&at, &left, r->id.len);
	r->type = cut(&at, &left, r->type.len);
	r->message = (struct slice){at, left};
	return RECORD_WHOLE;
}

/* The count has its own checksum, since it is written later, when the segment ends. */
void segment_head_write(char at[SEGMENT_HEAD], const struct segment_head *head)
{
	struct head_bytes bytes = {.first = htole64(head->first),
				   .oldest_us = htole64((uint64_t)head->oldest_us),
				   .salt = htole32(head->salt),
				   .count = htole64(head->count)};

	memcpy(bytes.magic, MAGIC, sizeof(bytes.magic));
	bytes.crc = htole32(crc32c(0, &bytes, offsetof(struct head_bytes, crc)));
	bytes.count_crc = htole32(crc32c(head->salt, &bytes.count, sizeof(bytes.count)));
	memcpy(at, &bytes, sizeof(bytes));
}

bool segment_head_read(const char at[SEGMENT_HEAD], struct segment_head *head)
{
	struct head_bytes bytes;

	memcpy(&bytes, at, sizeof(bytes));
	if (memcmp(bytes.magic, MAGIC, sizeof(bytes.magic)) != 0 ||
	    le32toh(bytes.crc) != crc32c(0, &bytes, offsetof(struct head_bytes, crc)))
		return false;
	*head = (struct segment_head){.first = le64toh(bytes.first),
				      .oldest_us = (int64_t)le64toh(bytes.oldest_us),
				      .salt = le32toh(bytes.salt)};
	if (le32toh(bytes.count_crc) == crc32c(head->salt, &bytes.count, sizeof(bytes.count)))
		head->count = le64toh(bytes.count);
	return true;
}
