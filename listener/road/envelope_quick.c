/* envelope_quick.c owns the quick way through a message: json_scan() knows that it is JSON, and one more walk finds the
 * values. What is seldom is left to the parser in envelope.c, which alone says what is wrong with a message: an escape
 * in a name or a text that is looked at, a name that comes twice, a value of the wrong type. */
#include <string.h>

#include "base/json_scan.h"
#include "base/rare.h"
#include "road/envelope_state.h"

/* A set of pointers has a bit for each. What follows is about those of them whose first `level` steps lead to the value
 * at hand. */

static int lowest(uint32_t set)
{
	return __builtin_ctz(set);
}

/* The value is what these pointers lead to. Returns false if it is one for the parser. */
static bool keep(struct envelope *e, uint32_t set, struct slice value)
{
	for (; set; set &= set - 1) {
		struct pointer *t = &e->pointers[lowest(set)];

		if (!t->is_text || *value.at == '-' || (*value.at >= '0' && *value.at <= '9')) {
			t->value = value;
		} else if (*value.at == '"') {
			if (memchr(value.at, '\\', value.len))
				return false;
			t->value = (struct slice){value.at + 1, value.len - 2};
		} else if (*value.at != 'n' && !t->is_optional) {
			return false;
		}
	}
	return true;
}

static uint32_t match_name(const struct envelope *e, uint32_t set, int level, const char *name, size_t len)
{
	uint32_t found = 0;

	for (; set; set &= set - 1) {
		const struct json_step *step = &e->pointers[lowest(set)].steps[level];

		if (step->len == len && memcmp(step->name, name, len) == 0)
			found |= set & -set;
	}
	return found;
}

static uint32_t match_index(const struct envelope *e, uint32_t set, int level, long index)
{
	uint32_t found = 0;

	for (; set; set &= set - 1)
		if (e->pointers[lowest(set)].steps[level].index == index)
			found |= set & -set;
	return found;
}

/* NOLINTBEGIN(misc-no-recursion): not deeper than POINTER_STEPS_MAX */

static const char *walk(struct envelope *e, const char *at, const char *end, int level, uint32_t set);

static const char *walk_object(struct envelope *e, const char *at, const char *end, int level, uint32_t set)
{
	uint32_t met = 0;

	for (at = json_next(at + 1, end); at && *at != '}'; at = at ? json_next(at, end) : NULL) {
		const char *name = at + 1;
		bool has_escape;
		uint32_t here;

		at = json_skip_string(at, &has_escape);
		here = match_name(e, set, level, name, (size_t)(at - name - 1));
		if (has_escape || (here & met))
			return NULL;
		met |= here;
		at = json_next(at, end);
		at = here ? walk(e, at, end, level + 1, here) : json_skip(at, end);
	}
	return at ? at + 1 : NULL;
}

static const char *walk_array(struct envelope *e, const char *at, const char *end, int level, uint32_t set)
{
	at = json_next(at + 1, end);
	for (long i = 0; at && *at != ']'; i++) {
		uint32_t here = match_index(e, set, level, i);

		at = here ? walk(e, at, end, level + 1, here) : json_skip(at, end);
		at = at ? json_next(at, end) : NULL;
	}
	return at ? at + 1 : NULL;
}

/* Where the value at `at` ends; NULL: the parser has to read the message. */
static const char *walk(struct envelope *e, const char *at, const char *end, int level, uint32_t set)
{
	uint32_t here = set & e->ends[level], below = set & ~here;
	const char *begin = at;

	if (!below || (*at != '{' && *at != '['))
		at = json_skip(at, end);
	else
		at = *at == '{' ? walk_object(e, at, end, level, below) : walk_array(e, at, end, level, below);
	if (!at || !keep(e, here, (struct slice){begin, (size_t)(at - begin)}))
		return NULL;
	return at;
}

/* NOLINTEND(misc-no-recursion) */

bool envelope_read_quickly(struct envelope *e, const char *message, size_t len)
{
	struct slice value;

	return json_scan(message, len, &value) && !RARE("envelope: the parser reads a plain message") &&
	       walk(e, value.at, value.at + value.len, 0, (1u << e->count) - 1);
}
