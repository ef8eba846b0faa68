/* profile_override.c overrides members of a profile with those beside "profile" in the settings file, and variables
 * with --feed NAME?variable=value. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/profile_reader.h"

/* --- variables --- */

static int override_var(struct profile_reader *r, const char *name, const json_t *value, void *vars)
{
	if (!json_object_get(vars, name))
		return profile_fail(r, "the profile has no variable \"%.60s\"%s", name,
				    profile_meant_member(vars, name));
	return json_object_set(vars, name, (json_t *)value);
}

static int override_vars(struct profile_reader *r, json_t *own, const json_t *vars)
{
	return json_is_object(vars) ? profile_each(r, vars, override_var, own)
				    : profile_fail(r, "must be an object of variables and their values");
}

/* --- url --- */

/* Returns the length of scheme://host:port in a template, 0 if it does not begin with that. */
static size_t origin_of(const char *url)
{
	const char *host = url ? strstr(url, "://") : NULL, *slash = url ? strchr(url, '/') : NULL;
	size_t len;

	if (!host || slash != host + 1)
		return 0;
	len = (size_t)(host + 3 - url);
	while (url[len] && !strchr("/?#", url[len])) {
		const char *end = strncmp(url + len, "${", 2) == 0 ? strchr(url + len, '}') : NULL;

		len = end ? (size_t)(end + 1 - url) : len + 1;
	}
	return len;
}

/* Moves url_resume to the new host, keeping its path. A url_resume that the feed sets, in a variable, stays. */
static int move_resume(struct profile_reader *r, json_t *root, const char *url, const char *new_url)
{
	const char *resume = json_string_value(json_object_get(root, "url_resume"));
	size_t old = origin_of(url), len = origin_of(new_url);
	char *moved;

	if (!resume || strncmp(resume, "${", 2) == 0)
		return 0;
	if (!old || !len || origin_of(resume) != old || strncmp(resume, url, old) != 0) {
		profile_enter(r, "url", 0);
		return profile_fail(r, "the profile's url_resume cannot be moved to this host: give url_resume, too, "
				       "or set it to null");
	}
	moved = memory_printf("%.*s%s", (int)len, new_url, resume + old);
	json_object_set_new(root, "url_resume", json_string(moved));
	free(moved);
	return 0;
}

/* If overrides replace url, drops or moves every URL of the old host. */
static int move_url(struct profile_reader *r, json_t *root)
{
	const char *url = json_string_value(json_object_get(root, "url"));
	const char *new_url = json_string_value(json_object_get(r->overrides, "url"));

	if (!new_url)
		return 0;
	if (!json_object_get(r->overrides, "mirrors")) {
		json_object_del(root, "mirrors");
		json_object_del(root, "lines");
	}
	return json_object_get(r->overrides, "url_resume") ? 0 : move_resume(r, root, url, new_url);
}

static int override_member(struct profile_reader *r, const char *name, const json_t *value, void *root)
{
	if (strcmp(name, "vars") == 0)
		return override_vars(r, json_object_get(root, name), value);
	if (json_is_null(value))
		json_object_del(root, name);
	else
		json_object_set(root, name, (json_t *)value);
	return 0;
}

int profile_override(struct profile_reader *r, json_t *root)
{
	return move_url(r, root) ? -1 : profile_each(r, r->overrides, override_member, root);
}
