/* setting.h: the table of settings, for config/, and of the own options of a command, in the same form. */
#ifndef WSONCE_SETTING_H
#define WSONCE_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "config/config.h"
#include "config/value.h"

struct setting {
	const char *flag; /* without the dashes; also the key in the file */
	const char *env;  /* NULL: an own option of a command */
	struct value_form form;
	size_t offset;        /* in struct config, or in the struct of config_own */
	const char *value;    /* the value's name in --help */
	const char *fallback; /* the default as text; NULL if there is none */
	const char *meaning;
};

/* Returns setting i of the table, or NULL at the end. */
const struct setting *setting_at(size_t i);

/* Returns the setting with this name, without leading dashes, or NULL. */
const struct setting *setting_find(const char *name, size_t len);

/* True if the command has the setting as a flag. */
bool setting_is_of(const struct setting *s, const char *command);

/* Returns the default for a command as text, or NULL if there is none. */
const char *setting_fallback(const struct setting *s, const char *command);

/* Returns the setting's member of c: a text, list, number or switch, depending on its form. */
static inline void *setting_member(struct config *c, const struct setting *s)
{
	return (char *)c + s->offset;
}

/* Returns the feed with this name, or NULL. */
const struct profile *config_find_feed(const struct config *c, const char *name);

/* Returns why the settings, each valid by itself, do not fit together, or NULL. is_listen: they are a listener's. */
const char *check_settings(const struct config *c, bool is_listen);

/* True if the files are a certificate and its key (PEM, without a password). */
bool check_is_pair(const char *cert, const char *key);

/* True if the setting fills the member of another setting. */
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
