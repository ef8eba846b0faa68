/* sample.c makes messages. Changing bytes one by one hardly ever leads to JSON with a second "payload" three levels
 * down; this makes such messages often: names are from the pointers, values are those that parsers disagree about. */
#include "sample.h"

#include "fuzz.h"

struct sample {
	char *out;
	size_t len;
	size_t size;
	const struct pointers *pointers;
	bool is_tame;
	unsigned long state;
};

/* Values that any message may contain come first; the rest makes most messages invalid. */
#define TAME_SCALARS 8
#define TAME_BLANKS  11

static const char *const scalars[] = {
	"\"a\"",
	"\"b\"",
	"\"a|b\\\\c\"",
	"\"\\u00e4\\ud83d\\ude00\\/\"",
	"\"\xc3\xa4\"",
	"0",
	"1.0",
	"12e-7",
	"\"\"",
	"-0",
	"9223372036854775808",
	"1e400",
	"-0.10E+5",
	"true",
	"false",
	"null",
	"\"\\\"\"",
	"\"}],\"",
	"\"\\u0000\"",
	"\"\\ud800\"",
	"\"\\udc00\\ud800\"",
	"\"\x7f\"",
	"01",
	"\"\\n\\t\\u001f\"",
};

static const char *const blanks[] = {"", "", "", "", "", "", " ", "\n", "\t", "\r", "  ", "\v", "\f"};

static unsigned int roll(struct sample *s, size_t sides)
{
	s->state = s->state * 6364136223846793005UL + 1442695040888963407UL;
	return (unsigned int)((s->state >> 33) % sides);
}

static void put(struct sample *s, const char *text, size_t len)
{
	if (s->len + len <= s->size)
		memcpy(s->out + s->len, text, len);
	s->len += len;
}

static void put_text(struct sample *s, const char *text)
{
	put(s, text, strlen(text));
}

static void put_blank(struct sample *s)
{
	put_text(s, blanks[roll(s, s->is_tame ? TAME_BLANKS : sizeof(blanks) / sizeof(*blanks))]);
}

static const char *some_pointer(struct sample *s)
{
	const struct pointers *p = s->pointers;
	unsigned int which = roll(s, p->ids.count + 2 + (p->time != NULL));

	if (which < p->ids.count)
		return p->items[which];
	which -= (unsigned int)p->ids.count;
	return which == 0 ? p->type : which == 1 ? p->payload : p->time;
}

/* Adds the step of some pointer at this depth, sometimes with escapes, or one of another depth. Some parsers replace an
 * unpaired surrogate by a question mark. */
static void put_name(struct sample *s, int depth)
{
	const char *step = some_pointer(s);

	for (; depth > 0 && *step && roll(s, 20); depth--)
		step += 1 + strcspn(step + 1, "/");
	put_text(s, "\"");
	for (step += *step == '/'; *step && *step != '/'; step++) {
		char c = *step, escape[8];

		if (c == '~')
			c = *++step == '1' ? '/' : '~';
		snprintf(escape, sizeof(escape), "\\u%04x", c == '?' && !s->is_tame ? 0xd800 : c & 0x7f);
		if (c == '"' || c == '\\' || (c > 0 && c < 0x20) || (c > 0 && !roll(s, 30)))
			put_text(s, escape);
		else
			put(s, &c, 1);
	}
	put_text(s, roll(s, 15) ? "\"" : "x\"");
}

static void put_value(struct sample *s, int depth)
{
	bool is_object = roll(s, 4) > 0;

	put_blank(s);
	if (depth > 8 || s->len > s->size || (int)roll(s, 5) < depth) {
		put_text(s, scalars[roll(s, s->is_tame ? TAME_SCALARS : sizeof(scalars) / sizeof(*scalars))]);
		put_blank(s);
		return;
	}
	put_text(s, is_object ? "{" : "[");
	for (unsigned int n = roll(s, 6), i = 0; i < n; i++) {
		if (i)
			put_text(s, ",");
		put_blank(s);
		if (is_object) {
			put_name(s, depth);
			put_blank(s);
			put_text(s, ":");
		}
		put_value(s, depth + 1);
	}
	put_text(s, is_object ? "}" : "]");
	put_blank(s);
}

size_t sample_write(char *out, size_t size, const struct pointers *p, unsigned int seed)
{
	struct sample s = {.out = out, .size = size, .pointers = p, .state = seed};

	s.is_tame = roll(&s, 4) > 0;
	put_value(&s, 0);
	return s.len <= s.size ? s.len : 0;
}
