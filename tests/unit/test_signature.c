/* The id and signatures with which a receiver recognizes a delivery. */
#include "outbox/signature.h"
#include "unit.h"

/* The example that the Standard Webhooks specification's libraries are tested with: the secret
 * whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, decoded. */
static const struct webhook_secret published = {{0x31, 0xf2, 0x90, 0xf6, 0xbf, 0x06, 0x29, 0x8a,
						 0xab, 0x4f, 0x08, 0xd4, 0x3c, 0x3f, 0x08, 0x2c,
						 0xf6, 0x48, 0xa3, 0x62, 0xda, 0x2d, 0xa4, 0xb0},
						24};
#define PUBLISHED_ID   "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define PUBLISHED_TIME "1614265330"
#define PUBLISHED_BODY "{\"test\": 2432232314}"
#define PUBLISHED      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static char out[SIGNATURE_SIZE];

static const char *sign(const struct webhook *webhook, const char *id, const char *time, const char *body)
{
	signature_write(out, webhook, &(struct webhook_signed){id, time, {body, strlen(body)}});
	return out;
}

Test(signature, is_that_of_the_published_example)
{
	struct webhook webhook = {.secrets = {published}, .secret_count = 1};

	cr_assert_str_eq(sign(&webhook, PUBLISHED_ID, PUBLISHED_TIME, PUBLISHED_BODY), PUBLISHED);
}

Test(signature, covers_id_timestamp_and_body)
{
	struct webhook webhook = {.secrets = {published}, .secret_count = 1};

	cr_assert_str_neq(sign(&webhook, "msg_p", PUBLISHED_TIME, PUBLISHED_BODY), PUBLISHED);
	cr_assert_str_neq(sign(&webhook, PUBLISHED_ID, "1614265331", PUBLISHED_BODY), PUBLISHED);
	cr_assert_str_neq(sign(&webhook, PUBLISHED_ID, PUBLISHED_TIME, "{}"), PUBLISHED);
}

Test(signature, each_secret_signs)
{
	struct webhook webhook = {.secret_count = WEBHOOK_SECRETS_MAX};
	const char *at = out;
	int n = 0;

	for (int i = 0; i < WEBHOOK_SECRETS_MAX; i++) {
		memset(webhook.secrets[i].bytes, i, 64);
		webhook.secrets[i].len = 64;
	}
	webhook.secrets[2] = published;
	cr_assert_eq(strlen(sign(&webhook, PUBLISHED_ID, PUBLISHED_TIME, PUBLISHED_BODY)), sizeof(out) - 1);
	for (; (at = strstr(at, "v1,")); at += 3) {
		cr_assert(n == 0 || at[-1] == ' ');
		cr_assert_eq(strncmp(at, PUBLISHED, strlen(PUBLISHED)) == 0, n == 2);
		n++;
	}
	cr_assert_eq(n, WEBHOOK_SECRETS_MAX);
}

static const char *id_of(const char *target, const char *event_id)
{
	static char ids[4][SIGNATURE_ID_SIZE];
	static int next;
	char *id = ids[next++ % 4];

	signature_id(id, target, event_id, strlen(event_id));
	return id;
}

/* printf 'shop\0order-1' | sha256sum */
Test(signature, id_is_a_digest_of_target_and_event_that_never_changes)
{
	cr_assert_str_eq(id_of("shop", "order-1"), "msg_9c85d1334e23b0c8b93b5798cde3d5ff");
	cr_assert_str_neq(id_of("shop", "order-1"), id_of("shop", "order-2"));
	cr_assert_str_neq(id_of("shop", "order-1"), id_of("shoporder", "-1"));
}
