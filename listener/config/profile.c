/* profile.c reads profiles: which keys they may have and what each may hold. Errors name key and line. profile_check.c
 * checks the small forms inside the values, profile_folder.c finds the files. */
#include "config/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/profile_placeholder.h"

/* --- texts --- */

static int read_text_template(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	if (key_text(r, k, value, at))
		return -1;
	return profile_check_template_text(r, json_string_value(value), k->has_frame);
}

static int check_host(struct profile_reader *r, const json_t *item)
{
	const char *host = "";

	if (json_is_string(item) && key_text(r, NULL, item, &host))
		return -1;
	host += strncmp(host, "*.", 2) == 0 ? 2 : 0;
	return *host && !host[strcspn(host, "*/@[] ")]
		       ? 0
		       : profile_fail(r, "a host is a name or an address without a port, or *.DOMAIN");
}

static int check_code(struct profile_reader *r, const json_t *item)
{
	return json_is_integer(item) && json_integer_value(item) >= 1000 && json_integer_value(item) <= 4999
		       ? 0
		       : profile_fail(r, "a close code is a number from 1000 to 4999");
}

static int check_frame_template(struct profile_reader *r, const json_t *item)
{
	return profile_check_template(r, item, true);
}

static int check_plain_template(struct profile_reader *r, const json_t *item)
{
	return profile_check_template(r, item, false);
}

static int check_text_template(struct profile_reader *r, const json_t *item)
{
	return key_check_text(r, item) || profile_check_template(r, item, false);
}

static int check_subprotocol(struct profile_reader *r, const json_t *item)
{
	if (key_check_text(r, item))
		return -1;
	return profile_is_token(json_string_value(item)) ? 0 : profile_fail(r, "is not the name of a subprotocol");
}

static int check_header(struct profile_reader *r, const char *name, const json_t *item, void *arg)
{
	static const char *const own[] = {"Sec-WebSocket-", /* a prefix, the others whole names */
					  "Host",           "Connection",       "Upgrade",
					  "Content-Length", "Transfer-Encoding"};

	(void)arg;
	if (!profile_is_token(name))
		return profile_fail(r, "is not the name of a header");
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (strncasecmp(name, own[i], strlen(own[i]) + (i > 0)) == 0)
			return profile_fail(r, "is a header that wsonce sets itself");
	return check_text_template(r, item);
}

static int read_headers(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	if (!json_is_object(value))
		return profile_fail(r, "must be an object of texts");
	return profile_each(r, value, check_header, NULL) || key_keep(value, at);
}

static int check_part_item(struct profile_reader *r, const json_t *item)
{
	const char *part = NULL;

	return key_text(r, NULL, item, &part) || profile_check_part(r, part);
}

static int check_pointer_item(struct profile_reader *r, const json_t *item)
{
	const char *pointer = NULL;

	return key_text(r, NULL, item, &pointer) || profile_check_pointer(r, pointer);
}

static int check_var(struct profile_reader *r, const json_t *value)
{
	size_t i;
	json_t *item;

	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item) && !json_is_number(item))
			return profile_fail(r, "an array may hold only strings and numbers");
	}
	return json_is_object(value) || json_is_null(value)
		       ? profile_fail(r, "must be a string, a number, true, false or an array")
		       : 0;
}

size_t profile_file_len(const char *text)
{
	size_t len = text && strncmp(text, "${file:", 7) == 0 ? strcspn(text + 7, "}") : 0;

	return len && strcmp(text + 7 + len, "}") == 0 ? len : 0;
}

/* The profile must not contain the token itself, only where to find it. */
static int check_token(struct profile_reader *r, const json_t *item)
{
	const char *text = json_string_value(item);

	if (!text)
		return profile_fail(r, "must be a string: ${env:NAME} or ${file:/path}");
	if (key_check_text(r, item) || profile_check_template_text(r, text, false))
		return -1;
	if ((strncmp(text, "${env:", 6) != 0 || text[strcspn(text, "}") + 1]) && !profile_file_len(text))
		return profile_doubt(r, "a token must be ${env:NAME} or ${file:/path}, and nothing else");
	return 0;
}

static int check_variable(struct profile_reader *r, const json_t *item)
{
	if (key_check_text(r, item))
		return -1;
	return profile_check_variable(r, json_string_value(item), json_string_length(item));
}

