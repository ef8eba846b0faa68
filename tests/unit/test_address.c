/* Which values of --redis are accepted. */
#include "redis/address.h"

#include "unit.h"

static bool is_accepted(const char *text)
{
	struct redis_address address;
	const char *fault = redis_address_read(&address, text);

	redis_address_clear(&address);
	return !fault;
}

Test(address, database_is_a_number_or_nothing_and_a_socket_has_three_slashes)
{
	static const char *const good[] = {"redis://h", "redis://h/", "redis://h/0", "redis://h/15", "unix:///run/x"};
	static const char *const bad[] = {"redis://h/a",     "redis://h/1a",     "redis://h/-1", "redis://h/1/2",
					  "redis://h/0?x=1", "redis://h/123456", "unix://",      "unix://x",
					  "unix://x/y",      "unix://:1/c",      "unix://p@:0/c"};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert(is_accepted(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_not(is_accepted(bad[i]), "%s", bad[i]);
}
