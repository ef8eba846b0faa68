/* The secrets of Standard Webhooks: which signatures and which timestamps are taken. */
#include "config/webhook_secret.h"
#include "unit.h"

/* The example that the specification's libraries are tested with. */
static const char published[] = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
static struct webhook_secret secret;
static struct webhook_signed what = {"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", {"{\"test\": 2432232314}", 20}};

static void init(void)
{
	const char *text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

	cr_assert(webhook_secret_decode(&secret, text, strlen(text)));
}

TestSuite(webhook_secret, .init = init, .timeout = 10);

#define HAS_SIGNED(signatures) webhook_secret_has_signed(&secret, &what, signatures)

Test(webhook_secret, published_signature_is_right)
{
	cr_assert(HAS_SIGNED(published));
	cr_assert_not(HAS_SIGNED("v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="));
	cr_assert_not(HAS_SIGNED("g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
	cr_assert_not(HAS_SIGNED("v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
	cr_assert_not(HAS_SIGNED("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE"));
	cr_assert_not(HAS_SIGNED("v1,"));
	cr_assert_not(HAS_SIGNED(""));
	cr_assert_not(HAS_SIGNED("  "));
}

Test(webhook_secret, one_of_several_signatures_is_enough)
{
	char all[300];

	snprintf(all, sizeof all, " v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,x  %s v1a,x", published);
	cr_assert(HAS_SIGNED(all));
	snprintf(all, sizeof all, "%s,v1,x", published);
	cr_assert_not(HAS_SIGNED(all), "only blanks separate them");
}

Test(webhook_secret, signature_covers_id_timestamp_and_body)
{
	what.id = "msg_p5jXN8AQM9LWM0D4loKWxJeK";
	cr_assert_not(HAS_SIGNED(published));
	what.id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
	what.timestamp = "1614265331";
	cr_assert_not(HAS_SIGNED(published));
	what.timestamp = "1614265330";
	cr_assert(HAS_SIGNED(published));
	what.body.len--;
	cr_assert_not(HAS_SIGNED(published));
}

Test(webhook_secret, timestamp_is_fresh_for_five_minutes_either_way)
{
	cr_assert(webhook_timestamp_is_fresh("1614265330", 1614265330));
	cr_assert(webhook_timestamp_is_fresh("1614265330", 1614265330 + 300));
	cr_assert(webhook_timestamp_is_fresh("1614265330", 1614265330 - 300));
	cr_assert_not(webhook_timestamp_is_fresh("1614265330", 1614265330 + 301));
	cr_assert_not(webhook_timestamp_is_fresh("1614265330", 1614265330 - 301));
}

Test(webhook_secret, timestamp_is_digits)
{
	static const char *const wrong[] = {NULL, "", " 100", "100 ", "+100", "-1", "100.5", "1e2", "0x64", "x"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		cr_assert_not(webhook_timestamp_is_fresh(wrong[i], 100), "%s", wrong[i]);
	cr_assert_not(webhook_timestamp_is_fresh("99999999999999999999999999", INT64_MAX / 2));
	cr_assert(webhook_timestamp_is_fresh("0100", 100));
}
