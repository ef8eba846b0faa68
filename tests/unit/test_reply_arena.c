/* Answers of Redis: how much memory one may take. */
#include "redis/reply_arena.h"
#include "unit.h"

static _Alignas(16) char room[1024];
static struct arena arena;
static redisReader *reader;
static void *reply;

static void init(void)
{
	arena = (struct arena){.room = room, .size = sizeof(room)};
	reader = redisReaderCreate();
	reply_use_arena(reader, &arena);
}

static void fini(void)
{
	redisReaderFree(reader);
	arena_clear(&arena);
}

TestSuite(reply_arena, .init = init, .fini = fini, .timeout = 60);

static int read_text(const char *text)
{
	cr_assert_eq(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	return redisReaderGetReply(reader, &reply);
}

Test(reply_arena, an_array_may_be_promised_and_come_later)
{
	cr_assert_eq(read_text("*2\r\n$1\r\na\r\n"), REDIS_OK);
	cr_assert_null(reply);
	cr_assert_eq(read_text(":7\r\n"), REDIS_OK);
	cr_assert_eq(((struct redis_reply *)reply)->element[1]->integer, 7);
}

Test(reply_arena, an_array_that_nobody_could_hold_is_refused)
{
	cr_assert_eq(read_text("*2147483647\r\n"), REDIS_ERR);
	cr_assert_eq(reader->err, REDIS_ERR_OOM);
	cr_assert_lt(arena.taken, 4096);
}

/* Each of these announces 1 MiB with eleven bytes. */
Test(reply_arena, arrays_of_arrays_are_counted_together)
{
	char text[2000] = "*1000\r\n";
	int n = 0;

	for (int i = 0; i < 100; i++)
		strcat(text, "*1\r\n*131000\r\n" + (i ? 4 : 0));
	cr_assert_eq(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	while (n++ < 100 && redisReaderGetReply(reader, &reply) == REDIS_OK && reply)
		;
	cr_assert_leq(arena.taken, REPLY_BYTES);
}

/* The memory of an answer is freed before the next, so any number may come. */
Test(reply_arena, the_limit_is_that_of_one_answer)
{
	for (int i = 0; i < 40; i++) {
		cr_assert_eq(read_text("*100000\r\n"), REDIS_OK, "answer %d", i);
		for (int k = 0; k < 100000; k++)
			redisReaderFeed(reader, ":1\r\n", 4);
		cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
		cr_assert_not_null(reply);
		arena_clear(&arena);
	}
}

/* hiredis 0.14 refuses the types of RESP3; 1.x reads them. */
Test(reply_arena, what_nobody_asked_for_is_an_error_or_says_nothing)
{
	static const char *const texts[] = {",1.5\r\n", "#t\r\n"};

	for (size_t i = 0; i < 2; i++) {
		fini();
		init();
		if (read_text(texts[i]) == REDIS_OK) {
			cr_assert_gt(((struct redis_reply *)reply)->type, REPLY_ERROR, "%s", texts[i]);
			arena_clear(&arena);
		}
	}
}
