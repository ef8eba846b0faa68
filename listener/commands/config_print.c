/* config_print.c owns `wsonce config print`: the settings in force and their origins, without secrets. */

#include "commands/dispatch.h"
#include "commands/json_out.h"

struct print_options {
	bool is_json;
	bool with_defaults;
};

static const struct option print_options[] = {
	{"json", OPTION_SWITCH, offsetof(struct print_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
	{"all", OPTION_SWITCH, offsetof(struct print_options, with_defaults), NULL, 0, 0, NULL,
	 "also settings with their default values"},
};

struct printing {
	const struct print_options *options;
	struct json_out out;
};

static bool is_wanted(const struct printing *p, const struct config_redacted *shown)
{
	return shown->value && (p->options->with_defaults || shown->origin != FROM_DEFAULT);
}

static void print_line(void *arg, const struct config_redacted *shown)
{
	if (is_wanted(arg, shown))
		json_out_line("%-24s %-12s %s", shown->flag, config_origin_name(shown->origin), shown->value);
}

static void print_member(void *arg, const struct config_redacted *shown)
{
	struct printing *p = arg;

	if (is_wanted(p, shown))
		json_out_member(&p->out, shown->flag,
				json_pack("{s:o, s:s, s:b}", "value",
					  shown->is_secret ? json_null() : json_out_string(shown->value), "from",
					  config_origin_name(shown->origin), "is_secret", shown->is_secret));
}

static int run_print(const struct invocation *in)
{
	struct printing p = {.options = in->options};

	if (!p.options->is_json) {
		config_each(in->config, print_line, &p);
		return STATUS_FINE;
	}
	json_out_open(&p.out);
	config_each(in->config, print_member, &p);
	json_out_close(&p.out);
	return STATUS_FINE;
}

const struct subcommand config_print = {
	.name = "config print",
	.has_all_settings = true,
	COMMAND_OPTIONS(print_options, struct print_options),
	.run = run_print,
};
