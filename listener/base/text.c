/* text.c turns text from outside, which may not be UTF-8, into JSON. */
#include "base/text.h"

#include <stdlib.h>

#include "base/memory.h"

json_t *make_json(const char *text, size_t len)
{
	json_t *value = json_stringn(text, len);
	char *copy = value ? NULL : memory_strndup(text, len);

	if (copy) {
		make_ascii(copy);
		value = json_string(copy);
	}
	free(copy);
	return value;
}

char *quote_json(const char *text, size_t len)
{
	json_t *value = make_json(text, len);
	char *out = json_dumps(value, JSON_ENCODE_ANY);

	json_decref(value);
	return out;
}
