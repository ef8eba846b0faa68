/* A command's own options: which are read into its struct, and which are left for the settings. */
#include "commands/option.h"
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

static const struct option table[] = {
	{"json", OPTION_SWITCH, offsetof(struct wanted, is_json), NULL, 0, 0, NULL, "a switch"},
	{"text", OPTION_TEXT, offsetof(struct wanted, text), "TEXT", 0, 0, NULL, "a text"},
	{"number", OPTION_NUMBER, offsetof(struct wanted, number), "N", 5, 10, NULL, "a number"},
	{"span", OPTION_SPAN, offsetof(struct wanted, span), "AGE", 0, 0, NULL, "a span"},
	{"time", OPTION_SPAN, offsetof(struct wanted, span), "TIME", 1, 0, NULL, "a span that is not 0"},
	{"moment", OPTION_MOMENT, offsetof(struct wanted, moment), "TIME", 0, 0, NULL, "a moment"},
	{"rate", OPTION_RATE, offsetof(struct wanted, rate), "N/s", 1, 1000, NULL, "a rate"},
	{"choice", OPTION_CHOICE, offsetof(struct wanted, choice), "WORD", 0, 0, "red green", "a choice"},
};

static struct wanted got;
static char error[200];
static char *words[20];
static char *argv[20];
static int argc, word_count;

static int read_text(const char *text)
{
	static char copy[300];
	struct options options = {table, sizeof(table) / sizeof(table[0]), &got};
	char *at;

	got = (struct wanted){.is_json = false};
	snprintf(copy, sizeof(copy), "command %s", text);
	argc = 0;
	for (char *word = strtok_r(copy, " ", &at); word; word = strtok_r(NULL, " ", &at))
		argv[argc++] = word;
	return options_read(&options, "command", &argc, argv, words, &word_count, error, sizeof(error));
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
	cr_assert_eq(argc, 1);
	cr_assert_eq(word_count, 0);
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

Test(option, what_is_not_the_commands_is_left_with_its_value)
{
	cr_assert_eq(read_text("--redis none --json --postgres=x file - --source y"), 0);
	cr_assert_eq(argc, 6);
	cr_assert_str_eq(argv[1], "--redis");
	cr_assert_str_eq(argv[2], "none");
	cr_assert_str_eq(argv[3], "--postgres=x");
	cr_assert_str_eq(argv[5], "y");
	cr_assert_eq(word_count, 2);
	cr_assert_str_eq(words[0], "file");
	cr_assert_str_eq(words[1], "-");
}

Test(option, a_setting_that_is_a_switch_takes_no_word_with_it)
{
	cr_assert_eq(read_text("--ingest-open --redis none file"), 0);
	cr_assert_eq(argc, 4);
	cr_assert_str_eq(argv[1], "--ingest-open");
	cr_assert_str_eq(argv[3], "none");
	cr_assert_eq(word_count, 1);
	cr_assert_str_eq(words[0], "file");
}

Test(option, all_after_two_dashes_are_words)
{
	cr_assert_eq(read_text("-- --json -x"), 0);
	cr_assert_not(got.is_json);
	cr_assert_eq(word_count, 2);
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
