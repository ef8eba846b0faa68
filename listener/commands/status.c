/* status.c owns `wsonce status`: the state of the fleet once, or again and again on a terminal. */
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
#define LIMIT_MS 8000 /* of one look */
#define EVERY_US 2000000

struct status_options {
	bool is_json;
	bool is_watching;
	int64_t every_us;
};

static const struct option status_options[] = {
	{"json", OPTION_SWITCH, offsetof(struct status_options, is_json), NULL, 0, 0, NULL, "one JSON object"},
	{"watch", OPTION_SWITCH, offsetof(struct status_options, is_watching), NULL, 0, 0, NULL,
	 "show it again and again, until interrupted"},
	{"every", OPTION_SPAN, offsetof(struct status_options, every_us), "TIME", 1, 0, NULL,
	 "how often with --watch; default 2s"},
};

/* At least 80, which every column is made for. */
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
	/* Home, and then each line over the old one: no flicker, and what is not a terminal gets plain text. */
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
	.help = "Tells how the fleet is, as far as Postgres and Redis know: each listener, each source, what is "
		"stored, "
		"what waits, both servers, and settings that differ. Exit status 0: all is well; 1: degraded, events "
		"are stored all the same; 2: down.",
	COMMAND_OPTIONS(status_options, struct status_options),
	.check = check_status,
	.settings = SETTINGS_BOTH " unsettled-warning",
	.run = run_status,
};
