/* Answers of Redis: their parts, and how much memory one may take. */
#include "base/bytes.h"
#include "redis/reply.h"
#include "unit.h"

static struct arena arena;
static struct redis_reply reply;
static const char *why;
static char *copy;

static void fini(void)
{
	arena_clear(&arena);
	free(copy);
}

TestSuite(reply, .fini = fini, .timeout = 60);

/* Returns the length of the answer at the beginning of text; 0 if there is none. */
static size_t read_text(const char *text)
{
	const char *end;

	free(copy);
	copy = memory_strdup(text);
	end = reply_read(&reply, copy, strlen(text), &arena, &why);
	return end ? (size_t)(end - copy) : 0;
}

Test(reply, each_type_is_read)
{
	cr_assert_eq(read_text("+OK\r\n:1\r\n"), 5);
	cr_assert_eq(reply.type, REPLY_STATUS);
	cr_assert_str_eq(reply.str, "OK");
	cr_assert_eq(read_text("-ERR no\r\n"), 9);
	cr_assert(reply_is_error(&reply, "ERR "));
	cr_assert_eq(reply.len, 6);
	cr_assert_eq(read_text(":-12\r\n"), 6);
	cr_assert_eq(reply.integer, -12);
	cr_assert_eq(read_text("$3\r\na\nb\r\n$-1\r\n"), 9);
	cr_assert_eq(reply.type, REPLY_STRING);
	cr_assert_str_eq(reply.str, "a\nb");
	cr_assert_eq(read_text("$-1\r\n"), 5);
	cr_assert_eq(reply.type, REPLY_NIL);
	cr_assert_eq(read_text("*0\r\n"), 4);
	cr_assert_eq(reply.type, REPLY_ARRAY);
	cr_assert_eq(read_text("*2\r\n*2\r\n$1\r\na\r\n*-1\r\n:7\r\n"), 24);
	cr_assert_str_eq(reply.element[0].element[0].str, "a");
	cr_assert_eq(reply.element[0].element[1].type, REPLY_NIL);
	cr_assert_eq(reply.element[1].integer, 7);
}

/* The reader writes into the bytes, and must still understand them when the rest has come. */
Test(reply, an_answer_may_come_in_any_parts)
{
	static const char text[] = "*5\r\n$1\r\na\r\n:7\r\n+OK\r\n-E\r\n*1\r\n$0\r\n\r\n";
	char bytes[sizeof(text)];
	size_t len = strlen(text);

	memcpy(bytes, text, sizeof(text));
	for (size_t n = 0; n < len; n++) {
		why = "untouched";
		cr_assert_null(reply_read(&reply, bytes, n, &arena, &why));
		cr_assert_null(why, "%zu bytes: %s", n, why);
	}
	cr_assert_eq(reply_read(&reply, bytes, len, &arena, &why), bytes + len);
	cr_assert_str_eq(reply.element[0].str, "a");
	cr_assert_eq(reply.element[1].integer, 7);
	cr_assert_str_eq(reply.element[2].str, "OK");
	cr_assert_str_eq(reply.element[3].str, "E");
	cr_assert_eq(reply.element[4].element[0].len, 0);
}

Test(reply, an_array_that_nobody_could_hold_is_refused)
{
	static const char *const texts[] = {"*2147483647\r\n", "*9223372036854775807\r\n", "$9223372036854775807\r\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cr_assert_eq(read_text(texts[i]), 0);
		cr_assert_str_eq(why, "an answer is larger than 16 MiB");
		cr_assert_lt(arena.taken, 4096);
	}
}

/* Each of these announces megabytes with eleven bytes. */
Test(reply, arrays_of_arrays_are_counted_together)
{
	char text[2000] = "*1000\r\n";

	for (int i = 0; i < 100; i++)
		strcat(text, "*2\r\n:1\r\n*131000\r\n");
	cr_assert_eq(read_text(text), 0);
	cr_assert_str_eq(why, "an answer is larger than 16 MiB");
	cr_assert_leq(arena.taken, REPLY_BYTES);
	cr_assert_eq(read_text("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), 0);
	cr_assert_not_null(why);
}

/* The memory of an answer is freed before the next, so any number may come. */
Test(reply, the_limit_is_that_of_one_answer)
{
	struct bytes text = {NULL, 0, 0};

	bytes_add_text(&text, "*100000\r\n");
	for (int k = 0; k < 100000; k++)
		bytes_add_text(&text, ":1\r\n");
	for (int i = 0; i < 40; i++)
		cr_assert_eq(read_text(bytes_text(&text)), text.len, "answer %d", i);
	bytes_free(&text);
}

/* Among them what only a client gets that has asked for RESP3. */
Test(reply, what_is_not_resp2_is_refused)
{
	static const char *const texts[] = {",1.5\r\n", "#t\r\n", "_\r\n",   "OK\r\n", "\r\n", "\n",
					    "x",        ":\r\n",  ":1x\r\n", "$\r\n",  "$\n-1"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cr_assert_eq(read_text(texts[i]), 0, "%s", texts[i]);
		cr_assert_not_null(why, "%s", texts[i]);
	}
}
