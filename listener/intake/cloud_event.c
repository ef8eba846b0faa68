/* cloud_event.c turns CloudEvents in HTTP requests into JSON. post.c reads the requests, a profile the events. */
#include "intake/cloud_event.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/url.h"

#define MEDIA "application/cloudevents"

/* --- the mode --- */

static size_t media_length(const char *type)
{
	return strcspn(type, "; \t");
}

static bool is_media(const char *type, const char *name)
{
	return media_length(type) == strlen(name) && strncasecmp(type, name, strlen(name)) == 0;
}

enum cloud_mode cloud_event_mode(const char *type, const char *version)
{
	if (type && is_media(type, MEDIA "+json"))
		return CLOUD_STRUCTURED;
	if (type && is_media(type, MEDIA "-batch+json"))
		return CLOUD_BATCH;
	if (type && strncasecmp(type, MEDIA, strlen(MEDIA)) == 0)
		return CLOUD_FOREIGN;
	return version ? CLOUD_BINARY : CLOUD_NONE;
}

/* --- attributes --- */

/* Takes the quotes off a quoted string (RFC 9110, section 5.6.4), in place. */
static void unquote(char *value)
{
	size_t len = strlen(value);
	char *out = value;

	if (len < 2 || *value != '"' || value[len - 1] != '"')
		return;
	value[len - 1] = '\0';
	for (const char *at = value + 1; *at; at++) {
		at += *at == '\\' && at[1];
		*out++ = *at;
	}
	*out = '\0';
}

static void add_member(struct bytes *out, const char *name, const char *value)
{
	bytes_add_text(out, ",\"");
	bytes_add_text(out, name);
	bytes_add_text(out, "\":");
	json_write_string(out, value, strlen(value));
}

/* Returns NULL, or why the name, in lower case, cannot be added. */
static const char *judge_name(struct bytes *attributes, const char *name)
{
	AUTO_FREE char *member = memory_printf(",\"%s\":", name);
	const char *why = NULL;

	if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789")])
		why = "the name of a ce- header may contain only letters and digits\n";
	else if (strcmp(name, "data") == 0 || strcmp(name, "datacontenttype") == 0)
		why = "a binary CloudEvent has its data in the body, and its datacontenttype in Content-Type: send no "
		      "header ce-data or ce-datacontenttype\n";
	else if (strstr(bytes_text(attributes), member)) /* no value contains a comma followed by a quote */
		why = "a ce- header appears twice\n";
	return why;
}

/* A percent sign that does not begin a code stands for itself. */
const char *cloud_event_add_header(struct bytes *attributes, const char *name, const char *value)
{
	bool is_type = strcasecmp(name, "content-type") == 0;
	AUTO_FREE char *own = NULL, *decoded = NULL;
	const char *why;

	if (!is_type && strncasecmp(name, "ce-", 3) != 0)
		return NULL;
	own = memory_strdup(is_type ? "datacontenttype" : name + 3);
	decoded = memory_strdup(value ? value : "");
	for (char *at = own; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	if (!is_type) {
		unquote(decoded);
		(void)url_decode(decoded);
	}
	why = is_type ? NULL : judge_name(attributes, own);
	if (!why && !is_utf8(decoded, strlen(decoded)))
		why = "the value of a ce- header, or Content-Type, is not UTF-8\n";
	if (!why)
		add_member(attributes, own, decoded);
	return why;
}

/* --- data --- */

/* True if the type says that the data is JSON (JSON event format, section 3.1.1). */
static bool is_json(const char *type)
{
	size_t len = media_length(type);

	return (len >= 5 && strncasecmp(type + len - 5, "/json", 5) == 0) ||
	       (len >= 5 && strncasecmp(type + len - 5, "+json", 5) == 0);
}

static void add_base64(struct bytes *event, struct slice data)
{
	bytes_add_text(event, ",\"data_base64\":\"");
	base64_add(event, data.at, data.len);
	bytes_add_byte(event, '"');
}

/* Adds the data. Without a type, it is JSON if it can be parsed as JSON. */
static bool add_data(struct bytes *event, const char *type, struct slice data)
{
	bool is_said = type && is_json(type);
	struct slice value;

	if ((is_said || !type) && !json_check(data.at, data.len, &value)) {
		bytes_add_text(event, ",\"data\":");
		bytes_add(event, value.at, value.len);
		return true;
	}
	if (is_said || !is_utf8(data.at, data.len) || memchr(data.at, '\0', data.len)) {
		add_base64(event, data);
		return !is_said;
	}
	bytes_add_text(event, ",\"data\":");
	json_write_string(event, data.at, data.len);
	return true;
}

bool cloud_event_write(struct bytes *event, struct slice attributes, const char *type, struct slice data)
{
	bool is_good;

	event->len = 0;
	bytes_add_byte(event, '{');
	bytes_add(event, attributes.at + 1, attributes.len - 1); /* skip the first comma */
	is_good = !data.len || add_data(event, type, data);
	bytes_add_byte(event, '}');
	return is_good;
}
