/* What is logged of addresses that send wrong tokens. */
#include "intake/addresses.h"
#include "unit.h"

static struct addresses *addresses;

static void init(void)
{
	capture_begin();
	addresses = addresses_new();
}

static void fini(void)
{
	addresses_free(addresses);
	capture_end();
}

TestSuite(addresses, .init = init, .fini = fini, .timeout = 60);

/* Returns true if the last of six wrong tokens is one too many. key is an IPv6 network. */
static bool guess(uint64_t key, int64_t now_ms)
{
	struct address *address = addresses_enter(addresses, key);
	bool has_too_many = false;

	for (int i = 0; i <= ADDRESS_FAILURES; i++)
		has_too_many = addresses_blame(addresses, address, now_ms);
	addresses_shaken(address);
	addresses_leave(addresses, address);
	return has_too_many;
}

Test(addresses, a_stranger_with_many_is_slowed_on_each_and_fills_no_log)
{
	for (uint64_t key = 1; key <= 1000; key++)
		cr_assert(guess(key << 32 | 1, 100000));
	cr_assert_eq(captured_times("an address sent too many wrong tokens"), 20, "%s", captured());
	guess(1, 160000);
	cr_assert_eq(captured_times("an address sent too many wrong tokens"), 21, "%s", captured());
}
