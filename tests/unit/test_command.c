/* The bytes of Redis commands. */
#include "redis/resp.h"
#include "unit.h"

static struct bytes command;

static void fini(void)
{
	bytes_free(&command);
}

TestSuite(command, .fini = fini, .timeout = 60);

static void assert_bytes(const char *bytes)
{
	cr_assert_eq(command.len, strlen(bytes));
	cr_assert_eq(memcmp(command.at, bytes, command.len), 0, "%.*s", (int)command.len, command.at);
}

Test(command, words_are_counted_and_measured)
{
	resp_start(&command, 3);
	resp_word(&command, "SET");
	resp_word(&command, "key");
	resp_word(&command, "");
	assert_bytes("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
}

Test(command, joined_parts_are_one_word)
{
	resp_start(&command, 2);
	resp_joined(&command, "dedup:", 6, "id-1", 4);
	resp_joined(&command, "", 0, "x", 1);
	assert_bytes("*2\r\n$10\r\ndedup:id-1\r\n$1\r\nx\r\n");
}

Test(command, bytes_may_be_anything)
{
	resp_start(&command, 1);
	resp_bytes(&command, "a\0\r\n$", 5);
	cr_assert_eq(command.len, 15);
	cr_assert_eq(memcmp(command.at, "*1\r\n$5\r\na\0\r\n$\r\n", 15), 0);
}

Test(command, numbers_are_words)
{
	resp_start(&command, 4);
	resp_number(&command, 0);
	resp_number(&command, -7);
	resp_number(&command, INT64_MAX);
	resp_number(&command, INT64_MIN);
	assert_bytes("*4\r\n$1\r\n0\r\n$2\r\n-7\r\n$19\r\n9223372036854775807\r\n$20\r\n-9223372036854775808\r\n");
}

Test(command, next_command_starts_anew)
{
	resp_start(&command, 1);
	resp_word(&command, "PING");
	resp_start(&command, 10);
	resp_word(&command, "A");
	assert_bytes("*10\r\n$1\r\nA\r\n");
}

Test(command, long_words_and_many_words_fit)
{
	size_t size = 100000;
	char *text = malloc(size);

	memset(text, 'x', size);
	resp_start(&command, 1001);
	for (int i = 0; i < 1000; i++)
		resp_word(&command, "word");
	resp_bytes(&command, text, size);
	cr_assert_eq(command.len, 7 + 1000 * 10 + 9 + size + 2);
	cr_assert_eq(memcmp(command.at, "*1001\r\n$4\r\nword\r\n", 17), 0);
	cr_assert_eq(memcmp(command.at + 10007, "$100000\r\nxx", 11), 0);
	cr_assert_eq(memcmp(command.at + command.len - 3, "x\r\n", 3), 0);
	free(text);
}
