/* value.c checks the values of settings. */
#include "config/value.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "config/config.h"
#include "config/profile_reader.h"
#include "postgres/conninfo.h"
#include "redis/address.h"

#define SPAN_MAX_US (36500 * QUANTITY_DAY)

bool value_is_list(enum value_type type)
{
	return type == VALUE_URLS || type == VALUE_POINTERS || type == VALUE_ORIGINS || type == VALUE_HOSTS ||
	       type == VALUE_FEEDS;
}

bool value_is_number(enum value_type type)
{
	return type >= VALUE_NUMBER && type <= VALUE_RATE;
}

bool value_is_secret(enum value_type type)
{
	return type == VALUE_SECRET || type == VALUE_REDIS || type == VALUE_CONNINFO || type == VALUE_URLS ||
	       type == VALUE_FEEDS || type == VALUE_PROFILE || type == VALUE_KEY_FILE || type == VALUE_PROXY;
}

static int64_t unit_us(enum value_type type)
{
	return type == VALUE_SECONDS ? QUANTITY_S : QUANTITY_MS;
}

/* Also returns false for a duration that is not a multiple of the unit in which it is kept. */
static bool read_duration(enum value_type type, const char *text, int64_t *value)
{
	int64_t us;

	if (!quantity_duration(text, &us) || us % unit_us(type))
		return false;
	*value = us / unit_us(type);
	return true;
}

/* Requires a unit, because a forgotten letter could turn minutes into hours. */
static bool read_span(const char *text, int64_t *us)
{
	size_t len = strlen(text);

	return len && (text[len - 1] < '0' || text[len - 1] > '9') && quantity_duration(text, us) && *us <= SPAN_MAX_US;
}

static const char *find_moment_fault(const char *text, int64_t *us)
{
	int64_t span;

	if (!timestamp_parse(text, strlen(text), TIMESTAMP_RFC3339, us)) {
		if (!read_span(text, &span))
			return "is neither RFC 3339, such as 2026-11-21T08:30:00Z, nor an age such as 30m, 12h or 7d";
		*us = clock_us(CLOCK_REALTIME) - span;
	}
	*us += !*us; /* 0 means not given */
	return NULL;
}

static bool read_rate(const char *text, int64_t *n)
{
	size_t len = strlen(text);
	AUTO_FREE char *digits = memory_strndup(text, len > 2 && strcmp(text + len - 2, "/s") == 0 ? len - 2 : len);

	return quantity_count(digits, n);
}

static const char *find_number_fault(const struct value_form *f, const char *text, int64_t *value)
{
	static _Thread_local char fault[240];
	bool is_duration = f->type == VALUE_SECONDS || f->type == VALUE_MS;
	char lowest[30], highest[30];

	if ((is_duration              ? read_duration(f->type, text, value)
	     : f->type == VALUE_BYTES ? quantity_bytes(text, value)
	     : f->type == VALUE_RATE  ? read_rate(text, value)
				      : quantity_count(text, value)) &&
	    *value >= f->lowest && *value <= f->highest)
		return NULL;
	if (is_duration)
		snprintf(fault, sizeof(fault), "is not a duration from %s to %s: a whole number and %ss, m, h or d",
			 quantity_print_duration(f->lowest * unit_us(f->type), lowest, sizeof(lowest)),
			 quantity_print_duration(f->highest * unit_us(f->type), highest, sizeof(highest)),
			 f->type == VALUE_MS ? "ms, " : "");
	else
		snprintf(fault, sizeof(fault), "is not a number from %lld to %lld%s", (long long)f->lowest,
			 (long long)f->highest,
			 f->type == VALUE_BYTES  ? ", such as 65536, 64K or 64MiB"
			 : f->type == VALUE_RATE ? " per second"
						 : "");
	return fault;
}

/* Skips an SQL identifier, plain or quoted. Returns what follows it, or NULL if there is no identifier. */
static const char *skip_identifier(const char *at)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789$";

	if (*at != '"')
		return strspn(at, letters) && strcspn(at, "0123456789$") ? at + strspn(at, letters) : NULL;
	if (at[1] == '"' && at[2] != '"')
		return NULL; /* empty, which Postgres refuses */
	do {
		at += 1 + strcspn(at + 1, "\"");
		if (!*at)
			return NULL;
	} while (*++at == '"'); /* "" is a quote in the name */
	return at;
}

static bool is_function(const char *text)
{
	const char *end = skip_identifier(text);

	end = end && *end == '.' ? skip_identifier(end + 1) : NULL;
	return end && !*end;
}

static const char *find_redis_fault(const char *text)
{
	struct redis_address address;
	const char *fault;

	if (strcmp(text, "none") == 0)
		return NULL;
	fault = redis_address_read(&address, text);
	redis_address_clear(&address);
	return fault;
}

static const char *find_store_fault(const char *text)
{
	if (strcmp(text, "postgres") == 0)
		return NULL;
	if (strncmp(text, "sqlite://", 9) != 0)
		return "is neither postgres nor sqlite://PATH";
	return text[9] && text[strlen(text) - 1] != '/' && !strpbrk(text + 9, "?#")
		       ? NULL
		       : "names no file: write, for example, sqlite:///var/lib/wsonce/events.db";
}