static int read_variable(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	return check_variable(r, value) || key_text(r, k, value, at);
}

static int check_occasion(struct profile_reader *r, const json_t *item)
{
	return json_is_string(item) && is_one_of("hole reconnect", json_string_value(item))
		       ? 0
		       : profile_fail(r, "must be hole or reconnect");
}

static const struct items subprotocols = {true, false, "an array of texts", check_subprotocol},
			  hosts = {true, false, "an array of hosts", check_host},
			  names = {true, false, "an array of variables", check_variable},
			  occasions = {true, false, "an array of \"hole\" and \"reconnect\"", check_occasion},
			  close_codes = {true, false, "an array of close codes", check_code},
			  messages = {true, false, "an array of messages", check_plain_template},
			  replies = {true, false, "an array of messages", check_frame_template},
			  urls = {true, false, "an array of texts", check_text_template},
			  pointers = {true, false, "an array of JSON pointers", check_pointer_item},
			  captures = {false, true, "an object of variables and parts", check_part_item},
			  answers = {false, true, "an object of variables and JSON pointers", check_pointer_item},
			  vars = {false, true, "an object of variables and their initial values", check_var},
			  tokens = {true, true, "an object of names, each with its token, or an array of tokens",
				    check_token};

/* --- other values --- */

static int read_template(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	return profile_check_template(r, value, k->has_frame) || key_keep(value, at);
}

static int read_part(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	return key_text(r, k, value, at) || profile_check_part(r, json_string_value(value));
}

static int read_explode(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	return key_text(r, k, value, at) || profile_check_steps(r, json_string_value(value));
}

static int check_alternative(struct profile_reader *r, const json_t *parts)
{
	if (!json_is_array(parts) || json_array_size(parts) == 0 || json_array_size(parts) > PROFILE_PARTS_MAX)
		return profile_fail(r, "must be an array of 1 to %d parts", PROFILE_PARTS_MAX);
	return key_check_each(r, parts, check_part_item);
}

static int read_id(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > PROFILE_PARTS_MAX)
		return profile_fail(r, "must be an array of 1 to %d alternatives, each an array of parts",
				    PROFILE_PARTS_MAX);
	return key_check_each(r, value, check_alternative) || key_keep(value, at);
}

/* Reads a text that is not empty and may hold \u0000. */
static int read_mark(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)k;
	return json_string_length(value) ? key_keep(value, at) : profile_fail(r, "must be a string, and not empty");
}

static int read_rule_text(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	const json_t *prefix = json_object_get(value, "prefix");

	if (prefix && json_object_size(value) == 1)
		return read_mark(r, k, prefix, &(const json_t *){NULL}) || key_keep(value, at);
	return json_is_string(value) ? read_mark(r, k, value, at)
				     : profile_fail(r, "must be a string, or {\"prefix\": STRING}");
}

/* Reads a unit as its milliseconds. */
static int read_unit(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	int place = json_is_string(value) ? find_word("ms s", json_string_value(value)) : -1;

	(void)k;
	if (place < 0)
		return profile_fail(r, "must be ms or s");
	*(int64_t *)at = place ? 1000 : 1;
	return 0;
}

/* Accepts anything: the member is only documentation. */
static int read_any(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	(void)r, (void)k, (void)value, (void)at;
	return 0;
}

/* --- objects --- */

#define HTTP(member) offsetof(struct profile_http, member)
#define RULE(member) offsetof(struct profile_rule, member)
#define TOP(member)  offsetof(struct profile, member)
#define DAY_S        86400.0
#define OVERLAP_S    10
#define EVERY_MS     600000 /* time between two calls of var_http */
#define SHARDS       64

/* --- http --- */

/* clang-format off */
#define HTTP_KEYS \
	KEY("method", key_text, HTTP(method)), KEY("url", read_text_template, HTTP(url)), \
	KEY("headers", read_headers, HTTP(headers)), KEY("body", read_template, HTTP(body)), \
	ITEMS("capture", HTTP(capture), answers)
/* clang-format on */

static const struct key http_keys[] = {HTTP_KEYS};
static const struct key timed_http_keys[] = {HTTP_KEYS, RANGE("every_s", key_seconds, HTTP(every_ms), 1, DAY_S)};

static int read_call_of(struct profile_reader *r, const struct key_table *keys, const json_t *value,
			struct profile_http *http)
{
	if (key_object(r, keys, "an HTTP call", value, http))
		return -1;
	if (!http->method)
		http->method = http->body ? "POST" : "GET";
	return 0;
}

