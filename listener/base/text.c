/* text.c owns what is shown of text that came from outside where only UTF-8 will do. */
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
