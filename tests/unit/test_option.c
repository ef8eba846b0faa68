/* A command's own options: which are read into its struct, and which are settings. */
#include "config/setting.h"
#include "unit.h"

struct wanted {
	bool is_json;
	const char *text;
	int64_t number;
	int64_t span;
	int64_t moment;
	int64_t rate;
	const char *choice;
};

#define ROW(flag, member, ...) \
	{ \
		flag, NULL, {__VA_ARGS__}, offsetof(struct wanted, member), "", NULL, "" \
	}

static const struct setting table[] = {
	ROW("json", is_json, VALUE_SWITCH, 0, 0, NULL),   ROW("text", text, VALUE_TEXT, 0, 0, NULL),
	ROW("number", number, VALUE_NUMBER, 5, 10, NULL), ROW("span", span, VALUE_SPAN, 0, 0, NULL),
	ROW("time", span, VALUE_SPAN, 1, 0, NULL),        ROW("moment", moment, VALUE_MOMENT, 0, 0, NULL),
	ROW("rate", rate, VALUE_RATE, 1, 1000, NULL),     ROW("choice", choice, VALUE_CHOICE, 0, 0, "red green"),
};

static struct wanted got;
static char error[200];
static char *words[20];
static char *argv[20];
static int argc;
static struct config config;
static struct config_own own = {"command", table, sizeof(table) / sizeof(table[0]), &got, words, 0};

static void free_config(void)
{
	config_free(&config);
}

TestSuite(option, .fini = free_config);

static int read_text(const char *text)
{
	static char copy[300];
	char *at;

	got = (struct wanted){.is_json = false};
	snprintf(copy, sizeof(copy), "command %s", text);
	argc = 0;
	for (char *word = strtok_r(copy, " ", &at); word; word = strtok_r(NULL, " ", &at))
		argv[argc++] = word;
	config_free(&config);
	return config_read(&config, &own, argc, argv, error, sizeof(error));
}

Test(option, values_of_every_type_are_read_with_a_blank_or_an_equals_sign)
{
	cr_assert_eq(read_text("--json --text=a=b --number 7 --span 12h --rate=5/s --choice green --moment "
			       "1970-01-01T00:00:01Z"),
		     0, "%s", error);
	cr_assert(got.is_json);
	cr_assert_str_eq(got.text, "a=b");
	cr_assert_eq(got.number, 7);
	cr_assert_eq(got.span, INT64_C(43200) * 1000000);
	cr_assert_eq(got.rate, 5);
	cr_assert_str_eq(got.choice, "green");
	cr_assert_eq(got.moment, 1000000);
	cr_assert_eq(own.word_count, 0);
}

/* In the struct, 0 means that an option is not given, but --until 1970-01-01T00:00:00Z must not match everything. */
Test(option, the_first_moment_is_given)
{
	cr_assert_eq(read_text("--span 0s --moment 1970-01-01T00:00:00Z"), 0);
	cr_assert_eq(got.moment, 1);
}

Test(option, a_moment_may_be_so_long_ago)
{
	int64_t hour_ago = ((int64_t)time(NULL) - 3600) * 1000000;

	cr_assert_eq(read_text("--moment 1h"), 0);
	cr_assert_lt(llabs((long long)(got.moment - hour_ago)), 10000000);
}

Test(option, what_is_not_the_commands_is_a_setting_or_a_word)
{
	cr_assert_eq(read_text("--redis none --json --postgres=host=x file - --source-uncompressed=no x"), -1);
	cr_assert_eq(read_text("--redis none --json --postgres=host=x file - --consumer y"), 0, "%s", error);
	cr_assert_str_eq(config.redis, "none");
	cr_assert_str_eq(config.postgres, "host=x");
	cr_assert_str_eq(config.consumer, "y");
	cr_assert_eq(own.word_count, 2);
	cr_assert_str_eq(words[0], "file");
	cr_assert_str_eq(words[1], "-");
}

Test(option, without_settings_they_are_refused)
{
	cr_assert_eq(config_read(NULL, &own, 3, (char *[]){"command", "--json", "file"}, error, sizeof(error)), 0);
	cr_assert(got.is_json && own.word_count == 1);
	cr_assert_eq(config_read(NULL, &own, 3, (char *[]){"command", "--redis", "none"}, error, sizeof(error)), -1);
	cr_assert_str_eq(error, "settings are not allowed here");
}

Test(option, all_after_two_dashes_are_words)
{
	cr_assert_eq(read_text("-- --json -x"), 0);
	cr_assert_not(got.is_json);
	cr_assert_eq(own.word_count, 2);
	cr_assert_str_eq(words[0], "--json");
}

Test(option, wrong_values_are_named)
{
	static const char *const wrong[][2] = {
		{"--json=1", "--json: takes no value"},
		{"--text", "--text: needs a value"},
		{"--number 4", "--number: \"4\""},
		{"--number 11", "--number: \"11\""},
		{"--number 7x", "--number: \"7x\""},
		{"--number -7", "--number: \"-7\""},
		{"--number 99999999999999999999", "--number"},
		{"--span 12", "--span: \"12\""},
		{"--span 1y", "--span: \"1y\""},
		{"--time 0s", "--time: \"0s\" must be longer than 0"},
		{"--moment now", "--moment: \"now\""},
		{"--rate 0", "--rate: \"0\""},
		{"--rate 5/m", "--rate: \"5/m\""},
		{"--choice blue", "--choice: \"blue\""},
		{"--choice gre", "--choice: \"gre\""},
		{"-j", "\"-j\" is not an option"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error[0] = '\0';
		cr_expect_eq(read_text(wrong[i][0]), -1, "%s", wrong[i][0]);
		cr_expect(strstr(error, wrong[i][1]), "%s: %s", wrong[i][0], error);
	}
}