static int read_call(struct profile_reader *r, const json_t *value, struct profile_http *http)
{
	return read_call_of(r, TABLE(http_keys, "url"), value, http);
}

static int read_url_http(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct profile_http *http = memory_calloc(1, sizeof(*http));

	(void)k;
	*(struct profile_http **)at = http;
	return read_call(r, value, http);
}

static int add_call(struct profile_reader *r, const char *name, const json_t *item, void *arg)
{
	struct profile_rule *rule = arg;

	(void)name;
	return read_call(r, item, &rule->http[rule->http_count++]);
}

static int read_calls(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct profile_rule *rule = (struct profile_rule *)((char *)at - k->offset);

	if (!json_is_array(value) || json_array_size(value) == 0)
		return profile_fail(r, "must be an array of HTTP calls");
	rule->http = memory_calloc(json_array_size(value), sizeof(*rule->http));
	return profile_each(r, value, add_call, rule);
}

/* --- rules --- */

/* Keys for events, in a rule and, for its default, in the profile. */
/* clang-format 14 and 19 lay this out differently. */
/* clang-format off */
#define EVENT_KEYS(AT) \
	KEY("id", read_id, AT(id)), \
	KEY("id_join", key_text, AT(id_join)), \
	KEY("type", read_part, AT(type)), \
	KEY("time", read_part, AT(time)), \
	CHOICE("time_unit", AT(time_unit), TIMESTAMP_UNITS, 0), \
	KEY("payload", read_part, AT(payload)), \
	KEY("explode", read_explode, AT(explode)), \
	KEY("where", key_conditions, AT(where))
/* clang-format on */

static const struct key rule_keys[] = {
	KEY("name", key_text, RULE(name)),
	KEY("text", read_rule_text, RULE(text)),
	KEY("when", key_conditions, RULE(when)),
	CHOICE("action", RULE(action), "ignore event reject reconnect fatal", 0),
	EVENT_KEYS(RULE),
	ITEMS("capture", RULE(capture), captures),
	ITEMS("clear", RULE(clear), names),
	ITEMS("send", RULE(send), replies),
	KEY("cursor", read_part, RULE(cursor)),
	FRAME("ack", read_template, RULE(ack)),
	FRAME("url", read_text_template, RULE(url)),
	KEY("http", read_calls, RULE(http)),
	KEY("ready", key_switch, RULE(ready)),
	KEY("overlap", key_switch, RULE(overlap)),
	KEY("about", read_any, 0),
};

static void set_rule_defaults(struct profile_rule *rule)
{
	rule->id_join = "|";
	rule->payload = "";
}

static int add_rule(struct profile_reader *r, const char *name, const json_t *item, void *arg)
{
	struct profile *p = arg;
	struct profile_rule *rule = &p->rules[p->rule_count++];

	(void)name;
	set_rule_defaults(rule);
	if (key_object(r, TABLE(rule_keys, ""), "a rule", item, rule))
		return -1;
	if (rule->text && (rule->when || rule->action == ACTION_EVENT || rule->capture || rule->cursor || rule->ack))
		return profile_fail(r, "the message of a rule with text is not JSON: it has no when, capture, cursor "
				       "or ack, and is no event");
	if (rule->action == ACTION_EVENT && !rule->id)
		return profile_fail(r, "id is missing: a rule whose action is event needs one");
	return rule->ack && rule->action != ACTION_EVENT
		       ? profile_doubt(r, "ack answers events, and this rule has none: use send")
		       : 0;
}

static int read_rules(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct profile *p = (struct profile *)((char *)at - k->offset);

	if (!json_is_array(value) || json_array_size(value) > PROFILE_RULES_MAX)
		return profile_fail(r, "must be an array of at most %d rules", PROFILE_RULES_MAX);
	p->rules = memory_calloc(json_array_size(value) + 1, sizeof(*p->rules));
	return profile_each(r, value, add_rule, p);
}

/* --- other members --- */

static const struct key every_keys[] = {
	KEY("var", read_variable, TOP(ping.var)),
	KEY("unit", read_unit, TOP(ping.unit_ms)),
};

