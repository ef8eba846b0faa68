/* age_limit.c refuses events that are too old, so that an event whose row was deleted by age is not stored again.
 * An event of unknown age is refused too, or the guarantee would not hold. */
#include "event/age_limit.h"

#include <stdio.h>

#include "base/quantity.h"

static const char *name_unit(enum timestamp_unit unit)
{
	switch (unit) {
	case TIMESTAMP_RFC3339:
		return "an RFC 3339 time";
	case TIMESTAMP_S:
		return "a number of seconds since 1970";
	case TIMESTAMP_MS:
		return "a number of milliseconds since 1970";
	case TIMESTAMP_US:
		return "a number of microseconds since 1970";
	case TIMESTAMP_NS:
		return "a number of nanoseconds since 1970";
	case TIMESTAMP_HEX_S:
		return "a hexadecimal number of seconds since 1970";
	}
	return "";
}

void age_limit_init(struct age_limit *s, const struct config *config)
{
	const char *pointer = config->time_pointer && *config->time_pointer ? config->time_pointer : "the message";
	char age[30];

	*s = (struct age_limit){.max_age_us = config->max_age_s * 1000000};
	if (!s->max_age_us)
		return;
	s->unit = timestamp_unit_named(config->time_unit);
	quantity_print_seconds(config->max_age_s, age, sizeof(age));
	snprintf(s->too_old, sizeof(s->too_old), "stale: %.100s is more than %s ago", pointer, age);
	snprintf(s->missing, sizeof(s->missing), "no time: %.100s is missing or not a string or number", pointer);
	snprintf(s->unreadable, sizeof(s->unreadable), "no time: %.100s is not %s, or not in the years 1970 to 9999",
		 pointer, name_unit(s->unit));
	snprintf(s->ahead, sizeof(s->ahead), "no time: %.100s is more than %s ahead of the clock", pointer,
		 quantity_print_seconds(STALE_AHEAD_S, age, sizeof(age)));
}

void age_limit_init_feeds(struct age_limit *s, const struct config *config)
{
	struct config named = {.max_age_s = config->max_age_s, .time_pointer = "the event's time", .time_unit = ""};

	age_limit_init(s, &named);
	snprintf(s->unreadable, sizeof(s->unreadable),
		 "no time: the event's time is not in the time_unit of its profile, or not in the years 1970 to 9999");
}

const char *age_limit_reason(const struct age_limit *s, struct slice time, enum timestamp_unit unit, int64_t now_us)
{
	int64_t us;

	if (!s->max_age_us)
		return NULL;
	if (!time.at)
		return s->missing;
	if (!timestamp_parse(time.at, time.len, unit, &us))
		return s->unreadable;
	if (us - now_us > STALE_AHEAD_S * INT64_C(1000000))
		return s->ahead;
	return now_us - us > s->max_age_us ? s->too_old : NULL;
}
