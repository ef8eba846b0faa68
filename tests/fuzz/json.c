/* json.c owns the second opinion on JSON. jansson judges and decodes; this file only finds the place of a value, which
 * jansson does not report, in a text that jansson has accepted. */
#include "json.h"

#include "fuzz.h"

#define LOAD (JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL)

/* RFC 8259 allows three things that jansson refuses: an unpaired surrogate, \u0000 in a name, and a number beyond a
 * double. Replaces them by the same number of other digits, so that only the grammar is judged. */
static void soften(char *text, size_t len)
{
	static const char surrogates[] = "89abcdefABCDEF";

	for (char *at = text, *end = text + len; at < end; at++) {
		if (*at == '\\' && end - at >= 6 && at[1] == 'u') {
			bool is_surrogate = (at[2] | 0x20) == 'd' && at[3] && strchr(surrogates, at[3]);

			if (memcmp(at + 2, "0000", 4) == 0 ||
			    (is_surrogate && strspn(at + 4, "0123456789abcdefABCDEF") >= 2))
				memcpy(at + 2, "0041", 4);
			at += 5;
		} else if (*at == '\\') {
			at++;
		} else if (*at == 'e' || *at == 'E') {
			at += end - at > 1 && (at[1] == '+' || at[1] == '-');
			while (end - at > 1 && at[1] >= '0' && at[1] <= '9')
				*++at = '0';
		}
	}
}

static enum json_is judge(struct span text)
{
	char *copy = strndup(text.at, text.len);
	json_error_t error;
	json_t *tree;
	enum json_is is = JSON_IS;

	soften(copy, text.len);
	tree = json_loadb(copy, text.len, LOAD, &error);
	if (!tree)
		is = json_error_code(&error) == json_error_stack_overflow ||
				     json_error_code(&error) == json_error_numeric_overflow
			     ? JSON_UNKNOWN
			     : JSON_IS_NOT;
	json_decref(tree);
	free(copy);
	return is;
}

json_t *oracle_load(struct span text, enum json_is *is)
{
	/* jansson ignores a NUL byte after a number. */
	*is = memchr(text.at, '\0', text.len) ? JSON_IS_NOT : judge(text);
	return json_loadb(text.at, text.len, LOAD, NULL);
}

/* Returns the end of a string; at is its first quote. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		at += *at == '\\';
	return at < end ? at + 1 : end;
}

int oracle_depth(struct span text)
{
	int depth = 0, most = 0;

	for (const char *at = text.at, *end = at + text.len; at < end;) {
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		most = depth > most ? depth : most;
		at = *at == '"' ? skip_string(at, end) : at + 1;
	}
	return most;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	return at;
}

/* Returns the end of a value. */
static const char *skip_value(const char *at, const char *end)
{
	int depth = 0;

	for (; at < end; at++) {
		if (*at == '"') {
			at = skip_string(at, end) - 1;
			continue;
		}
		if (!depth && (is_blank(*at) || strchr(",:]}", *at)))
			break;
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
	}
	return at;
}

char *oracle_decode(struct span quoted, size_t *len)
{
	json_t *value = json_loadb(quoted.at, quoted.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	char *text = NULL;

	if (value) {
		*len = json_string_length(value);
		text = malloc(*len + 1);
		memcpy(text, json_string_value(value), *len + 1);
	}
	json_decref(value);
	return text;
}

bool oracle_is_step(const char *token, size_t n, const char *key, size_t key_len)
{
	const char *end = token + n, *key_end = key + key_len;

	for (; token < end; token++, key++) {
		char c = *token;

		if (c == '~')
			c = *++token == '1' ? '/' : '~';
		if (key == key_end || *key != c)
			return false;
	}
	return key == key_end;
}

static bool is_name(struct span quoted, const char *token, size_t n)
{
	size_t len;
	char *name = oracle_decode(quoted, &len);
	bool is_same = name && oracle_is_step(token, n, name, len);

	free(name);
	return is_same;
}

static bool is_index(size_t index, const char *token, size_t n)
{
	char text[30];

	return (size_t)snprintf(text, sizeof(text), "%zu", index) == n && memcmp(text, token, n) == 0;
}

/* Returns how many members or elements of the container the reference token names, and sets the last of them. */
static int find_step(struct span container, const char *token, size_t n, struct span *value)
{
	const char *end = container.at + container.len;
	bool is_object = *container.at == '{';
	int found = 0;
	size_t index = 0;

	for (const char *at = skip_blanks(container.at + 1, end); *at != '}' && *at != ']'; index++) {
		const char *begin = at = skip_blanks(at + (*at == ','), end);
		bool is_it = !is_object && is_index(index, token, n);

		if (is_object) {
			at = skip_string(at, end);
			is_it = is_name((struct span){begin, (size_t)(at - begin)}, token, n);
			begin = at = skip_blanks(skip_blanks(at, end) + 1, end);
		}
		at = skip_value(at, end);
		if (is_it) {
			*value = (struct span){begin, (size_t)(at - begin)};
			found++;
		}
		at = skip_blanks(at, end);
	}
	return found;
}

enum json_found oracle_find(struct span text, const char *pointer, struct span *value)
{
	const char *end = text.at + text.len, *begin = skip_blanks(text.at, end);

	*value = (struct span){begin, (size_t)(skip_value(begin, end) - begin)};
	while (*pointer) {
		size_t n = strcspn(pointer + 1, "/");

		if (*value->at != '{' && *value->at != '[')
			return JSON_ABSENT;
		int found = find_step(*value, pointer + 1, n, value);
		if (found != 1)
			return found ? JSON_TWICE : JSON_ABSENT;
		pointer += n + 1;
	}
	return JSON_FOUND;
}