static const struct key ping_keys[] = {
	RANGE("every_s", key_seconds, TOP(ping.every_ms), 0.1, DAY_S),
	MEMBERS("every", TOP(ping.var), every_keys, ""),
	KEY("first_jitter", key_switch, TOP(ping.first_jitter)),
	KEY("send", read_template, TOP(ping.send)),
};

static const struct key idle_keys[] = {
	KEY("var", read_variable, TOP(idle_timeout.var)),
	KEY("unit", read_unit, TOP(idle_timeout.unit_ms)),
	RANGE("factor", key_real, TOP(idle_timeout.factor), 0.1, 1000),
	RANGE("default_s", key_seconds, TOP(idle_timeout.ms), 0, DAY_S),
};

static int read_idle(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct profile *p = (struct profile *)((char *)at - k->offset);

	if (json_is_number(value))
		return key_seconds(r, k, value, &p->idle_timeout.ms);
	if (!json_is_object(value))
		return profile_fail(r, "must be a number of seconds, such as 10, or an object with var, unit, factor "
				       "and default_s");
	return key_members(r, k, value, at);
}

static const struct key backoff_keys[] = {
	RANGE("min_ms", key_number, TOP(backoff.min_ms), 1, DAY_S * 1000),
	RANGE("max_ms", key_number, TOP(backoff.max_ms), 1, DAY_S * 1000),
	KEY("jitter", key_switch, TOP(backoff.jitter)),
};

static const struct key reset_keys[] = {
	ITEMS("codes", TOP(reset_codes), close_codes),
	ITEMS("clear", TOP(reset_clear), names),
};

#define CLOSE_WORDS "backoff at_once fatal reset"

/* Reads "4000" or "4000-4099". Returns false if it is neither. */
static bool read_range(const char *text, long *low, long *high)
{
	char *end;

	*low = *high = strtol(text, &end, 10);
	if (*end == '-')
		*high = strtol(end + 1, &end, 10);
	return !*end && *low >= 1000 && *high <= 4999 && *low <= *high;
}

static int read_policy(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	const char *range;
	json_t *word;
	long low, high;

	(void)k;
	if (!json_is_object(value))
		return profile_fail(r, "must be an object of close codes, each with one of: " CLOSE_WORDS);
	json_object_foreach((json_t *)value, range, word)
	{
		if (!read_range(range, &low, &high))
			return profile_fail(r, "\"%.40s\" is not a close code or a range such as 4000-4099", range);
		if (!json_is_string(word))
			return profile_fail(r, "%.40s must be one of: " CLOSE_WORDS, range);
		if (find_word(CLOSE_WORDS, json_string_value(word)) < 0)
			profile_doubt(r, "%.40s must be one of: " CLOSE_WORDS, range);
	}
	return key_keep(value, at);
}

static const struct key cursor_keys[] = {
	CHOICE("kind", TOP(cursor.kind), "max last", CURSOR_MAX),
	CHOICE("scope", TOP(cursor.scope), "source host session", 0),
	RANGE("rewind", key_number, TOP(cursor.rewind), 0, 1e18),
	CHOICE("format", TOP(cursor.format), "decimal hex", 0),
	KEY("clamp_now", key_switch, TOP(cursor.clamp_now)),
	KEY("hold_until", key_conditions, TOP(cursor.hold_until)),
};

static const struct key gap_keys[] = {
	KEY("key", read_part, TOP(gap.key)),
	KEY("seq", read_part, TOP(gap.seq)),
	KEY("contiguous", key_switch, TOP(gap.contiguous)),
};

static const struct key frame_keys[] = {
	KEY("strip", read_mark, TOP(frame.strip)),
	KEY("after", read_mark, TOP(frame.after)),
	KEY("until", read_mark, TOP(frame.until)),
};

/* A path is relative to the file that the key is in. */
static int read_dictionary(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	struct profile *p = (struct profile *)((char *)at - k->offset);
	const char *name;

	if (key_text(r, k, value, &name))
		return -1;
	p->dictionary_path = file_beside(profile_find_origin(r)->file, name);
	p->dictionary.at = file_read(p->dictionary_path, PROFILE_TEXT_MAX, &p->dictionary.len);
	if (!p->dictionary.at)
		return profile_fail(r, "%.100s cannot be read: %s", p->dictionary_path, strerror(errno));
	if (p->dictionary.len < 8 || memcmp(p->dictionary.at, "\x37\xa4\x30\xec", 4) != 0)
		return profile_fail(r, "%.100s is not a zstd dictionary", p->dictionary_path);
	return 0;
}

