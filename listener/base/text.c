/* text.c searches and prints texts, and turns text from outside, which may not be UTF-8, into JSON. */
#include "base/text.h"

#include <stdlib.h>

#include "base/memory.h"

json_t *make_json(const char *text, size_t len)
{
	json_t *value = json_stringn(text, len);
	AUTO_FREE char *copy = value ? NULL : memory_strndup(text, len);

	if (value)
		return value;
	make_ascii(copy);
	return json_string(copy);
}

char *quote_json(const char *text, size_t len)
{
	json_auto_t *value = make_json(text, len);

	return json_dumps(value, JSON_ENCODE_ANY);
}

int find_word(const char *words, const char *text)
{
	size_t n;

	for (int i = 0; *words; i++, words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (strlen(text) == n && memcmp(words, text, n) == 0)
			return i;
	}
	return -1;
}

bool is_name(const char *text, size_t most)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n <= most && !text[n];
}

void write_hex(char *out, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sprintf(out + 2 * i, "%02x", ((const unsigned char *)bytes)[i]);
}

#define WIDTH 80

static void break_line(FILE *out, size_t column)
{
	fprintf(out, "\n%*s", (int)column, "");
}

void text_wrap(FILE *out, const char *head, size_t column, const char *text)
{
	size_t at = strlen(head);

	fputs(head, out);
	if (at >= column && column)
		break_line(out, column);
	else
		fprintf(out, "%*s", (int)(column - at), "");
	at = column;
	while (*text) {
		size_t n = strcspn(text, " \n"), end = n + strspn(text + n, " \n"), next = strcspn(text + end, " \n");
		bool is_paragraph = text[n] == '\n' && text[n + 1] == '\n' && text[end];

		fwrite(text, 1, n, out);
		at += n;
		text += end;
		if (is_paragraph)
			fputc('\n', out);
		if (is_paragraph || (*text && at + 1 + next > WIDTH)) {
			break_line(out, column);
			at = column;
		} else if (*text) {
			fputc(' ', out);
			at++;
		}
	}
	fputc('\n', out);
}
