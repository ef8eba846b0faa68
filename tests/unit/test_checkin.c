/* The rows that a listener writes about itself, and what it learns from the answer. */
#include "store/checkin.h"

#include "unit.h"
#include <jansson.h>

#include "event/duplicates.h"
#include "base/counters.h"

#define DAY 86400

static struct config config;
static struct checkin note;

static void use(int64_t max_age_s)
{
	config = (struct config){.instance_id = "me", .consumer = "", .dedup_window_s = 300, .max_age_s = max_age_s};
	checkin_init(&note, &config);
}

static json_t *write_checkin(bool is_leaving)
{
	char *text = checkin_write(&note, is_leaving, 0);
	json_t *object = text ? json_loads(text, 0, NULL) : NULL;

	cr_assert_not_null(object, "%s", text);
	free(text);
	return object;
}

Test(checkin, listener_is_named_by_its_instance_and_a_nonce)
{
	char first[300];

	use(0);
	strcpy(first, note.listener);
	cr_assert_eq(strncmp(first, "me.", 3), 0);
	use(0);
	cr_assert_str_neq(first, note.listener);
	config.instance_id = "\xff\xfe";
	checkin_init(&note, &config);
	cr_assert_eq(strncmp(note.listener, "??.", 3), 0);
}

Test(checkin, what_the_fleet_does_with_an_event_is_told)
{
	struct webhook webhooks[] = {{.name = "billing"}, {.name = "audit"}};

	use(0);
	json_t *object = write_checkin(false);
	cr_assert_str_eq(json_string_value(json_object_get(object, "consumer")), "");
	cr_assert_null(json_object_get(object, "handler"));
	cr_assert_eq(json_array_size(json_object_get(object, "targets")), 0);
	json_decref(object);
	config.handler = "public.f";
	config.consumer = "stock";
	config.webhooks = (struct webhooks){.items = webhooks, .count = 2};
	object = write_checkin(false);
	cr_assert_str_eq(json_string_value(json_object_get(object, "consumer")), "stock");
	cr_assert_str_eq(json_string_value(json_object_get(object, "handler")), "public.f");
	cr_assert_str_eq(json_string_value(json_array_get(json_object_get(object, "targets"), 1)), "audit");
	json_decref(object);
}

Test(checkin, settings_are_told_and_no_greatest_age_is_none)
{
	use(7 * DAY);
	json_t *object = write_checkin(false);
	cr_assert_eq(json_integer_value(json_object_get(object, "max_age_s")), 7 * DAY);
	cr_assert_eq(json_integer_value(json_object_get(object, "dedup_window_s")), 300);
	cr_assert(json_is_false(json_object_get(object, "is_leaving")));
	json_decref(object);
	use(0);
	object = write_checkin(true);
	cr_assert_null(json_object_get(object, "max_age_s"));
	cr_assert(json_is_true(json_object_get(object, "is_leaving")));
	json_decref(object);
}

Test(checkin, what_was_counted_is_told_once)
{
	use(0);
	counters.persisted = 5;
	duplicates_seen("a", 1, 0);
	json_t *first = write_checkin(false), *second = write_checkin(false);

	cr_assert_eq(json_integer_value(json_object_get(first, "events")), 5);
	cr_assert_eq(json_integer_value(json_array_get(json_object_get(first, "copies"), 0)), 1);
	cr_assert_eq(json_integer_value(json_object_get(second, "events")), 0);
	cr_assert_eq(json_integer_value(json_array_get(json_object_get(second, "copies"), 0)), 0);
	json_decref(first);
	json_decref(second);
}

Test(checkin, guard_is_a_greatest_age_a_day_below_that_of_the_deleted_rows)
{
	cr_assert(checkin_is_guarded(29 * DAY, 30 * DAY));
	cr_assert(!checkin_is_guarded(29 * DAY + 1, 30 * DAY));
	cr_assert(!checkin_is_guarded(0, 30 * DAY));
	cr_assert(!checkin_is_guarded(1, DAY));
}

Test(checkin, listener_without_the_guard_cannot_work_where_rows_were_deleted)
{
	use(0);
	cr_assert_null(checkin_read(&note, NULL));
	const char *why = checkin_read(&note, "2592000");
	cr_assert_not_null(why);
	cr_assert_not_null(strstr(why, "older than 30d"));
	cr_assert_not_null(strstr(why, "at most 29d"));
	use(29 * DAY);
	cr_assert_null(checkin_read(&note, "2592000"));
}

static json_t *describe(void *arg)
{
	return json_pack("{s:s}", "trouble", (const char *)arg);
}

/* On a full disk, only short rows can still be updated. */
Test(checkin, without_room_for_rows_the_counts_wait)
{
	static char full[] = "the disk is full", none[] = "";

	use(0);
	counters.persisted = 5;
	note.describe = describe;
	note.arg = full;
	json_t *object = write_checkin(false);
	cr_assert_null(json_object_get(object, "events"));
	cr_assert_null(json_object_get(object, "copies"));
	json_decref(object);
	note.arg = none;
	object = write_checkin(false);
	cr_assert_eq(json_integer_value(json_object_get(object, "events")), 5);
	cr_assert_not_null(json_object_get(object, "copies"));
	json_decref(object);
}