static const struct key fill_keys[] = {
	KEY("http", read_url_http, TOP(fill.http)),
	KEY("needs", read_variable, TOP(fill.needs)),
	KEY("events", read_explode, TOP(fill.events)),
	FRAME("frame", read_template, TOP(fill.frame)),
	RANGE("max", key_number, TOP(fill.max), 1, 10000),
	RANGE("every_s", key_seconds, TOP(fill.every_ms), 0.01, DAY_S),
	ITEMS("on", TOP(fill.on), occasions),
};

/* --- shards --- */

static const struct key shard_keys[] = {
	KEY("var", read_variable, TOP(shard.var)),
	RANGE("per_connection", key_number, TOP(shard.per_connection), 1, 1e6),
	RANGE("most", key_number, TOP(shard.most), 1, PROFILE_SHARDS_MAX),
};

static int read_var_http(struct profile_reader *r, const struct key *k, const json_t *value, void *at)
{
	void *member = json_object_iter((json_t *)value);
	const char *name = json_object_iter_key(member);
	struct profile_http *http;
	int result;

	(void)k;
	if (json_object_size(value) != 1)
		return profile_fail(r, "must be an object of the variable that shard names, with its HTTP call");
	*(struct profile_http **)at = http = memory_calloc(1, sizeof(*http));
	http->every_ms = EVERY_MS;
	profile_enter(r, name, 0);
	result = read_call_of(r, TABLE(timed_http_keys, "url"), json_object_iter_value(member), http);
	if (!result && http->capture && (json_object_size(http->capture) != 1 || !json_object_get(http->capture, name)))
		result = profile_fail(r, "capture must have one key, %.60s, with its pointer", name);
	profile_leave(r);
	return result;
}

static const struct key on_change_keys[] = {
	KEY("subscribe", read_template, TOP(shard.subscribe)),
	KEY("unsubscribe", read_template, TOP(shard.unsubscribe)),
};

#define FALLBACK(member) offsetof(struct profile, fallback.member)

static const struct key profile_keys[] = {
	KEY("name", key_text, TOP(name)),
	KEY("about", key_text, TOP(about)),
	KEY("url", read_text_template, TOP(url)),
	KEY("url_resume", read_text_template, TOP(url_resume)),
	RANGE("resume_window_s", key_number, TOP(resume_window_s), 0, 366 * DAY_S),
	KEY("url_http", read_url_http, TOP(url_http)),
	ITEMS("mirrors", TOP(mirrors), urls),
	RANGE("lines", key_number, TOP(lines), 1, PROFILE_LINES_MAX),
	ITEMS("hosts", TOP(hosts), hosts),
	KEY("headers", read_headers, TOP(headers)),
	ITEMS("subprotocols", TOP(subprotocols), subprotocols),
	ITEMS("vars", TOP(vars), vars),
	MEMBERS("shard", TOP(shard), shard_keys, "var per_connection"),
	KEY("var_http", read_var_http, TOP(shard.http)),
	MEMBERS("on_change", TOP(shard.subscribe), on_change_keys, "subscribe unsubscribe"),
	ITEMS("on_open", TOP(on_open), messages),
	KEY("rules", read_rules, TOP(rules)),
	CHOICE("default", FALLBACK(action), "ignore event reject", 0),
	EVENT_KEYS(FALLBACK),
	MEMBERS("ping", TOP(ping), ping_keys, "send"),
	RANGE("counter_start", key_number, TOP(counter_start), 0, 1e15),
	RANGE("ws_ping_s", key_number, TOP(ws_ping_s), 0, DAY_S),
	{"idle_timeout_s", read_idle, TOP(idle_timeout), 0, DAY_S, NULL, NULL, TABLE(idle_keys, "var"), false},
	{"idle_timeout", read_idle, TOP(idle_timeout), 0, DAY_S, NULL, NULL, TABLE(idle_keys, "var"), false},
	CHOICE("fleet", TOP(fleet), "broadcast shared exclusive session", 0),
	MEMBERS("backoff", TOP(backoff), backoff_keys, ""),
	ITEMS("fatal_close", TOP(fatal_close), close_codes),
	MEMBERS("reset_close", TOP(reset_codes), reset_keys, ""),
	KEY("close_policy", read_policy, TOP(close_policy)),
	RANGE("close_code_on_stop", key_number, TOP(close_code_on_stop), 1000, 4999),
	MEMBERS("cursor", TOP(cursor), cursor_keys, "kind"),
	CHOICE("ack_mode", TOP(ack_mode), "each cumulative", ACK_MODE_EACH),
	CHOICE("ack_on", TOP(ack_on), "durable receive", 0),
	RANGE("ack_deadline_ms", key_number, TOP(ack_deadline_ms), 0, DAY_S * 1000),
	RANGE("max_unacked", key_number, TOP(max_unacked), 0, 1e9),
	ITEMS("json_strings", TOP(json_strings), pointers),
	CHOICE("split", TOP(split), "array ndjson", SPLIT_ARRAY),
	MEMBERS("frame", TOP(frame), frame_keys, ""),
	CHOICE("not_json", TOP(not_json), "reject ignore", 0),
	CHOICE("binary", TOP(binary), "gzip zlib deflate zstd", BINARY_GZIP),
	KEY("binary_dictionary", read_dictionary, TOP(dictionary)),
	RANGE("overlap_s", key_number, TOP(overlap_s), 0, DAY_S),
	KEY("never_send", key_switch, TOP(never_send)),
	RANGE("send_rate_per_s", key_real, TOP(send_rate_per_s), 0, 1e6),
	RANGE("max_age_s", key_number, TOP(max_age_s), 0, 366 * DAY_S),
	KEY("redirect_keeps_subscriptions", key_switch, TOP(redirect_keeps_subscriptions)),
	MEMBERS("gap", TOP(gap), gap_keys, "key seq"),
	MEMBERS("fill", TOP(fill.http), fill_keys, "http events"),
	RANGE("max_message_bytes", key_number, TOP(max_message_bytes), 64, 1 << 28),
	RANGE("max_elements", key_number, TOP(max_elements), 0, 1e9),
	ITEMS("accept_subprotocols", TOP(accept_subprotocols), subprotocols),
	ITEMS("tokens", TOP(tokens), tokens),
	FRAME("ack", read_template, TOP(ack)),
	FRAME("ack_duplicate", read_template, TOP(ack_duplicate)),
	FRAME("ack_error", read_template, TOP(ack_error)),
};

