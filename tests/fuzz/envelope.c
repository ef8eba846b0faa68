/* Compares the envelope with jansson, which decides what is JSON and what the values are. json.c finds where they are.
 */
#include "event/envelope.h"

#include <jansson.h>
#include <unistr.h>
#if __has_include(<yyjson.h>)
#include <yyjson.h>
#endif

#include "fuzz.h"
#include "json.h"
#include "pointers.h"
#include "sample.h"

/* Why a message is not an event, as bits. */
enum fault {
	NOT_UTF8 = 1,
	NOT_JSON = 2,
	TOO_DEEP = 4,
	NAMED_TWICE = 8,
	NOT_TEXT = 16,
	HAS_NUL = 32,
	HAS_HALF_PAIR = 64,
	IS_MISSING = 128,
	IS_EMPTY = 256,
	TOO_LONG = 512,
};

/* The expected result for a message. */
struct audit_list {
	unsigned int faults; /* any of them may be the reason; none: it is an event */
	char id[9 * 2 * (ENVELOPE_ID_MAX + 2)];
	size_t id_len;
	char *type;
	size_t type_len;
	struct span payload;
	char *time; /* NULL: missing, or not a text */
	size_t time_len;
};

/* --- jansson and JSON --- */

/* yyjson, if Debian has it, judges the grammar and unpaired surrogates. */
static void ask_yyjson(struct span message, enum json_is is, const json_t *tree)
{
#if __has_include(<yyjson.h>)
	yyjson_doc *doc = yyjson_read(message.at, message.len, YYJSON_READ_NUMBER_AS_RAW);

	must(!doc || is != JSON_IS_NOT, "yyjson takes what jansson refuses");
	must(doc || !tree || is != JSON_IS, "yyjson refuses what jansson takes");
	yyjson_doc_free(doc);
#else
#endif
}

/* The value at pointer in jansson's tree, borrowed; NULL: there is none. */
static json_t *tree_find(json_t *tree, const char *pointer)
{
	while (*pointer && tree) {
		size_t n = strcspn(pointer + 1, "/");
		json_t *found = NULL, *value;
		const char *key;
		char index[30];
		size_t i;

		json_object_foreach(tree, key, value) if (oracle_is_step(pointer + 1, n, key, strlen(key))) found =
			value;
		json_array_foreach(tree, i, value)
		{
			snprintf(index, sizeof(index), "%zu", i);
			if (oracle_is_step(pointer + 1, n, index, strlen(index)))
				found = value;
		}
		tree = found;
		pointer += n + 1;
	}
	return tree;
}

/* --- what is expected --- */

/* The text at pointer: *text is NULL if it is missing, otherwise on the heap. */
static unsigned int expect_text(struct span message, const char *pointer, char **text, size_t *len)
{
	struct span value;

	*text = NULL;
	*len = 0;
	switch (oracle_find(message, pointer, &value)) {
	case JSON_ABSENT:
		return 0;
	case JSON_TWICE:
		return NAMED_TWICE;
	case JSON_FOUND:
		break;
	}
	if (strchr("{[tf", *value.at))
		return NOT_TEXT;
	if (*value.at == 'n')
		return 0;
	if (*value.at != '"') {
		*text = strndup(value.at, value.len);
		*len = value.len;
		return 0;
	}
	*text = oracle_decode(value, len);
	if (!*text)
		return HAS_HALF_PAIR | (memmem(value.at, value.len, "\\u0000", 6) ? HAS_NUL : 0);
	return memchr(*text, '\0', *len) ? HAS_NUL : 0;
}

static void add_part(struct audit_list *e, const char *text, size_t len, bool is_one_of_several)
{
	for (size_t i = 0; i < len && e->id_len < sizeof(e->id) - 2; i++) {
		if (is_one_of_several && (text[i] == '|' || text[i] == '\\'))
			e->id[e->id_len++] = '\\';
		e->id[e->id_len++] = text[i];
	}
	if (e->id_len > ENVELOPE_ID_MAX)
		e->faults |= TOO_LONG;
}

