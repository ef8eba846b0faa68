/* What feed/secrets.c finds in a profile, and where it hides it. */
#include "feed/secrets.h"

#include "unit.h"

Test(secrets, those_that_a_profile_names_are_hidden)
{
	char path[] = "/tmp/secretXXXXXX", text[200], json[300];
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "from-a-file\n", 12), 12);
	close(fd);
	setenv("SECRET_OF_TEST", "from-the-environment", 1);
	snprintf(json, sizeof json,
		 "{\"url\": \"wss://h/?k=${env:SECRET_OF_TEST}&x=${symbol}\", \"rules\": [{\"send\": [{\"a\": "
		 "\"${file:%s}\"}]}]}",
		 path);
	json_t *root = json_loads(json, 0, NULL);
	struct secrets *s = secrets_new();

	secrets_read(s, root);

	secrets_add(s, "ticket", "ticket-of-the-server", 20);
	secrets_add(s, "coin", "USDC-E", 6);
	secrets_add(s, "file:/run/pin", "739154", 6);
	strcpy(text,
	       "from-the-environment from-a-file ticket-of-the-server USDC-E ${symbol} 739154 from-the-environment");
	secrets_mask(s, text);
	cr_assert_null(strstr(text, "from-"), "%s", text);
	cr_assert_null(strstr(text, "ticket"), "%s", text);
	cr_assert(strstr(text, "USDC-E ${symbol} ****** *"), "%s", text);
	secrets_free(s);
	json_decref(root);
	unlink(path);
}

Test(secrets, those_behind_a_nul_or_asked_for_as_a_text_are_hidden)
{
	static const char *const profiles[] = {"{\"on_open\": [{\"text\": \"one\\u0000two ${env:SECRET_OF_TEST}\"}]}",
					       "{\"h\": \"${text:env:SECRET_OF_TEST}\"}"};

	setenv("SECRET_OF_TEST", "from-the-environment", 1);
	for (size_t i = 0; i < 2; i++) {
		char text[] = "a from-the-environment b";
		json_t *root = json_loads(profiles[i], JSON_ALLOW_NUL, NULL);
		struct secrets *s = secrets_new();

		secrets_read(s, root);
		secrets_mask(s, text);
		cr_assert_null(strstr(text, "from-"), "%s", text);
		secrets_free(s);
		json_decref(root);
	}
}

Test(secrets, those_written_for_a_url_are_hidden_as_a_server_decodes_them)
{
	char text[] = "bad key from+the/environment=, from%2Bthe%2Fenvironment%3D";
	json_t *root = json_loads("{\"url\": \"wss://h/?k=${env:SECRET_OF_TEST}\"}", 0, NULL);
	struct secrets *s = secrets_new();

	setenv("SECRET_OF_TEST", "from%2Bthe%2Fenvironment%3D", 1);
	secrets_read(s, root);
	secrets_mask(s, text);
	cr_assert_null(strstr(text, "from"), "%s", text);
	secrets_free(s);
	json_decref(root);
}

/* A name may be the beginning of a key. */
Test(secrets, one_that_begins_with_another_is_hidden_as_a_whole)
{
	char text[] = "bad key account-7-of-the-shop";
	struct secrets *s = secrets_new();

	secrets_add(s, "key", "account-7-of-the-shop", 21);
	secrets_add(s, "name", "account-7", 9);
	secrets_add(s, "key", "account-7-of", 12);
	secrets_mask(s, text);
	cr_assert_str_eq(text, "bad key *********************");
	secrets_free(s);
}

/* True if secret number i is masked. */
static bool is_hidden(const struct secrets *s, int i)
{
	char text[40], before[40];

	snprintf(text, sizeof(text), "ticket-%03d-of-the-server", i);
	strcpy(before, text);
	secrets_mask(s, text);
	return strcmp(text, before) != 0;
}

/* A token that is read from a file may have had hundreds of values. */
Test(secrets, newest_value_of_one_that_changes_is_hidden)
{
	json_t *root = json_loads("{\"h\": \"${env:SECRET_OF_TEST}\"}", 0, NULL);
	struct secrets *s = secrets_new();
	char text[40];

	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "ticket-%03d-of-the-server", i);
		setenv("SECRET_OF_TEST", text, 1);
		secrets_read(s, root);
		cr_assert(is_hidden(s, i), "%d", i);
	}
	secrets_free(s);
	json_decref(root);
}

Test(secrets, newest_16_of_a_variable_push_out_no_others)
{
	struct secrets *s = secrets_new();
	char text[40];

	secrets_add(s, "login", "ticket-999-of-the-server", 24);
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "ticket-%03d-of-the-server", i);
		secrets_add(s, "seen", text, strlen(text));
		secrets_add(s, "seen", text, strlen(text)); /* again: takes no second place */
		for (int old = 0; old <= i; old++)
			cr_assert_eq(is_hidden(s, old), old > i - 16, "%d of %d", old, i);
	}
	cr_assert(is_hidden(s, 999));
	secrets_free(s);
}