static void set_defaults(struct profile *p)
{
	p->counter_start = p->lines = 1;
	p->fill.max = p->fill.every_ms = 1000;
	p->shard.most = SHARDS;
	p->ws_ping_s = p->idle_timeout.ms = p->backoff.min_ms = p->backoff.max_ms = -1;
	p->ping.unit_ms = p->idle_timeout.unit_ms = 1000;
	p->idle_timeout.factor = 1;
	p->backoff.jitter = true;
	p->close_code_on_stop = 1000;
	set_rule_defaults(&p->fallback);
	p->fallback.name = "default";
}

/* True if the profile has a member that is only for producers. */
static bool is_server(const struct profile *p)
{
	return p->accept_subprotocols || p->tokens || p->ack || p->ack_duplicate || p->ack_error;
}

/* Each of several lines must get all events. A mirror, and another line, reads on where another connection stopped. */
static int check_lines(struct profile_reader *r, const struct profile *p)
{
	size_t count = 1 + json_array_size(p->mirrors);

	if (count > 1 && p->cursor.kind && p->cursor.scope != SCOPE_SOURCE)
		return profile_fail(r,
				    "mirrors need a cursor of scope source: they cannot use that of a host or session");
	if (p->lines == 1)
		return 0;
	if ((size_t)p->lines > count)
		return profile_fail(r, "lines is %lld, which needs as many URLs, but url and mirrors are %zu",
				    (long long)p->lines, count);
	if (p->fleet == FLEET_SHARED || p->fleet == FLEET_EXCLUSIVE)
		return profile_fail(r, "lines must be 1 if fleet is shared or exclusive: each event comes once");
	return 0;
}

/* Refuses a URL with another scheme, even if the scheme comes from the initial value of a variable. */
static int check_url(struct profile_reader *r, const struct profile *p, const char *key, const char *url)
{
	struct placeholder first;
	const char *text = url;

	if (url && placeholder_find(url, &first) && first.begin == url)
		text = json_string_value(json_object_getn(p->vars, first.name.at, first.name.len));
	if (!text || !strstr(text, "://") || strncasecmp(text, "ws://", 5) == 0 || strncasecmp(text, "wss://", 6) == 0)
		return 0;
	profile_enter(r, key, 0);
	return profile_fail(r, "\"%.80s\" is not a WebSocket URL, which begins with ws:// or wss://", text);
}