static void expect_id(struct audit_list *e, const struct pointers *p)
{
	for (size_t i = 0; i < p->ids.count; i++) {
		char *text;
		size_t len;
		unsigned int faults = expect_text(p->message, p->ids.items[i], &text, &len);

		e->faults |= faults;
		if (!faults && !text)
			e->faults |= IS_MISSING;
		else if (!faults && !len)
			e->faults |= IS_EMPTY;
		if (i)
			e->id[e->id_len++] = '|';
		if (e->id_len < ENVELOPE_ID_MAX * 2)
			add_part(e, text, len, p->ids.count > 1);
		free(text);
	}
}

static void expect(struct audit_list *e, const struct pointers *p, enum json_is is)
{
	if (u8_check((const uint8_t *)p->message.at, p->message.len))
		e->faults |= NOT_UTF8;
	if (is == JSON_IS_NOT)
		e->faults |= NOT_JSON;
	if (is == JSON_IS && oracle_depth(p->message) > ENVELOPE_DEPTH_MAX)
		e->faults |= TOO_DEEP;
	if (is != JSON_IS)
		return;
	expect_id(e, p);
	e->faults |= expect_text(p->message, p->type, &e->type, &e->type_len);
	/* A time that is not a text, or that Postgres could not store, counts as missing. */
	if (p->time && expect_text(p->message, p->time, &e->time, &e->time_len) == NAMED_TWICE)
		e->faults |= NAMED_TWICE;
	e->payload = (struct span){NULL, 0};
	switch (oracle_find(p->message, p->payload, &e->payload)) {
	case JSON_FOUND:
		break;
	case JSON_ABSENT:
		e->payload = (struct span){"{}", 2};
		break;
	case JSON_TWICE:
		e->faults |= NAMED_TWICE;
	}
}

/* --- what the listener says --- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static enum fault classify(const char *why)
{
	static const struct {
		const char *end;
		enum fault fault;
	} ends[] = {
		{" is named twice", NAMED_TWICE},
		{" is not a string or a number", NOT_TEXT},
		{" contains \\u0000, which Postgres cannot store", HAS_NUL},
		{" contains an unpaired surrogate", HAS_HALF_PAIR},
		{" is missing: the event has no id", IS_MISSING},
		{" is empty: the event has no id", IS_EMPTY},
		{" makes an id of more than 512 bytes", TOO_LONG},
	};

	if (strcmp(why, "the message is not valid UTF-8") == 0)
		return NOT_UTF8;
	if (strcmp(why, "the message is nested too deeply (more than 2048 levels)") == 0)
		return TOO_DEEP;
	if (strncmp(why, "not JSON: ", 10) == 0 && why[10] && !strpbrk(why, "\r\n"))
		return NOT_JSON;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (ends_with(why, ends[i].end))
			return ends[i].fault;
	must(false, "an unknown reason: %s", why);
	return NOT_JSON;
}

static bool is_slice(struct slice slice, const char *text, size_t len)
{
	return slice.len == len && (!len || memcmp(slice.at, text, len) == 0);
}

static void check_refusal(const char *why, const struct audit_list *e, const struct envelope_view *view)
{
	must(view->id.len == 0, "refused, and has an id");
	if (e->faults & NOT_UTF8)
		must(classify(why) == NOT_UTF8, "not UTF-8, but: %s", why);
	/* These are found late: the text may have had another fault before. */
	else if (!(e->faults & (NOT_JSON | TOO_DEEP | NAMED_TWICE)))
		must(e->faults & classify(why), "refused for another reason than %x: %s", e->faults, why);
}

/* For a message that is too deep for jansson. */
static void check_depth(const char *why, struct span message)
{
	bool is_deep = oracle_depth(message) > ENVELOPE_DEPTH_MAX;

	must(why || !is_deep, "taken, and it is too deep");
	must(!why || classify(why) != TOO_DEEP || is_deep, "refused as too deep, and it is not");
}

