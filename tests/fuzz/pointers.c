/* pointers.c owns the form of the envelope fuzzer's inputs. */
#include "pointers.h"

#include "fuzz.h"

#define STEPS_MAX 16

static bool is_pointer(const char *text)
{
	int steps = 0;

	for (const char *c = text; *c; c++) {
		steps += *c == '/';
		if (*c == '~' && c[1] != '0' && c[1] != '1')
			return false;
	}
	return (!*text || *text == '/') && steps <= STEPS_MAX;
}

static int read_line(struct pointers *p, const char *line, size_t len)
{
	const char *blank = memchr(line, ' ', len);
	size_t word = blank ? (size_t)(blank - line) + 1 : 0;

	if (!blank || memchr(line, '\0', len))
		return -1;
	char *pointer = strndup(line + word, len - word);
	if (is_pointer(pointer)) {
		if (strncmp(line, "id ", word) == 0 && p->ids.count < POINTERS_MAX) {
			p->items[p->ids.count++] = pointer;
			return 0;
		}
		if (strncmp(line, "type ", word) == 0 && !p->type) {
			p->type = pointer;
			return 0;
		}
		if (strncmp(line, "payload ", word) == 0 && !p->payload) {
			p->payload = pointer;
			return 0;
		}
		if (strncmp(line, "time ", word) == 0 && !p->time) {
			p->time = pointer;
			return 0;
		}
	}
	free(pointer);
	return -1;
}

static void use_default(char **pointer, const char *text)
{
	if (!*pointer)
		*pointer = strdup(text);
}

int pointers_read(struct pointers *p, const char *input, size_t len)
{
	const char *end = input + len;

	*p = (struct pointers){.ids = {p->items, 0}};
	for (;;) {
		const char *newline = memchr(input, '\n', (size_t)(end - input));

		if (!newline)
			return -1;
		if (newline == input)
			break;
		if (read_line(p, input, (size_t)(newline - input)))
			return -1;
		input = newline + 1;
	}
	p->message = (struct span){input + 1, (size_t)(end - input - 1)};
	use_default(&p->type, "/event_type");
	use_default(&p->payload, "/payload");
	if (!p->ids.count)
		p->items[p->ids.count++] = strdup("/event_id");
	return 0;
}

void pointers_clear(struct pointers *p)
{
	for (size_t i = 0; i < p->ids.count; i++)
		free(p->items[i]);
	free(p->type);
	free(p->payload);
	free(p->time);
}
