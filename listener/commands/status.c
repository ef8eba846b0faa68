/* status.c owns `wsonce status`: it prints the state of the fleet once or repeatedly. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "commands/dispatch.h"
#include "commands/fleet_state.h"
#include "commands/interrupt.h"
#include "commands/session.h"

#define WIDTH    80
#define LIMIT_MS 8000 /* for both servers to answer */
#define EVERY_US 2000000

struct status_options {
	bool is_json;
	bool is_watching;
	int64_t every_us;
};

static const struct option status_options[] = {
	{"json", OPTION_SWITCH, offsetof(struct status_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
	{"watch", OPTION_SWITCH, offsetof(struct status_options, is_watching), NULL, 0, 0, NULL,
	 "repeat until interrupted"},
	{"every", OPTION_SPAN, offsetof(struct status_options, every_us), "TIME", 1, 0, NULL,
	 "with --watch: how often; default 2s"},
};

/* The columns need 80. */
static int find_width(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > WIDTH ? size.ws_col : WIDTH;
}

static enum fleet_health show(const struct invocation *in)
{
	const struct status_options *o = in->options;
	enum fleet_health health;
	json_t *state;

	session_limit(LIMIT_MS, true);
	state = fleet_state_read(in->config, &health);
	/* Only a terminal is cleared. */
	if (o->is_watching && isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	if (o->is_json) {
		json_dumpf(state, stdout, (o->is_watching ? JSON_COMPACT : JSON_INDENT(2)) | JSON_REAL_PRECISION(15));
		putchar('\n');
	} else {
		fleet_state_print(state, find_width());
	}
	fflush(stdout);
	json_decref(state);
	return health;
}

static int run_status(const struct invocation *in)
{
	const struct status_options *o = in->options;
	int64_t every_us = o->every_us ? o->every_us : EVERY_US;
	struct timespec pause = {every_us / 1000000, every_us % 1000000 * 1000};
	enum fleet_health health;

	if (o->is_watching)
		interrupt_watch();
	do {
		health = show(in);
		if (o->is_watching && !interrupt_has_come())
			nanosleep(&pause, NULL);
	} while (o->is_watching && !interrupt_has_come() && !ferror(stdout));
	return (int)health;
}

static const char *check_status(const struct invocation *in)
{
	const struct status_options *o = in->options;

	return o->every_us && !o->is_watching ? "--every goes with --watch" : NULL;
}

const struct subcommand status_command = {
	.name = "status",
	.arguments = "",
	.summary = "show the state of the whole fleet",
	.help = "Shows the fleet as Postgres and Redis know it: listeners, sources, rates, both servers, dead letters, "
		"pending deliveries, and settings that differ between listeners. The exit status is 0 if all is well, "
		"1 if something is degraded but events are stored, and 2 if no event can be stored.",
	COMMAND_OPTIONS(status_options, struct status_options),
	.check = check_status,
	.settings = SETTINGS_BOTH " unsettled-warning",
	.run = run_status,
};
