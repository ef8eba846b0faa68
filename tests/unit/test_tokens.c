/* The tokens of producers: their file, its reload, and which tokens are accepted. */
#include "config/tokens.h"
#include "unit.h"

static char path[] = "/tmp/wsonce-tokens-XXXXXX";
static struct tokens *tokens;
static char error[300];

static void init(void)
{
	close(mkstemp(path));
}

static void fini(void)
{
	tokens_free(tokens);
	unlink(path);
}

TestSuite(tokens, .init = init, .fini = fini, .timeout = 60);

/* Replaces the file by renaming another, as editors and orchestrators do. */
static void write_tokens(const char *text)
{
	char fresh[sizeof(path) + 4];

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	FILE *out = fopen(fresh, "w");
	fputs(text, out);
	fclose(out);
	cr_assert_eq(rename(fresh, path), 0);
}

static void expect_name(const char *given, const char *name)
{
	const struct token *token = tokens_find(tokens, given);

	if (!name)
		cr_assert_null(token, "\"%s\" is %s", given, token ? token->name : "");
	else
		cr_assert(token && strcmp(token->name, name) == 0, "\"%s\" is %s", given,
			  token ? token->name : "unknown");
}

Test(tokens, one_token_has_the_name_default)
{
	tokens = tokens_new("one-token-of-many-bytes", NULL, false, error, sizeof(error));
	cr_assert(tokens_are_demanded(tokens));
	expect_name("one-token-of-many-bytes", "default");
	expect_name("one-token-of-many-byte", NULL);
	expect_name("one-token-of-many-bytess", NULL);
	expect_name("", NULL);
}

Test(tokens, without_any_nothing_is_demanded)
{
	tokens = tokens_new(NULL, NULL, false, error, sizeof(error));
	cr_assert_not(tokens_are_demanded(tokens));
	expect_name("anything", NULL);
}

Test(tokens, each_line_of_a_file_has_a_name_and_a_token)
{
	write_tokens("# who sends\n\nshop  token-of-the-shop\n\ttill\ttoken-of-the-till \r\nlonely-token\nshop "
		     "its-next-token");
	tokens = tokens_new(NULL, path, false, error, sizeof(error));
	cr_assert_not_null(tokens, "%s", error);
	expect_name("token-of-the-shop", "shop");
	expect_name("its-next-token", "shop");
	expect_name("token-of-the-till", "till");
	expect_name("lonely-token", "default");
	expect_name("shop", NULL);
	expect_name("#", NULL);
}

static void expect_fault(const char *text, const char *part)
{
	write_tokens(text);
	cr_assert_null(tokens_new(NULL, path, false, error, sizeof(error)), "taken: %s", text);
	cr_assert(strstr(error, part) && !strstr(error, "hush"), "%s", error);
}

Test(tokens, what_is_wrong_in_a_file_is_said_without_the_token)
{
	char text[1200];

	expect_fault("", "has no token");
	expect_fault("# only a comment\n", "has no token");
	expect_fault("a hush\nb hush hush\n", "line 2");
	expect_fault("a:b hush\n", "line 1");
	snprintf(text, sizeof(text), "a %01100d", 1);
	expect_fault(text, "line 1, is longer");
	snprintf(text, sizeof(text), "%065d hush", 1);
	expect_fault(text, "has a name");
	cr_assert_null(tokens_new(NULL, "/nowhere/tokens", false, error, sizeof(error)));
	cr_assert(strstr(error, "cannot read /nowhere/tokens: No such file"), "%s", error);
}

Test(tokens, a_file_has_a_thousand_tokens_at_most)
{
	char text[40000];
	size_t len = 0;

	for (int i = 0; i <= TOKENS_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "name hush-%d\n", i);
	expect_fault(text, "line 1001");
}

Test(tokens, a_changed_file_is_read_again_and_counters_stay)
{
	struct token *stays;

	write_tokens("stays token-that-stays\ngoes token-that-goes\n");
	tokens = tokens_new(NULL, path, false, error, sizeof(error));
	stays = tokens_find(tokens, "token-that-stays");
	stays->messages = 7;
	cr_assert_not(tokens_refresh(tokens), "nothing has changed");
	write_tokens("stays token-that-stays\ncomes token-that-comes\n");
	cr_assert(tokens_refresh(tokens));
	cr_assert_eq(tokens_find(tokens, "token-that-stays"), stays);
	cr_assert_eq(stays->messages, 7);
	expect_name("token-that-goes", NULL);
	expect_name("token-that-comes", "comes");
	cr_assert_not(tokens_refresh(tokens));
}

