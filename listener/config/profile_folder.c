/* profile_folder.c finds profiles: files, shipped ones, and those in the settings file. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/url.h"
#include "config/profile_reader.h"

#define SUFFIX ".json"

/* --- a text --- */

/* Fills fault with jansson's error. */
static void refuse_text(const char *source, const json_error_t *e, struct profile_fault *fault)
{
	bool is_big = json_error_code(e) == json_error_numeric_overflow;

	profile_fail_at(fault, source, e->line, "%scolumn %d: %s", is_big ? "" : "not JSON at ", e->column,
			is_big ? "a profile cannot hold a number that needs more than 64 bits; a condition may ask for "
				 "{\"type\": \"integer\"}"
			       : e->text);
}

/* given is the origin of the overrides, or NULL if they are not in a file. */
static struct profile *parse(const char *text, size_t len, const char *source, const json_t *overrides,
			     const struct profile_origin *given, struct profile_fault *fault)
{
	struct profile_reader r = {.own = {source, "", {text, len}, 1},
				   .given = given ? *given : (struct profile_origin){source, "", {NULL, 0}, 0},
				   .overrides = overrides,
				   .name = "feed",
				   .fault = fault};
	json_error_t error;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);

	if (!root) {
		refuse_text(source, &error, fault);
		return NULL;
	}
	if (!json_is_object(root))
		profile_fail_at(fault, source, 1, "a profile is a JSON object");
	else if (profile_override(&r, root) == 0)
		return profile_from_json(root, &r);
	json_decref(root);
	return NULL;
}

struct profile *profile_parse(const char *text, size_t len, const char *source, const json_t *overrides,
			      struct profile_fault *fault)
{
	return parse(text, len, source, overrides, NULL, fault);
}

/* --- a URL --- */

/* Percent-encodes bytes that are not ASCII (RFC 3986, section 2.1). */
static char *encode_url(const char *url)
{
	char *out = memory_alloc(3 * strlen(url) + 1), *at = out;

	for (; *url; url++)
		at += sprintf(at, (unsigned char)*url < 0x80 ? "%c" : "%%%02X", (unsigned char)*url);
	*at = '\0';
	return out;
}

/* Passes the URL in a variable, so that "${" in it is not taken for a placeholder. */
struct profile *profile_of_url(const char *url, const char *name, const char *row_source, int64_t idle_s)
{
	AUTO_FREE char *encoded = encode_url(url);
	json_auto_t *root = json_pack("{s:s, s:s, s:{s:s}, s:[{s:s}]}", "name", name, "url", "${url}", "vars", "url",
				      encoded, "rules", "name", "message");
	AUTO_FREE char *text = json_dumps(root, 0);
	struct profile_fault fault;
	struct profile *p = profile_parse(text, strlen(text), "--source", NULL, &fault);

	p->idle_timeout.ms = idle_s * 1000;
	p->backoff.min_ms = 100;
	p->backoff.max_ms = 10000;
	p->close_code_on_stop = 1001;
	p->redacted_url = url_redact(url);
	p->row_source = memory_strdup(row_source);
	return p;
}

/* --- files --- */

/* Returns the text of a file, on the heap, or NULL after filling fault. */
static char *read_text(const char *path, size_t *len, struct profile_fault *fault)
{
	char *text = file_read(path, PROFILE_TEXT_MAX, len);

	if (!text && errno == EFBIG)
		profile_fail_at(fault, path, 0, "is longer than 1 MiB");
	else if (!text)
		profile_fail_at(fault, path, 0, "cannot be read: %s", strerror(errno));
	return text;
}

static struct profile *parse_file(const char *path, const json_t *overrides, const struct profile_origin *given,
				  struct profile_fault *fault)
{
	size_t len;
	AUTO_FREE char *text = read_text(path, &len, fault);

	return text ? parse(text, len, path, overrides, given, fault) : NULL;
}

/* --- shipped profiles --- */

