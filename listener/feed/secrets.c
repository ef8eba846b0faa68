/* secrets.c owns the list of a profile's secrets. It reads the values itself, so that the code that renders them need
 * not register them. */
#include "feed/secrets.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/secret.h"
#include "base/url.h"

#define SECRETS_MOST 256
#define GIVEN_MOST   16 /* values of one variable that are kept */
#define TOKEN_SHORT  8  /* bytes; a shorter value from a server is a number or a word, not a token */

/* The values that a server gave a variable. Each has its own, so that many values of one push out no other's token. */
struct given {
	char *name;
	char *texts[GIVEN_MOST];
};

/* In both, the newest text is the first; NULL: free. */
struct secrets {
	char *texts[SECRETS_MOST];
	struct given *given;
	size_t given_count;
};

/* Makes text, which it takes, the newest of texts. It takes the place of the same text, or of the oldest of most. */
static void keep(char **texts, size_t most, char *text)
{
	size_t i = 0;

	while (i < most - 1 && texts[i] && strcmp(texts[i], text) != 0)
		i++;
	free(texts[i]);
	memmove(texts + 1, texts, i * sizeof(*texts));
	*texts = text;
}

static bool is_from_outside(const char *name)
{
	return strncmp(name, "env:", 4) == 0 || strncmp(name, "file:", 5) == 0;
}

/* text may hold \u0000, and ends with one. */
static void visit_text(const char *text, size_t len, secrets_fn *fn, void *arg)
{
	for (const char *at = text; (at = memmem(at, (size_t)(text + len - at), "${", 2));) {
		at += strncmp(at, "${text:", 7) == 0 ? 7 : 2;
		if (is_from_outside(at))
			fn(arg, at, strcspn(at, "}"));
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): jansson limits the depth to 2048 */
void secrets_each(const json_t *value, secrets_fn *fn, void *arg)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(value))
		visit_text(json_string_value(value), json_string_length(value), fn, arg);
	json_array_foreach(value, i, item) secrets_each(item, fn, arg);
	json_object_foreach((json_t *)(uintptr_t)value, key, item)
	{
		visit_text(key, strlen(key), fn, arg);
		secrets_each(item, fn, arg);
	}
}

static void read_one(void *arg, const char *name, size_t len)
{
	struct secrets *s = arg;
	AUTO_FREE char *of = memory_strndup(name, len);
	char *text = secret_of(of);

	if (!text)
		return;
	(void)url_decode(text); /* a server decodes what was in a URL */
	keep(s->texts, SECRETS_MOST, text);
}

struct secrets *secrets_new(void)
{
	return memory_calloc(1, sizeof(struct secrets));
}

void secrets_read(struct secrets *s, const json_t *profile)
{
	secrets_each(profile, read_one, s);
}

void secrets_free(struct secrets *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < SECRETS_MOST; i++)
		free(s->texts[i]);
	for (size_t i = 0; i < s->given_count; i++) {
		for (size_t k = 0; k < GIVEN_MOST; k++)
			free(s->given[i].texts[k]);
		free(s->given[i].name);
	}
	free(s->given);
	free(s);
}

void secrets_add(struct secrets *s, const char *name, const char *text, size_t len)
{
	size_t i = 0;

	len = strnlen(text, len);
	if (len < TOKEN_SHORT && !is_from_outside(name))
		return;
	while (i < s->given_count && strcmp(s->given[i].name, name) != 0)
		i++;
	if (i == s->given_count) {
		s->given = memory_realloc(s->given, ++s->given_count * sizeof(*s->given));
		s->given[i] = (struct given){.name = memory_strdup(name)};
	}
	keep(s->given[i].texts, GIVEN_MOST, memory_strndup(text, len));
}

void secrets_mask(const struct secrets *s, char *text)
{
	AUTO_FREE char *of = memory_strdup(text);

	for (size_t i = 0; i < SECRETS_MOST; i++)
		secret_mask_of(text, of, s->texts[i]);
	for (size_t i = 0; i < s->given_count; i++)
		for (size_t k = 0; k < GIVEN_MOST; k++)
			secret_mask_of(text, of, s->given[i].texts[k]);
}