Test(tokens, a_file_that_is_gone_or_wrong_changes_nothing)
{
	write_tokens("stays token-that-stays\n");
	tokens = tokens_new(NULL, path, false, error, sizeof(error));
	unlink(path);
	cr_assert_not(tokens_refresh(tokens));
	write_tokens("a b c\n");
	cr_assert_not(tokens_refresh(tokens));
	expect_name("token-that-stays", "stays");
	write_tokens("stays another-token\n");
	cr_assert(tokens_refresh(tokens));
	expect_name("token-that-stays", NULL);
	expect_name("another-token", "stays");
}

Test(tokens, names_of_certificates_are_kept_beside_them)
{
	struct token *shop;

	write_tokens("shop token-of-the-shop\n");
	tokens = tokens_new(NULL, path, false, error, sizeof(error));
	shop = tokens_certified(tokens, "shop");
	cr_assert_neq(shop, tokens_find(tokens, "token-of-the-shop"));
	cr_assert_eq(tokens_certified(tokens, "shop"), shop);
	write_tokens("till token-of-the-till\n");
	cr_assert(tokens_refresh(tokens));
	cr_assert(shop->is_valid);
	expect_name("", NULL);
	expect_name("shop", NULL);
}

Test(tokens, without_tokens_certificates_demand_none)
{
	tokens = tokens_new(NULL, NULL, false, error, sizeof(error));
	tokens_certified(tokens, "shop");
	cr_assert_not(tokens_are_demanded(tokens));
	expect_name("", NULL);
}

Test(tokens, a_thousand_names_of_certificates_are_told_apart)
{
	char name[20];

	tokens = tokens_new(NULL, NULL, false, error, sizeof(error));
	struct token *first = tokens_certified(tokens, "0");
	for (int i = 1; i < TOKENS_MAX; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cr_assert_str_eq(tokens_certified(tokens, name)->name, name);
	}
	struct token *others = tokens_certified(tokens, "one-more");
	cr_assert_str_eq(others->name, "others");
	cr_assert_eq(tokens_certified(tokens, "and-one-more"), others);
	cr_assert_eq(tokens_certified(tokens, "0"), first);
}

/* --- secrets of webhooks --- */

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static const struct webhook_signed signed_body = {
	"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", {"{\"test\": 2432232314}", 20}};

static void expect_signer(const char *name)
{
	const struct token *token = tokens_next(tokens, NULL);

	while (token && !webhook_secret_has_signed(&token->secret, &signed_body,
						   "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="))
		token = tokens_next(tokens, token);
	cr_assert(!token == !name && (!name || strcmp(token->name, name) == 0), "%s", token ? token->name : "none");
}

Test(tokens, secret_has_the_name_of_its_line_until_the_line_is_gone)
{
	write_tokens("# senders\nbilling " OTHER "\nshop " SECRET "\n");
	tokens = tokens_new_secrets(path, error, sizeof(error));
	cr_assert_not_null(tokens, "%s", error);
	expect_signer("shop");
	write_tokens(SECRET);
	cr_assert(tokens_refresh(tokens));
	expect_signer("webhook");
	write_tokens(OTHER "\n");
	cr_assert(tokens_refresh(tokens));
	expect_signer(NULL);
	cr_assert(tokens_are_demanded(tokens));
}

static void expect_wrong_secrets(const char *text, const char *part)
{
	write_tokens(text);
	cr_assert_null(tokens_new_secrets(path, error, sizeof(error)), "taken: %s", text);
	cr_assert(strstr(error, "--ingest-webhook-secret-file") && strstr(error, part) && !strstr(error, "MfKQ"), "%s",
		  error);
}

Test(tokens, file_of_secrets_with_a_mistake_is_not_taken)
{
	char many[17 * sizeof OTHER + 1], *at = many;

	expect_wrong_secrets("", "has no secret");
	expect_wrong_secrets(SECRET "\nshop MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
			     "line 2, has a secret that is not whsec_");
	expect_wrong_secrets("whsec_MfKQ9r8GKYqrTwjU\n", "line 1, has a secret that is not whsec_");
	expect_wrong_secrets("my shop " SECRET, "\"name secret\"");
	for (int i = 0; i < 17; i++)
		at = stpcpy(at, OTHER "\n");
	expect_wrong_secrets(many, "line 17, is one too many");
}

Test(tokens, without_a_file_there_are_no_secrets)
{
	tokens = tokens_new_secrets(NULL, error, sizeof(error));
	cr_assert_not(tokens_are_demanded(tokens));
	expect_signer(NULL);
}
