/* profile.c owns the commands that list, show and check profiles. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "commands/table.h"
#include "commands/json_out.h"
#include "commands/ndjson.h"
#include "config/profile.h"
#include "feed/rules.h"
#include "feed/secrets.h"
#include "feed/session.h"

int profile_list(const struct invocation *in)
{
	struct profile_fault fault;
	size_t count;
	AUTO_FREE char **names = profile_names(&count);
	int status = count ? STATUS_FINE : dispatch_fail("no profiles are in %.200s", profile_folder());

	(void)in;
	for (size_t i = 0; i < count; i++) {
		struct profile *p = profile_read_named(names[i], &fault);

		if (p)
			json_out_line("%-22s %s", names[i], p->about ? p->about : "");
		else
			status = dispatch_fail("%s", fault.text);
		profile_free(p);
		free(names[i]);
	}
	return status;
}

int profile_show(const struct invocation *in)
{
	struct profile_fault fault;
	AUTO_FREE char *text = profile_text(in->words[0], &fault);

	if (!text)
		return dispatch_refuse("%s", fault.text);
	json_out_safe(text);
	return STATUS_FINE;
}

/* arg: an object whose keys have been printed already. */
static void print_read(void *arg, const char *name, size_t len)
{
	AUTO_FREE char *key = memory_strndup(name, len);
	bool is_file = strncmp(name, "file:", strlen("file:")) == 0;
	size_t skip = strcspn(name, ":") + 1;

	if (!json_object_get(arg, key))
		json_out_line("reads the %s %s", is_file ? "file" : "variable", key + skip);
	json_object_set_new(arg, key, json_true());
}

/* --- profile check --frames --- */

/* A part of a rule that is a pointer. */
struct look {
	const struct profile_rule *rule;
	const char *member;
	const char *part;
	bool is_found;
	bool is_elsewhere; /* it is in the message instead of the element, or vice versa */
	char *example;     /* the first value in which it was not found; NULL: none */
};

struct fit {
	const struct profile *profile;
	struct rules *rules;
	struct look *looks;
	size_t count;
	const struct profile_rule *rule; /* rule of the current frame */
	struct slice frame;
	uint64_t messages[PROFILE_RULES_MAX + 1]; /* messages per rule, by profile_rule_index */
};

static void add_look(struct fit *f, const struct profile_rule *rule, const char *member, const char *part)
{
	if (!part || !part[0] || !strchr("/^#", *part))
		return;
	f->looks = memory_realloc(f->looks, (f->count + 1) * sizeof(*f->looks));
	f->looks[f->count++] = (struct look){.rule = rule, .member = member, .part = part};
}

static void add_looks(struct fit *f, const struct profile_rule *rule)
{
	size_t i, k;
	const char *name;
	json_t *parts, *part;

	json_array_foreach(rule->id, i, parts) json_array_foreach(parts, k, part)
		add_look(f, rule, "id", json_string_value(part));
	json_object_foreach((json_t *)(uintptr_t)rule->capture, name, part)
		add_look(f, rule, "capture", json_string_value(part));
	add_look(f, rule, "type", rule->type);
	add_look(f, rule, "time", rule->time);
	add_look(f, rule, "payload", rule->payload);
	add_look(f, rule, "cursor", rule->cursor);
	if (rule->action != ACTION_EVENT)
		return;
	add_look(f, rule, "gap", f->profile->gap.key);
	add_look(f, rule, "gap", f->profile->gap.seq);
}

static void look_in(void *ctx, struct slice element, size_t index)
{
	const struct fit *f = ctx;

	(void)index;
	for (struct look *l = f->looks; l < f->looks + f->count; l++) {
		const char *pointer = l->part + (*l->part != '/');
		bool is_of_frame = *l->part == '^';
		struct slice searched = is_of_frame ? f->frame : element;

		if (l->rule != f->rule)
			continue;
		l->is_found |= json_find(searched, pointer).at != NULL;
		if (!l->is_found && !l->example)
			l->example = memory_strndup(searched.at, searched.len);
		l->is_elsewhere |= json_find(is_of_frame ? element : f->frame, pointer).at != NULL;
	}
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	struct fit *f = ctx;

	f->rule = rule;
	f->frame = frame;
	f->messages[profile_rule_index(f->profile, rule)]++;
	if (!rule->text)
		rule_explode(f->rules, rules_match(f->rules, frame), frame, look_in, f);
}