static void check_event(const struct audit_list *e, const struct envelope_view *view)
{
	must(is_slice(view->id, e->id, e->id_len), "id is '%.*s', not '%.*s'", (int)view->id.len, view->id.at,
	     (int)e->id_len, e->id);
	must(is_slice(view->type, e->type, e->type_len), "type is '%.*s', not '%.*s'", (int)view->type.len,
	     view->type.at, (int)e->type_len, e->type ? e->type : "");
	must(is_slice(view->payload, e->payload.at, e->payload.len), "payload is '%.*s', not '%.*s'",
	     (int)view->payload.len, view->payload.at, (int)e->payload.len, e->payload.at);
}

/* Skips a decoded text with a NUL. */
static void check_time(const struct audit_list *e, struct slice time)
{
	bool is_text = e->time && !memchr(e->time, '\0', e->time_len);

	must(is_text == (time.at != NULL), "there is %s time", is_text ? "a" : "no");
	must(!is_text || is_slice(time, e->time, e->time_len), "the time is '%.*s', not '%.*s'", (int)time.len, time.at,
	     (int)e->time_len, e->time);
}

/* The same by jansson's tree alone. */
static void check_tree(json_t *tree, const struct pointers *p, const struct envelope_view *view)
{
	json_t *slice = json_loadb(view->payload.at, view->payload.len,
				   JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
	json_t *payload = tree_find(tree, p->payload);
	json_t *id = tree_find(tree, p->ids.items[0]), *type = tree_find(tree, p->type);

	must(slice, "the payload alone is not JSON: %.*s", (int)view->payload.len, view->payload.at);
	must(payload ? json_equal(slice, payload) : json_object_size(slice) == 0, "the payload is another value: %.*s",
	     (int)view->payload.len, view->payload.at);
	json_decref(slice);
	if (p->ids.count == 1 && json_is_string(id))
		must(is_slice(view->id, json_string_value(id), json_string_length(id)), "the id is another");
	if (json_is_string(type))
		must(is_slice(view->type, json_string_value(type), json_string_length(type)), "the type is another");
}

/* Reads the message in a block of exact size, so that ASan detects an overrun. */
static void check_message(struct envelope *reader, struct pointers *p)
{
	char *kept = malloc(p->message.len ? p->message.len : 1);
	enum json_is is;
	struct audit_list e = {.faults = 0};
	struct envelope_view view;
	const char *why;
	json_t *tree;

	memcpy(kept, p->message.at, p->message.len);
	p->message.at = kept;
	tree = oracle_load(p->message, &is);
	ask_yyjson(p->message, is, tree);
	expect(&e, p, is);
	why = envelope_read(reader, kept, p->message.len, &view);
	if (is == JSON_UNKNOWN && !(e.faults & NOT_UTF8)) {
		check_depth(why, p->message);
		goto end;
	}
	if (why)
		must(e.faults, "refused, and it is an event: %s", why);
	else
		must(!e.faults, "taken, and it is none: %x", e.faults);
	if (why)
		check_refusal(why, &e, &view);
	else
		check_event(&e, &view);
	if (!why)
		check_time(&e, envelope_time(reader));
	if (!why && tree)
		check_tree(tree, p, &view);
end:
	json_decref(tree);
	free(e.type);
	free(e.time);
	free(kept);
}

void try_input(const uint8_t *data, size_t size)
{
	struct pointers p;

	if (pointers_read(&p, (const char *)data, size) == 0) {
		struct envelope *reader = envelope_new(&p.ids, p.type, p.payload);
		struct span whole = p.message;

		if (p.time)
			envelope_add_time(reader, p.time, false);
		check_message(reader, &p);
		/* A reader keeps nothing from one message to the next, not even from half a message. */
		p.message = (struct span){whole.at, whole.len / 2};
		check_message(reader, &p);
		p.message = whole;
		check_message(reader, &p);
		envelope_free(reader);
	}
	pointers_clear(&p);
}

/* One input in four gets another message, made for its pointers. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed)
{
	struct pointers p;
	size_t len = 0, head;

	if (seed % 4 == 0 && pointers_read(&p, (char *)data, size) == 0) {
		head = (size_t)(p.message.at - (char *)data);
		len = sample_write((char *)data + head, size_max - head, &p, seed);
	}
	if (seed % 4 == 0)
		pointers_clear(&p);
	return len ? head + len : LLVMFuzzerMutate(data, size, size_max);
}