/* Looks for the folder relative to the program: where make install puts it, or in the source tree. */
const char *profile_folder(void)
{
	static const char *const places[] = {"/../share/wsonce/profiles", "/../profiles", "/../../profiles"};
	static char folder[PATH_MAX];
	const char *given = getenv("WSONCE_PROFILES");
	char program[PATH_MAX - 40], place[PATH_MAX];
	ssize_t n;

	if (given && *given)
		return given;
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = '\0';
	if (strrchr(program, '/'))
		*strrchr(program, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(place, sizeof(place), "%s%s", program, places[i]);
		if (realpath(place, folder))
			return folder;
	}
	return "/usr/local/share/wsonce/profiles";
}

static int is_profile(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name), end = strlen(SUFFIX);

	return *entry->d_name != '.' && len > end && strcmp(entry->d_name + len - end, SUFFIX) == 0;
}

char **profile_names(size_t *count)
{
	struct dirent **entries;
	int n = scandir(profile_folder(), &entries, is_profile, alphasort);
	char **names;

	*count = n > 0 ? (size_t)n : 0;
	names = memory_calloc(*count + 1, sizeof(*names));
	for (size_t i = 0; i < *count; i++) {
		names[i] = memory_strndup(entries[i]->d_name, strlen(entries[i]->d_name) - strlen(SUFFIX));
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return names;
}

static void refuse_name(const char *name, const char *what, struct profile_fault *fault)
{
	size_t count;
	char **names = profile_names(&count);
	struct nearest n = profile_nearest(name);

	for (size_t i = 0; i < count; i++)
		nearest_offer(&n, names[i]);
	profile_fail_at(fault, name, 0, "%s %.120s (wsonce profile list shows them)%s", what, profile_folder(),
			profile_meant(&n));
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* True if spec is a path and not a name: it has a slash or ends in .json. Ignores everything after a question mark. */
static bool is_path(const char *spec)
{
	size_t len = strcspn(spec, "?"), end = strlen(SUFFIX);

	return memchr(spec, '/', len) || (len > end && strncmp(spec + len - end, SUFFIX, end) == 0);
}

char *profile_beside(const char *file, const char *spec)
{
	return is_path(spec) ? file_beside(file, spec) : memory_strdup(spec);
}

/* Returns the path of a shipped profile, on the heap, or NULL. */
static char *find_shipped(const char *name)
{
	char *path = strpbrk(name, "/%") || *name == '.' || !*name
			     ? NULL
			     : memory_printf("%s/%s" SUFFIX, profile_folder(), name);

	if (path && access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/* Like find_shipped, but fills fault if there is none. */
static char *find_file(const char *name, struct profile_fault *fault)
{
	char *path = find_shipped(name);

	if (!path)
		refuse_name(name, "no profile of this name in", fault);
	return path;
}

char *profile_text(const char *name, struct profile_fault *fault)
{
	AUTO_FREE char *path = find_file(name, fault);
	size_t len;

	return path ? read_text(path, &len, fault) : NULL;
}

/* --- NAME?var=value&... --- */

/* Converts text to the type of the initial value. Returns NULL if it does not fit. */
static json_t *make_like(const json_t *first, const char *text)
{
	json_t *value;

	if (json_is_string(first) || !first)
		return json_string(text);
	value = json_loads(text, JSON_DECODE_ANY, NULL);
	if (json_is_boolean(first) ? json_is_boolean(value) : json_is_number(value))
		return value;
	json_decref(value);
	return NULL;
}

/* Like make_like, but text may also be an array, with commas between its items. */
static json_t *make_value(const json_t *first, char *text)
{
	json_t *array, *item;
	char *rest = text;

	if (!json_is_array(first)) {
		url_decode(text);
		return make_like(first, text);
	}
	array = json_array();
	for (char *part = strsep(&rest, ","); part; part = strsep(&rest, ",")) {
		url_decode(part);
		item = make_like(json_array_get(first, 0), part);
		if (!item) {
			json_decref(array);
			return NULL;
		}
		json_array_append_new(array, item);
	}
	return array;
}

/* Reads var=value&... from query, and overwrites it. Puts variables into vars and the feed's name into all. */
static int read_query(char *query, const json_t *own, json_t *vars, json_t *all, const char *source,
		      struct profile_fault *fault)
{
	for (char *pair = strsep(&query, "&"); pair; pair = strsep(&query, "&")) {
		char *text = strchr(pair, '=');
		json_t *value;

		if (!*pair)
			continue;
		if (!text)
			return profile_fail_at(fault, source, 0, "\"%.60s\" is not VARIABLE=VALUE", pair);
		*text++ = '\0';
		url_decode(pair);
		value = make_value(json_object_get(own, pair), text);
		if (!value)
			return profile_fail_at(
				fault, source, 0, "%.60s must be %s, like its value in the profile", pair,
				json_is_boolean(json_object_get(own, pair)) ? "true or false" : "a number");
		json_object_set_new(strcmp(pair, "name") == 0 && !json_object_get(own, pair) ? all : vars, pair, value);
	}
	return 0;
}

static struct profile *read_with_query(const char *path, const char *name, char *query, const json_t *overrides,
				       const struct profile_origin *given, struct profile_fault *fault)
{
	size_t len;
	AUTO_FREE char *text = read_text(path, &len, fault);
	json_auto_t *own = text ? json_loadb(text, len, 0, NULL) : NULL, *all = json_object(), *vars = json_object();

	if (!text)
		return NULL;
	json_object_update(all, (json_t *)overrides);
	json_object_update(vars, json_object_get(overrides, "vars"));
	if (read_query(query, json_object_get(own, "vars"), vars, all, name, fault))
		return NULL;
	if (json_object_size(vars))
		json_object_set(all, "vars", vars);
	return parse(text, len, path, all, given, fault);
}

static struct profile *read_named(const char *spec, const json_t *overrides, const struct profile_origin *given,
				  struct profile_fault *fault)
{
	AUTO_FREE char *name = memory_strdup(spec), *path = NULL;
	char *query = name;

	strsep(&query, "?");
	path = is_path(name) ? memory_strdup(name) : find_file(name, fault);
	if (!path)
		return NULL;
	return query ? read_with_query(path, name, query, overrides, given, fault)
		     : parse_file(path, overrides, given, fault);
}

struct profile *profile_read_named(const char *spec, struct profile_fault *fault)
{
	return read_named(spec, NULL, NULL, fault);
}

struct profile *profile_read_any(const char *spec, struct profile_fault *fault)
{
	AUTO_FREE char *path = find_shipped(spec);
	bool is_file = !path && !is_path(spec) && access(spec, F_OK) == 0;
	bool is_named = path || is_path(spec) || strchr(spec, '?');

	if (is_named || is_file)
		return is_file ? parse_file(spec, NULL, NULL, fault) : profile_read_named(spec, fault);
	refuse_name(spec, "neither a file nor a profile in", fault);
	return NULL;
}

/* --- the settings file --- */

/* Reads a shipped profile or a file and replaces its members by those of source. */
static struct profile *read_changed(const json_t *source, const struct profile_origin *given,
				    struct profile_fault *fault)
{
	AUTO_FREE char *spec = profile_beside(given->file, json_string_value(json_object_get(source, "profile")));
	json_auto_t *rest = json_copy((json_t *)source);

	json_object_del(rest, "profile");
	return read_named(spec, rest, given, fault);
}

struct profile *profile_read_source(const json_t *source, const struct profile_origin *given,
				    struct profile_fault *fault)
{
	struct profile_reader r = {.own = *given, .given = *given, .name = "feed", .fault = fault};
	const json_t *profile = json_object_get(source, "profile");

	if (!json_is_object(source) || !(profile || json_object_get(source, "url") || json_object_get(source, "rules")))
		return profile_fail(&r, "must be an object: {\"profile\": NAME} or a whole profile"), NULL;
	if (!profile)
		return profile_from_json(json_deep_copy(source), &r);
	if (json_is_string(profile))
		return read_changed(source, given, fault);
	profile_enter(&r, "profile", 0);
	return profile_fail(&r, "must be a string: the name of a shipped profile, or a path"), NULL;
}
