/* How the list of a profile is divided among connections. */
#include "feed/shard.h"
#include "unit.h"

#include "base/bytes.h"
#include "base/memory.h"

static char why[SHARD_REASON];
static struct profile profile = {.name = "market", .shard = {.var = "symbols", .per_connection = 200, .most = 8}};

/* Appends the items from, from + 1, ... to - 1, one a line. */
static void add_range(struct bytes *text, int from, int to)
{
	char line[20];

	for (int n = from; n < to; n++)
		bytes_add(text, line, (size_t)snprintf(line, sizeof(line), "S%d\n", n));
}

static json_t *cut_text(const char *text)
{
	json_t *parts = shard_cut(&profile, (struct slice){text, strlen(text)}, why);

	cr_assert(parts, "%s", why);
	return parts;
}

static json_t *cut_range(int from, int to)
{
	struct bytes text = {NULL, 0, 0};
	json_t *parts;

	add_range(&text, from, to);
	parts = cut_text(bytes_text(&text));
	bytes_free(&text);
	return parts;
}

/* Returns how many items of a are in another place of b; those that b does not have do not count. */
static size_t count_moves(const json_t *a, const json_t *b)
{
	size_t moves = 0, i, k;
	json_t *from, *other, *rest;

	json_array_foreach(a, i, from)
	{
		json_array_foreach(b, k, other)
		{
			rest = shard_without(from, other);
			moves += k == i ? 0 : json_array_size(from) - json_array_size(rest);
			json_decref(rest);
		}
	}
	return moves;
}

static void expect_refused(const char *text, const char *reason)
{
	cr_assert_null(shard_cut(&profile, (struct slice){text, strlen(text)}, why), "%s", text);
	cr_expect_str_eq(why, reason);
}

Test(shard, a_list_is_divided_among_as_few_connections_as_can_be_none_with_too_many)
{
	json_t *parts = cut_range(0, 1300), *part;
	size_t i, all = 0;

	cr_assert_eq(json_array_size(parts), 7);
	json_array_foreach(parts, i, part)
	{
		cr_expect(json_array_size(part) > 0 && json_array_size(part) <= 200);
		all += json_array_size(part);
	}
	cr_assert_eq(all, 1300);
	json_decref(parts);
	parts = cut_range(0, 1400);
	json_array_foreach(parts, i, part) cr_expect_eq(json_array_size(part), 200);
	json_decref(parts);
}

Test(shard, neither_order_nor_doubles_nor_blanks_matter_and_neither_does_the_form)
{
	json_t *a = cut_text("BTC\nETH\nS 1\nSOL\n"), *b = cut_text("\n  SOL\r\nETH\n \t\r\nBTC\nS 1\nETH"),
	       *c = cut_text(" \n[\"S 1\", \"SOL\", \" ETH \", \"BTC\", \"\", \"SOL\"]");

	cr_expect(json_equal(a, b));
	cr_expect(json_equal(a, c));
	cr_expect_eq(json_array_size(json_array_get(a, 0)), 4);
	json_decref(a);
	json_decref(b);
	json_decref(c);
}

Test(shard, a_byte_order_mark_is_no_part_of_an_item_and_a_nul_is_refused)
{
	json_t *a = cut_text("BTC\nETH"),
	       *b = cut_text("\xef\xbb\xbf"
			     "BTC\nETH"),
	       *c = cut_text("\xef\xbb\xbf[\"ETH\", \"BTC\"]");

	cr_expect(json_equal(a, b));
	cr_expect(json_equal(a, c));
	cr_expect_null(shard_cut(&profile, (struct slice){"BTC\nE\0TH", 8}, why));
	cr_expect_str_eq(why, "item 2 is neither a string nor a number");
	json_decref(a);
	json_decref(b);
	json_decref(c);
}

Test(shard, an_object_or_a_page_that_an_interface_answers_with_is_no_list)
{
	expect_refused("{\"code\": 50011, \"msg\": \"Rate limit reached\"}", "it has no items");
	expect_refused(" \n<!DOCTYPE html>\n<p>We will be back", "line 2, column 1: '[' or '{' expected near '<'");
}

Test(shard, a_number_is_not_the_text_of_it)
{
	json_t *a = cut_text("[1, \"1\", 2.5, 1]");

	cr_expect_eq(json_array_size(json_array_get(a, 0)), 3);
	json_decref(a);
}

/* What is needed is one connection's worth, or what another number of connections moves anyway. */
Test(shard, few_items_move_when_others_come_or_go)
{
	json_t *before = cut_range(0, 1300), *shifted = cut_range(650, 1950), *full = cut_range(0, 1400),
	       *other = cut_range(1, 1401), *more = cut_range(0, 1401), *one = cut_range(1, 1301);

	cr_expect_leq(count_moves(before, shifted), 20, "%zu of 650", count_moves(before, shifted));
	cr_expect_leq(count_moves(before, one), 5, "%zu of 1299", count_moves(before, one));
	cr_expect_leq(count_moves(full, other), 14, "%zu of 1399", count_moves(full, other));
	cr_expect_leq(count_moves(full, more), 300, "%zu of 1400", count_moves(full, more));
	json_decref(before);
	json_decref(shifted);
	json_decref(full);
	json_decref(other);
	json_decref(more);
	json_decref(one);
}

Test(shard, a_hundred_thousand_items_are_divided_at_once)
{
	struct timespec began, ended;
	json_t *parts;
	double ms;

	profile.shard.per_connection = 400;
	profile.shard.most = PROFILE_SHARDS_MAX;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
	parts = cut_range(0, 100000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
	ms = (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
	cr_expect_eq(json_array_size(parts), 250);
	cr_expect_lt(ms, 1500, "%.0f ms", ms);
	json_decref(parts);
}

Test(shard, what_cannot_be_divided_is_refused_with_a_reason)
{
	struct bytes text = {NULL, 0, 0};

	expect_refused("", "it has no items");
	expect_refused(" \n\r\n", "it has no items");
	expect_refused("[\"\", \" \"]", "it has no items");
	expect_refused("[\"a\", null]", "item 2 is neither a string nor a number");
	expect_refused("[{}]", "item 1 is neither a string nor a number");
	expect_refused("a\n\n\xff\n", "item 3 is neither a string nor a number");
	expect_refused("[\"a\",\n", "line 2, column 0: ']' expected near end of file");
	add_range(&text, 0, 1601);
	expect_refused(bytes_text(&text), "1601 items need 9 connections of 200 each, more than the 8 of most (up to "
					  "256): raise most or per_connection");
	bytes_free(&text);
}

Test(shard, a_profile_of_one_connection_has_its_name_and_items_and_the_rows_name_of_all)
{
	json_t *items = json_pack("[ss]", "a", "b");
	struct profile *one;

	profile.vars = json_pack("{s:s, s:i}", "symbols", "${file:/nowhere}", "n", 1);
	profile.root = json_pack("{s:O}", "vars", profile.vars);
	one = shard_profile(&profile, 3);
	cr_expect_str_eq(one->name, "market/3");
	cr_expect_str_eq(profile_row_source(one), "market");
	cr_expect(one->shard.is_idle);
	shard_set(one, items);
	cr_expect(!one->shard.is_idle);
	cr_expect(json_equal(shard_items(one), items));
	cr_expect_eq(json_integer_value(json_object_get(one->vars, "n")), 1);
	cr_expect_str_eq(json_string_value(json_object_get(profile.vars, "symbols")), "${file:/nowhere}");
	cr_assert_null(shard_load(&profile, why));
	cr_expect_str_eq(why, "/nowhere: No such file or directory");
	shard_free(one);
	json_decref(items);
}
