/* The cluster slots of keys. */
#include "unit.h"

#include "redis/slots.h"

static unsigned int slot(const char *key)
{
	return slot_of_key(key, strlen(key));
}

/* Values from CLUSTER KEYSLOT; the first is from the specification. */
Test(slots, are_those_of_redis)
{
	cr_expect_eq(slot("123456789"), 12739);
	cr_expect_eq(slot("foo"), 12182);
	cr_expect_eq(slot("x{foo}y"), 12182);
	cr_expect_eq(slot("{foo}{bar}"), 12182);
	cr_expect_eq(slot("foo{}{bar}"), slot_of_key("foo{}{bar}", 10));
	cr_expect_eq(slot(""), 0);
}

Test(slots, braces_without_anything_in_them_or_without_an_end_are_no_tag)
{
	cr_expect_neq(slot("{}a"), slot("{}b"));
	cr_expect_neq(slot("{a"), slot("{b"));
}

Test(slots, a_command_lies_where_its_first_key_does)
{
	static const char mget[] = "*3\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n$1\r\nx\r\n";
	static const char eval[] = "*4\r\n$4\r\nEVAL\r\n$2\r\n\n1\r\n$1\r\n1\r\n$3\r\nfoo\r\n";
	static const char none[] = "*3\r\n$4\r\nEVAL\r\n$1\r\n1\r\n$1\r\n0\r\n";
	static const char list[] = "*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n";

	cr_expect_eq(slot_of_command(mget, strlen(mget)), 12182);
	cr_expect_eq(slot_of_command(eval, strlen(eval)), 12182);
	cr_expect_eq(slot_of_command(none, strlen(none)), -1);
	cr_expect_eq(slot_of_command(list, strlen(list)), -1);
	for (size_t n = 0; n < strlen(eval); n++)
		slot_of_command(eval, n); /* cut off anywhere: no crash */
}
