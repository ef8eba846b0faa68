/* config_print.c owns `wsonce config print`: the settings in force and their origins, without secrets. */

#include "commands/table.h"
#include "commands/json_out.h"

struct printing {
	const struct given *options;
	struct json_out out;
};

static bool is_wanted(const struct printing *p, const struct config_redacted *setting)
{
	return setting->value && (p->options->is_all || setting->origin != FROM_DEFAULT);
}

static void print_line(void *arg, const struct config_redacted *setting)
{
	if (is_wanted(arg, setting))
		json_out_line("%-24s %-12s %s", setting->flag, config_origin_name(setting->origin), setting->value);
}

static void print_member(void *arg, const struct config_redacted *setting)
{
	struct printing *p = arg;

	if (is_wanted(p, setting))
		json_out_member(&p->out, setting->flag,
				json_pack("{s:o, s:s, s:b}", "value",
					  setting->is_secret ? json_null() : json_out_string(setting->value), "from",
					  config_origin_name(setting->origin), "is_secret", setting->is_secret));
}

int config_print(const struct invocation *in)
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
