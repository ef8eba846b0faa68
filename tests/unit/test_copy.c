/* The bytes of COPY's binary form: 19 bytes of head, then each row as the number of its columns and each column as a
 * length and its bytes, then -1 for a number of columns. Splitting them into pieces changes nothing. */
#include "store/bulk_load.h"
#include "unit.h"

#define YEAR_2000_US (INT64_C(946684800) * 1000000)

#define HEAD "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0"

static struct event make(const char *id, const char *type, const char *payload)
{
	return (struct event){.id = id,
			      .id_len = (uint16_t)strlen(id),
			      .type = type,
			      .type_len = (uint32_t)strlen(type),
			      .payload = {payload, strlen(payload)},
			      .came_us = YEAR_2000_US + 2};
}

Test(copy, rows_have_the_columns_of_copy_sql_and_jsonb_its_version)
{
	static const char expected[] =
		HEAD "\0\7\0\0\0\1a\0\0\0\2tt\0\0\0\4\1[1]"
		     "\0\0\0\4shop\0\0\0\10\0\0\0\0\0\0\0\2\0\0\0\10\0\0\0\0\0\0\1\0\0\0\0\3h?"
		     "0\0\7\0\0\0\3bcd\0\0\0\0\0\0\0\3\1{}"
		     "\377\377\377\377\0\0\0\10\0\0\0\0\0\0\0\2\377\377\377\377\0\0\0\3h?0\377\377";
	struct event a = make("a", "tt", "[1]"), b = make("bcd", "", "{}");
	struct event *events[] = {&a, &b};
	struct sender shop = {.name = "shop"};
	bool is_passed[2] = {false, false};
	struct copy_stream whole = {events, is_passed, 2, "h\3770", 0}, next = whole;
	struct array stream = {0};
	size_t len = 0;

	a.first.sender = &shop;
	a.from = "ingest";
	a.has_time = true;
	a.time_us = YEAR_2000_US + 256;
	cr_assert(copy_next(&whole, &stream, 1000));
	cr_assert_eq(stream.len, sizeof(expected) - 1, "%zu bytes", stream.len);
	cr_assert_eq(memcmp(stream.bytes, expected, stream.len), 0);
	cr_assert_not(copy_next(&whole, &stream, 1000));
	cr_assert_eq(stream.len, 0);
	for (; copy_next(&next, &stream, 20); len += stream.len)
		cr_assert_eq(memcmp(stream.bytes, expected + len, stream.len), 0, "in pieces, behind %zu bytes", len);
	cr_assert_eq(len, sizeof(expected) - 1);
	is_passed[1] = true;
	next.at = 0;
	cr_assert(copy_next(&next, &stream, 1000));
	cr_assert_eq(stream.len, sizeof(expected) - 1 - 47, "the second stream begins anew, without the second row");
	array_free(&stream);
}