static int check_urls(struct profile_reader *r, const struct profile *p)
{
	size_t i;
	json_t *mirror;

	json_array_foreach(p->mirrors, i, mirror) if (check_url(r, p, "mirrors", json_string_value(mirror))) return -1;
	return check_url(r, p, "url", p->url) || check_url(r, p, "url_resume", p->url_resume);
}

static bool fits_all(const struct profile_rule *rule)
{
	return !rule->text && !json_object_size(rule->when);
}

/* Checks a rule against an earlier one. */
static int check_pair(struct profile_reader *r, const struct profile_rule *old, const struct profile_rule *rule)
{
	if (old->name && rule->name && strcmp(old->name, rule->name) == 0)
		return profile_fail(r, "another rule is named %.60s, too: counters tell rules apart by name",
				    rule->name);
	if (fits_all(old) && !rule->text)
		return profile_fail(r, "no message gets here: the rule %.60s, which has no conditions, fits all",
				    old->name ? old->name : "before");
	return 0;
}

static int check_rules(struct profile_reader *r, const struct profile *p)
{
	bool has_cursor = p->fallback.cursor != NULL, stores = p->fallback.action == ACTION_EVENT;

	profile_enter(r, "rules", 0);
	for (size_t i = 0; i < p->rule_count; i++) {
		profile_enter(r, NULL, i);
		if (p->rules[i].cursor && !p->cursor.kind)
			return profile_fail(r, "the profile needs a cursor, too, such as {\"kind\": \"max\"}");
		if (p->rules[i].url && p->cursor.scope == SCOPE_HOST)
			profile_doubt(r, "url may lead to another host, which cannot use a cursor of scope host");
		has_cursor |= p->rules[i].cursor != NULL;
		stores |= p->rules[i].action == ACTION_EVENT;
		for (size_t old = 0; old < i; old++)
			if (check_pair(r, &p->rules[old], &p->rules[i]))
				return -1;
		profile_leave(r);
	}
	if (!stores)
		profile_doubt(r, "no rule has the action event, so nothing would be stored: give one that action");
	profile_leave(r);
	return p->cursor.kind && !has_cursor && p->url
		       ? profile_doubt(r, "the profile has a cursor, but no rule moves it: give one a cursor")
		       : 0;
}

/* Each connection must get all events of its items, and an item may move to another one. */
static int check_shard(struct profile_reader *r, const struct profile *p)
{
	const char *var = p->shard.var;
	const json_t *list = var ? json_object_get(p->vars, var) : NULL;
	size_t items = json_array_size(list), each = (size_t)p->shard.per_connection;

	if (!var)
		return p->shard.http || p->shard.subscribe ? profile_fail(r, "var_http and on_change need shard") : 0;
	profile_enter(r, "shard", 0);
	if (p->lines > 1 || (p->fleet != FLEET_BROADCAST && p->fleet != FLEET_SESSION))
		return profile_fail(r, "shard needs lines 1 and the fleet broadcast or session");
	if (p->cursor.kind)
		return profile_fail(r, "shard cannot have a cursor: an item that moves to another connection would "
				       "go on where that one stopped");
	if (p->shard.http && !json_object_get(json_object_get(p->root, "var_http"), var))
		return profile_fail(r, "var_http must set %.60s, the variable of shard", var);
	if (!items && !profile_file_len(json_string_value(list)) && !p->shard.http)
		return profile_fail(r, "%.60s of vars must be an array with an item or more, or \"${file:PATH}\"", var);
	if (items > each * (size_t)p->shard.most)
		return profile_fail(r, SHARD_TOO_MANY, items, (items - 1) / each + 1, each, (size_t)p->shard.most);
	profile_leave(r);
	return 0;
}

