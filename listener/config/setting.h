/* setting.h: the table of settings, for config/ only. */
#ifndef WSONCE_SETTING_H
#define WSONCE_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "config/config.h"
#include "config/value.h"

struct setting {
	const char *flag; /* without the dashes; also the key in the file */
	const char *env;
	struct value_form form;
	size_t offset;
	const char *value;    /* the value's name in --help */
	const char *fallback; /* the default as text; NULL if there is none */
	const char *meaning;
};

/* Returns the setting at a place in the table, NULL behind the last. */
const struct setting *setting_at(size_t i);

/* Returns the setting with a name, which has no dashes in front; NULL if there is none. */
const struct setting *setting_find(const char *name, size_t len);

/* True if the command has the setting as a flag. */
bool setting_is_of(const struct setting *s, const char *command);

/* Returns the default in a command, as text; NULL if there is none. */
const char *setting_fallback(const struct setting *s, const char *command);

/* Returns the setting's member in a struct config: a text, list, number or switch, by its form. */
static inline void *setting_member(struct config *c, const struct setting *s)
{
	return (char *)c + s->offset;
}

/* True if the setting has no text in struct config. */
static inline bool setting_is_of_other(const struct setting *s)
{
	return s->form.type == VALUE_SWITCH || s->form.type == VALUE_FILE_OF;
}

/* True if the value is a path. */
static inline bool setting_is_file(const struct setting *s)
{
	return strcmp(s->value, "FILE") == 0;
}

#endif
