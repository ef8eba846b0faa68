/* What is logged of addresses that send wrong tokens. */
#include "intake/addresses.h"
#include "unit.h"

static struct addresses *addresses;

static void init(void)
{
	capture_begin();
	addresses = addresses_new("--ingest");
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

Test(addresses, blame_ends_a_minute_after_the_last_wrong_token)
{
	struct address *address = addresses_enter(addresses, 1);

	for (int i = 0; i < ADDRESS_FAILURES; i++)
		cr_assert_not(addresses_blame(addresses, address, 1000 + i));
	for (int64_t now_ms = 2000; now_ms < 200000; now_ms += ADDRESS_SPELL_MS - 1)
		cr_assert(addresses_blame(addresses, address, now_ms), "at %lld", (long long)now_ms);
	for (int i = 0; i < ADDRESS_FAILURES; i++)
		cr_assert_not(addresses_blame(addresses, address, 300000));
	cr_assert(addresses_blame(addresses, address, 300000));
	addresses_shaken(address);
	addresses_leave(addresses, address);
	cr_assert_eq(addresses_enter(addresses, 1), address, "it is not forgotten when it leaves");
	cr_assert_eq(address_handshakes(address), 1);
	cr_assert_eq(address_producers(address), 0);
}

/* One that comes back is no longer among those without a socket. */
Test(addresses, oldest_of_too_many_without_a_socket_is_forgotten)
{
	struct address *first, *second;

	guess(1, 1000);
	guess(2, 1000);
	first = addresses_enter(addresses, 1);
	second = addresses_enter(addresses, 2);
	addresses_shaken(second);
	addresses_leave(addresses, second);
	for (uint64_t key = 3; key < 3 + 4095; key++)
		guess(key, 1000);
	cr_assert_eq(addresses_enter(addresses, 2), second);
	cr_assert(addresses_blame(addresses, second, 1001), "there are just as many as are kept");
	addresses_shaken(second);
	addresses_leave(addresses, second);
	guess(5000, 1000);
	cr_assert_not(addresses_blame(addresses, addresses_enter(addresses, 2), 1001), "it was the oldest");
	cr_assert(addresses_blame(addresses, first, 1001), "it has a socket");
}