/* Checks the keys together. */
static int check_whole(struct profile_reader *r, const struct profile *p)
{
	if (!p->url && !is_server(p))
		return profile_fail(r, "url is missing; a profile for --ingest-profile needs ack instead");
	if (p->ping.send && !p->ping.every_ms && !p->ping.var)
		return profile_fail(r, "ping needs every_s or every");
	if (p->backoff.max_ms > 0 && p->backoff.min_ms > p->backoff.max_ms)
		return profile_fail(r, "backoff: min_ms must not be more than max_ms");
	if (!p->rules)
		return profile_fail(r, "rules are missing: without one, no frame is an event");
	if (p->dictionary.at && p->binary != BINARY_ZSTD)
		return profile_fail(r, "binary_dictionary goes with \"binary\": \"zstd\"");
	if (!p->url && p->binary)
		return profile_fail(r, "binary is for messages of a feed: producers send text");
	if (p->fill.http && !p->gap.contiguous && !p->cursor.kind)
		return profile_fail(r, "fill needs a contiguous gap or a cursor, which say what is missing");
	if (p->fallback.action == ACTION_EVENT && !p->fallback.id)
		return profile_fail(r, "id is missing: the default action is event, which needs one");
	return check_urls(r, p) || check_rules(r, p) || check_lines(r, p) || check_shard(r, p);
}

/* Without "on", a profile asks for whatever it can. */
static bool is_asked_on(const struct profile *p, const char *occasion)
{
	size_t i;
	json_t *word;

	json_array_foreach(p->fill.on, i, word) if (strcmp(json_string_value(word), occasion) == 0) return true;
	return p->fill.http && !p->fill.on;
}

/* True if the feed itself is told the cursor, not only the HTTP interface of "fill". */
static bool is_cursor_sent(const struct profile *p)
{
	json_auto_t *rest = json_copy(p->root);
	AUTO_FREE char *text = NULL;

	json_object_del(rest, "fill");
	text = json_dumps(rest, 0);
	return text && (strstr(text, "\"$cursor\"") || strstr(text, "${cursor}") || strstr(text, "${text:cursor}"));
}

/* Sets defaults that depend on the rules. */
static void complete(struct profile *p)
{
	bool has_cursor = p->cursor.kind != CURSOR_NONE;

	if (p->shard.var && !p->overlap_s)
		p->overlap_s = OVERLAP_S;
	p->fill.on_hole = p->gap.contiguous && is_asked_on(p, "hole");
	p->fill.on_reconnect = has_cursor && is_asked_on(p, "reconnect");
	for (size_t i = 0; i < p->rule_count; i++) {
		if (p->rules[i].ack && !p->ack_mode)
			p->ack_mode = ACK_MODE_EACH;
		if (p->rules[i].overlap && !p->overlap_s)
			p->overlap_s = OVERLAP_S;
	}
	p->cursor.is_for_fill = p->fill.on_reconnect && !is_cursor_sent(p);
	p->resends = p->ack_mode != ACK_MODE_NONE && p->ack_on == ACK_ON_DURABLE;
	p->forgets = p->url_resume && !has_cursor; /* only stored cursors outlive the process */
}

/* --- the profile --- */

struct profile *profile_from_json(json_t *root, struct profile_reader *r)
{
	struct profile *p = memory_calloc(1, sizeof(*p));
	int result;

	set_defaults(p);
	p->name = r->name;
	p->root = root;
	r->variables = profile_collect_variables(root);
	result = key_object(r, TABLE(profile_keys, ""), "a profile", root, p) || check_whole(r, p);
	json_decref(r->variables);
	if (result) {
		profile_free(p);
		return NULL;
	}
	complete(p);
	p->doubt = r->doubt;
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->rule_count; i++)
		free(p->rules[i].http);
	free(p->rules);
	free(p->url_http);
	free(p->fill.http);
	free(p->dictionary_path);
	free((char *)(uintptr_t)p->dictionary.at);
	free(p->shard.http);
	free(p->redacted_url);
	free(p->row_source);
	json_decref(p->root);
	free(p);
}

static bool has_code(const json_t *codes, int code)
{
	size_t i;
	json_t *item;

	json_array_foreach(codes, i, item) if (json_integer_value(item) == code) return true;
	return false;
}

int profile_close(const struct profile *p, int code)
{
	const char *range;
	json_t *word;
	long low, high;

	if (has_code(p->fatal_close, code))
		return CLOSE_FATAL;
	if (has_code(p->reset_codes, code))
		return CLOSE_RESET;
	json_object_foreach((json_t *)p->close_policy, range, word)
	{
		if (read_range(range, &low, &high) && code >= low && code <= high)
			return find_word(CLOSE_WORDS, json_string_value(word));
	}
	return -1;
}
