/* How marks are written, and how any value in Redis is read. */
#include "claim/mark.h"
#include "unit.h"

TestSuite(mark, .timeout = 60);

static void expect_text(const struct mark *mark, const char *expected)
{
	char text[MARK_TEXT_SIZE];
	size_t len = mark_write(mark, text);

	cr_assert_str_eq(text, expected);
	cr_assert_eq(len, strlen(expected));
}

static void expect_read(const char *value, const struct mark *expected)
{
	struct mark mark;

	cr_assert(mark_read(&mark, value, strlen(value)), "%s", value);
	cr_assert_eq(mark.is_dead, expected->is_dead, "%s", value);
	cr_assert_eq(mark.ms, 0, "%s", value);
	cr_assert_eq(mark.epoch, expected->epoch, "%s", value);
	cr_assert_eq(mark.digest, expected->digest, "%s", value);
	cr_assert_eq(mark.minute, expected->minute, "%s", value);
}

Test(mark, texts)
{
	expect_text(&(struct mark){.ms = 1700000000000}, "done@1700000000000");
	expect_text(&(struct mark){.ms = 1700000000000, .epoch = 0xab12}, "done@1700000000000.0000ab12");
	expect_text(&(struct mark){.ms = 7, .epoch = 0xab12, .minute = 28333141}, "done@7.0000ab12/m01b05455");
	expect_text(&(struct mark){.ms = 7, .minute = 28333141}, "done@7");
	expect_text(&(struct mark){.is_dead = true, .ms = 7, .epoch = 1, .minute = 9}, "dead@7.00000001");
	expect_text(&(struct mark){.is_dead = true, .ms = 7}, "dead@7");
	expect_text(&(struct mark){.is_dead = true, .ms = 7, .digest = 0xff}, "dead@7/00000000000000ff");
	expect_text(&(struct mark){true, 7, 0xffffffff, 0x0123456789abcdef, 0}, "dead@7.ffffffff/0123456789abcdef");
	expect_text(&(struct mark){false, 7, 1, 0x0123456789abcdef, 0}, "done@7.00000001");
	expect_text(&(struct mark){true, INT64_MIN, 0xffffffff, 0x0123456789abcdef, 0},
		    "dead@-9223372036854775808.ffffffff/0123456789abcdef");
}

Test(mark, values)
{
	expect_read("done@1700000000000.0000ab12", &(struct mark){.epoch = 0xab12});
	expect_read("done@7.0000ab12/m01b05455", &(struct mark){.epoch = 0xab12, .minute = 28333141});
	expect_read("done@7.0000ab12/m01b05455/0123456789abcdef0123456789abcdef",
		    &(struct mark){.epoch = 0xab12, .minute = 28333141});
	expect_read("done@7.0000ab12/0123456789abcdef0123456789abcdef", &(struct mark){.epoch = 0xab12});
	expect_read("dead@7.ffffffff/0123456789abcdef", &(struct mark){true, 0, 0xffffffff, 0x0123456789abcdef, 0});
	expect_read("dead@7/0123456789abcdef", &(struct mark){true, 0, 0, 0x0123456789abcdef, 0});
	/* Version 0.1 knew neither epochs nor digests. */
	expect_read("done@1700000000000", &(struct mark){0});
	expect_read("dead@1700000000000", &(struct mark){.is_dead = true});
}

Test(mark, what_cannot_be_read_is_unknown)
{
	static const char *const tails[] = {"", ".", ".0000ab1", ".0000AB12", ".0000ab123", ".0000ab1g"};

	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		char value[40];

		snprintf(value, sizeof(value), "done@7%s", tails[i]);
		expect_read(value, &(struct mark){0});
	}
	expect_read("done@", &(struct mark){0});
	expect_read("done@7.0000ab12/m1b05455", &(struct mark){.epoch = 0xab12});
	expect_read("done@7.0000ab12/m", &(struct mark){.epoch = 0xab12});
	expect_read("dead@7.0000ab12/0123456789abcde", &(struct mark){true, 0, 0xab12, 0, 0});
	expect_read("dead@7.0000ab12/0123456789abcdef0", &(struct mark){true, 0, 0xab12, 0, 0});
}

Test(mark, nothing_behind_the_end_is_read)
{
	struct mark mark = {0};

	cr_assert(mark_read(&mark, "done@71.0000ab12", 6));
	cr_assert_eq(mark.epoch, 0);
	cr_assert(mark_read(&mark, "done@7.0000ab12", 14));
	cr_assert_eq(mark.epoch, 0);
}

Test(mark, claims_are_none)
{
	static const char *const values[] = {"", "done", "dead", "done.0123456789abcdef@7", "a.0123456789abcdef@7"};
	struct mark mark;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		cr_assert_not(mark_read(&mark, values[i], strlen(values[i])), "%s", values[i]);
}
