/* profile.c owns the commands that list, show and check profiles. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/dispatch.h"
#include "commands/json_out.h"
#include "config/profile.h"
#include "feed/secrets.h"

static int run_list(const struct invocation *in)
{
	struct profile_fault fault;
	size_t count;
	char **names = profile_names(&count);
	int status = count ? STATUS_FINE : dispatch_fail("no profiles are in %.200s", profile_folder());

	(void)in;
	for (size_t i = 0; i < count; i++) {
		struct profile *p = profile_read_named(names[i], NULL, &fault);

		if (p)
			printf("%-22s %s\n", names[i], p->about ? p->about : "");
		else
			status = dispatch_fail("%s", fault.text);
		profile_free(p);
		free(names[i]);
	}
	free(names);
	return status;
}

static int run_show(const struct invocation *in)
{
	struct profile_fault fault;
	char *text = profile_text(in->words[0], &fault);

	if (!text) {
		dispatch_fail("%s", fault.text);
		return STATUS_USAGE;
	}
	fputs(text, stdout);
	free(text);
	return STATUS_FINE;
}

/* arg: an object whose keys are those that have been printed. */
static void print_read(void *arg, const char *name, size_t len)
{
	char *key = memory_strndup(name, len);
	bool is_file = strncmp(name, "file:", strlen("file:")) == 0;
	size_t skip = strcspn(name, ":") + 1;

	if (!json_object_get(arg, key)) {
		json_out_line("reads the %s %s", is_file ? "file" : "variable", key + skip);
	}
	json_object_set_new(arg, key, json_true());
	free(key);
}

static int run_check(const struct invocation *in)
{
	struct profile_fault fault;
	struct profile *p = profile_read_any(in->words[0], &fault);
	json_t *printed;

	if (!p || *p->doubt.text) {
		dispatch_fail("%s", p ? p->doubt.text : fault.text);
		profile_free(p);
		return STATUS_USAGE;
	}
	printed = json_object();
	printf("%s: %zu rules, no fault found\n", p->name, p->rule_count);
	secrets_each(p->root, print_read, printed);
	if (p->dictionary_path)
		json_out_line("reads the file %s", p->dictionary_path);
	json_decref(printed);
	profile_free(p);
	return STATUS_FINE;
}

const struct subcommand profile_list = {
	.name = "profile list",
	.settings = SETTINGS_NONE,
	.run = run_list,
};

const struct subcommand profile_show = {
	.name = "profile show",
	.arguments = "NAME",
	.settings = SETTINGS_NONE,
	.run = run_show,
};

const struct subcommand profile_check = {
	.name = "profile check",
	.arguments = "PROFILE",
	.settings = SETTINGS_NONE,
	.run = run_check,
};
