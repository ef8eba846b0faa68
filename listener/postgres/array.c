/* array.c writes arrays as Postgres's array_recv (arrayfuncs.c) reads them. The binary form needs no quoting or
 * escaping, unlike the text form. */
#include "postgres/array.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/memory.h"

#define YEAR_2000_US (INT64_C(946684800) * 1000000) /* Postgres counts time from here */

char *array_reserve(struct array *a, size_t more)
{
	if (a->len + more > a->size) {
		a->size = (a->len + more) * 2;
		a->bytes = memory_realloc(a->bytes, a->size);
	}
	return a->bytes + a->len;
}

static char *put_number(char *at, uint32_t n)
{
	n = htonl(n);
	memcpy(at, &n, 4);
	return at + 4;
}

static uint32_t element_oid(enum array_type type)
{
	switch (type) {
	case ARRAY_BYTEA:
		return 17;
	case ARRAY_TEXT:
		return 25;
	case ARRAY_TIME:
		return 1184;
	case ARRAY_JSONB:
		return 3802;
	}
	return 0;
}

void array_start(struct array *a, enum array_type type, size_t count)
{
	char *at;

	a->len = 0;
	a->type = type;
	at = array_reserve(a, 20);
	at = put_number(at, 1); /* dimensions */
	at = put_number(at, 1); /* may contain NULL */
	at = put_number(at, element_oid(type));
	at = put_number(at, (uint32_t)count);
	put_number(at, 1); /* lowest index */
	a->len = 20;
}

void array_add(struct array *a, const char *bytes, size_t len)
{
	size_t version = a->type == ARRAY_JSONB; /* jsonb_recv expects a version byte, 1 */
	char *at = put_number(array_reserve(a, len + 5), (uint32_t)(len + version));

	if (version)
		*at++ = 1;
	memcpy(at, bytes, len);
	a->len += 4 + version + len;
}

void array_add_ascii(struct array *a, const char *text, size_t len)
{
	array_add(a, text, len);
	for (char *at = a->bytes + a->len - len; at < a->bytes + a->len; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
}

void array_add_time(struct array *a, int64_t us)
{
	uint64_t wire = htobe64((uint64_t)(us - YEAR_2000_US));

	array_add(a, (const char *)&wire, sizeof(wire));
}

void array_add_null(struct array *a)
{
	put_number(array_reserve(a, 4), UINT32_MAX);
	a->len += 4;
}

void array_add_text(struct array *a, const char *text, size_t len, bool is_ascii)
{
	uint8_t *begin, *end, *bad;

	if (!text) {
		array_add_null(a);
		return;
	}
	array_add(a, text, len);
	end = (uint8_t *)a->bytes + a->len;
	begin = end - len;
	while ((bad = (uint8_t *)u8_check(begin, (size_t)(end - begin)))) {
		*bad = '?';
		begin = bad + 1;
	}
	for (begin = end - len; is_ascii && begin < end; begin++)
		if (*begin >= 0x80)
			*begin = '?';
}

void array_add_string(struct array *a, const char *text, bool is_ascii)
{
	array_add_text(a, text, text ? strlen(text) : 0, is_ascii);
}

void array_free(struct array *a)
{
	free(a->bytes);
	*a = (struct array){NULL, 0, 0, ARRAY_TEXT};
}