static void skip_event(void *ctx, const struct session_event *event)
{
	(void)ctx, (void)event;
}

static void skip_reject(void *ctx, struct slice bytes, const char *why)
{
	(void)ctx, (void)bytes, (void)why;
}

static const struct session_handler handler = {.on_rule = on_rule, .on_event = skip_event, .on_reject = skip_reject};

static int read_frames(struct fit *f, const char *path)
{
	struct ndjson *lines = ndjson_open(path, NDJSON_UNLIMITED);
	struct session *s = session_new(f->profile, true);
	enum ndjson_result result = NDJSON_FAILED;
	struct ndjson_line line;

	while (lines && (result = ndjson_wait(lines, &line)) == NDJSON_LINE)
		session_read(s, line.bytes, line.len, &handler, f);
	ndjson_close(lines);
	session_free(s);
	return result == NDJSON_FAILED ? -1 : 0;
}

/* Looks for a member of this name at any depth, and appends its pointer to path. Returns false if it finds none. */
/* NOLINTNEXTLINE(misc-no-recursion): jansson limits the depth to 2048 */
static bool find_member(const json_t *value, const char *name, char *path, size_t size)
{
	size_t len = strlen(path);
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)(uintptr_t)value, key, member)
	{
		if (strpbrk(key, "/~") || snprintf(path + len, size - len, "/%s", key) >= (int)(size - len))
			continue;
		if (strcmp(key, name) == 0 || find_member(member, name, path, size))
			return true;
	}
	path[len] = '\0';
	return false;
}

/* Writes "; did you mean /data/id?" into out, or "" if no member has the pointer's last name. */
static void ask_meant(const struct look *l, char *out, size_t size)
{
	json_auto_t *value = l->example ? json_loads(l->example, JSON_DECODE_ANY, NULL) : NULL;
	const char *name = strrchr(l->part, '/');
	char path[100] = "";

	if (l->is_elsewhere)
		snprintf(out, size, "; did you mean %s%.80s?", *l->part == '^' ? "" : "^", l->part + (*l->part != '/'));
	else if (name && find_member(value, name + 1, path, sizeof(path)))
		snprintf(out, size, "; did you mean %.*s%s?", *l->part != '/', l->part, path);
}

/* Warns if the part was found in no message. Returns true if it warned. */
static bool warn(const struct fit *f, const struct look *l)
{
	uint64_t messages = f->messages[profile_rule_index(f->profile, l->rule)];
	char meant[120] = "";

	if (!messages || l->is_found)
		return false;
	ask_meant(l, meant, sizeof(meant));
	dispatch_fail("%s: rule %.60s looks at %.80s, found in 0 of %" PRIu64 " messages%s", l->member,
		      l->rule->name ? l->rule->name : "without a name", l->part, messages, meant);
	return true;
}

/* Warns about parts of rules that no message has, and counts them. Returns the exit status. */
static int check_frames(const struct profile *p, const char *path, size_t *warnings)
{
	struct fit f = {.profile = p, .rules = rules_new(p)};
	int result;

	for (size_t i = 0; i < p->rule_count; i++)
		add_looks(&f, &p->rules[i]);
	add_looks(&f, &p->fallback);
	result = read_frames(&f, path);
	for (size_t i = 0; i < f.count; i++) {
		*warnings += !result && warn(&f, &f.looks[i]);
		free(f.looks[i].example);
	}
	rules_free(f.rules);
	free(f.looks);
	return result ? STATUS_FAILED : STATUS_FINE;
}

/* --- profile check --- */

int profile_check(const struct invocation *in)
{
	const struct given *o = in->options;
	struct profile_fault fault;
	struct profile *p = profile_read_any(in->words[0], &fault);
	json_auto_t *printed = json_object();
	size_t warnings = 0;
	int status;

	if (!p || *p->doubt.text) {
		dispatch_fail("%s", p ? p->doubt.text : fault.text);
		profile_free(p);
		return STATUS_USAGE;
	}
	status = o->frames ? check_frames(p, o->frames, &warnings) : STATUS_FINE;
	if (!warnings && !status)
		json_out_line("%s: %zu rule%s, no fault found", p->name, p->rule_count, p->rule_count == 1 ? "" : "s");
	secrets_each(p->root, print_read, printed);
	if (p->dictionary_path)
		json_out_line("reads the file %s", p->dictionary_path);
	profile_free(p);
	return status;
}
