/* setting.h: the table of settings, for the files of this room. */
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
	const char *value;    /* how the value is called in --help */
	const char *fallback; /* the default as text; NULL: none */
	const char *meaning;
};

/* The settings in the order of the table; NULL behind the last. */
const struct setting *setting_at(size_t i);

/* The setting of a name, which has no dashes in front; NULL: there is none. */
const struct setting *setting_find(const char *name, size_t len);

/* Does the command have it as a flag? */
bool setting_is_of(const struct setting *s, const char *command);

/* The default of a command, as text; NULL: none. */
const char *setting_fallback(const struct setting *s, const char *command);

/* Where it is in a struct config: a text, a list, a number or a switch, as its form says. */
static inline void *setting_member(struct config *c, const struct setting *s)
{
	return (char *)c + s->offset;
}

/* Has it no text of its own? */
static inline bool setting_is_of_other(const struct setting *s)
{
	return s->form.type == VALUE_SWITCH || s->form.type == VALUE_FILE_OF;
}

/* Is its value the path of a file? */
static inline bool setting_is_file(const struct setting *s)
{
	return strcmp(s->value, "FILE") == 0;
}

#endif