static const char *find_origin_fault(const char *text)
{
	const char *host = strstr(text, "://");

	if (strcmp(text, "null") == 0 || (host && host != text && host[3] && !strpbrk(host + 3, "/?#@ ")))
		return NULL;
	return "is not an origin: SCHEME://HOST or SCHEME://HOST:PORT, as browsers write it";
}

/* True if text has no NAME=, or a valid one. */
static bool has_plain_name(const char *text)
{
	size_t len = (size_t)(config_behind_name(text) - text);

	return !len || (len > 1 && len <= SOURCE_NAME_MAX + 1 &&
			strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len - 1);
}

static const char *find_source_fault(const char *text)
{
	struct url url = {0};
	bool is_right = has_plain_name(text) && url_parse(&url, config_behind_name(text)) == 0 &&
			url_has_scheme(&url, "ws wss") && url.host[0];

	url_clear(&url);
	return is_right ? NULL : "is neither [NAME=]ws://HOST[:PORT][/PATH] nor the same with wss://";
}

static const char *find_proxy_fault(const char *text)
{
	struct url url = {0};
	bool is_right = url_parse(&url, text) == 0 && url_has_scheme(&url, "http socks5") && url.host[0] &&
			strlen(url.path) <= 1;
	bool is_long = is_right && url_has_scheme(&url, "socks5") && url.user &&
		       (strlen(url.user) > 255 || (url.password && strlen(url.password) > 255));

	url_clear(&url);
	if (is_long)
		return "has a user or password of more than 255 bytes, which SOCKS5 cannot send (RFC 1929)";
	return is_right ? NULL : "is neither http://[USER:PASSWORD@]HOST:PORT nor socks5:// with the same";
}

static const char *find_address_fault(const char *text)
{
	struct url url = {0};
	bool is_right = strncmp(text, "unix:/", 6) == 0 || url_parse_address(&url, text) == 0;

	url_clear(&url);
	return is_right ? NULL : "is not ADDR:PORT with a port from 0 to 65535, nor unix:/PATH";
}

const char *value_fault(const struct value_form *form, const char *text, int64_t *number)
{
	static _Thread_local char not_one[100];
	int64_t unused;

	switch (form->type) {
	case VALUE_URLS:
		return find_source_fault(text);
	case VALUE_FEEDS:
	case VALUE_PROFILE:
		return *text && *text != '?' ? NULL : "does not name a profile";
	case VALUE_HOSTS:
		return *text && !text[strcspn(text, " /:[]@")] ? NULL : "is not a host name without a port";
	case VALUE_REDIS:
		return find_redis_fault(text);
	case VALUE_PROXY:
		return find_proxy_fault(text);
	case VALUE_ORIGINS:
		return find_origin_fault(text);
	case VALUE_STORE:
		return find_store_fault(text);
	case VALUE_CONNINFO:
		return postgres_is_conninfo(text) ? NULL : "is neither a URI nor key=value as libpq takes it";
	case VALUE_ADDRESS:
		return find_address_fault(text);
	case VALUE_POINTER:
	case VALUE_POINTERS:
		if (!profile_is_pointer(text))
			return "is not a JSON pointer of up to 16 steps: it begins with / and has ~ only as ~0 or ~1";
		return profile_find_star(text)
			       ? "would name a member \"*\", not every element: for messages with several "
				 "events write a profile with explode (docs/feeds/profiles.md)"
			       : NULL;
	case VALUE_FUNCTION:
		return is_function(text) ? NULL : "is not SCHEMA.FUNCTION";
	case VALUE_NAME:
		return !*text || is_name(text, CONFIG_CONSUMER_MAX)
			       ? NULL
			       : "is not a name of up to 64 letters, digits, dots, underscores and dashes";
	case VALUE_CHOICE:
		if (is_one_of(form->choices, text))
			return NULL;
		snprintf(not_one, sizeof(not_one), "is not one of: %s", form->choices);
		return not_one;
	case VALUE_SECRET:
		return *text ? NULL : "is empty";
	case VALUE_TEXT:
	case VALUE_FILE_OF:
	case VALUE_KEY_FILE:
		return NULL;
	case VALUE_SWITCH:
		return is_one_of("yes true 1 no false 0", text) ? NULL : "is neither yes (true, 1) nor no (false, 0)";
	case VALUE_NUMBER:
	case VALUE_BYTES:
	case VALUE_SECONDS:
	case VALUE_MS:
	case VALUE_RATE:
		return find_number_fault(form, text, number ? number : &unused);
	case VALUE_SPAN:
		if (!read_span(text, number))
			return "is not a time such as 90s, 30m, 12h or 7d";
		return *number < form->lowest ? "must be longer than 0" : NULL;
	case VALUE_MOMENT:
		return find_moment_fault(text, number);
	}
	return NULL;
}
