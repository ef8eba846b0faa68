/* status.c owns `wsonce status`: it prints the state of the fleet once or repeatedly. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "commands/colour.h"
#include "commands/table.h"
#include "commands/fleet_state.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/session.h"

#define WIDTH    80
#define LIMIT_MS 8000 /* time for both servers to answer */
#define EVERY_US 2000000

/* --- text: columns that fit a terminal of 80, and no control characters from outside --- */

/* Returns a copy with ? for control characters and for all that is not ASCII. In JSON these are escapes, except DEL. */
static json_t *make_printable(const json_t *state)
{
	AUTO_FREE char *text = memory_given(json_dumps(state, JSON_ENSURE_ASCII), "jansson");
	char *put = text;

	for (const char *at = text; *at;) {
		if (*at == '\\' && (at[1] == '"' || at[1] == '\\')) {
			*put++ = *at++;
			*put++ = *at++;
		} else if (*at == '\\' || *at == 0x7f) {
			*put++ = '?';
			at += *at == 0x7f ? 1 : at[1] == 'u' ? 6 : 2;
		} else {
			*put++ = *at++;
		}
	}
	*put = '\0';
	return json_loads(text, 0, NULL);
}

/* Prints 12s, 5m12s, 3h04m or 12d03h: at most seven columns for years. */
static const char *print_age(json_int_t s, char out[24])
{
	long long n = s;

	if (n < 60)
		snprintf(out, 24, "%llds", n);
	else if (n < 3600)
		snprintf(out, 24, "%lldm%02llds", n / 60, n % 60);
	else if (n < 86400)
		snprintf(out, 24, "%lldh%02lldm", n / 3600, n / 60 % 60);
	else
		snprintf(out, 24, "%lldd%02lldh", n / 86400, n / 3600 % 24);
	return out;
}

static void print_hazards(const char *at)
{
	for (size_t len; *at; at += len + strspn(at + len, ", ")) {
		len = strcspn(at, ",");
		printf("          commits may vanish: %.*s\n", (int)len, at);
	}
}

static void print_servers(const json_t *state)
{
	const json_t *postgres = json_object_get(state, "postgres"), *redis = json_object_get(state, "redis");
	bool is_file = strcmp(member_text(postgres, "role"), "file") == 0;

	fputs(is_file ? "sqlite    " : "postgres  ", stdout);
	if (!json_is_true(json_object_get(postgres, "is_up"))) {
		fputs("down\n", stdout);
	} else if (is_file) {
		printf("%.20s, %.1f ms, schema %lld\n", member_text(postgres, "version"),
		       member_real(postgres, "latency_ms"), (long long)member_number(postgres, "schema_version"));
	} else {
		printf("%.*s %s, %.1f ms, synchronous_commit %s, schema %lld\n",
		       (int)strcspn(member_text(postgres, "version"), " "), member_text(postgres, "version"),
		       member_text(postgres, "role"), member_real(postgres, "latency_ms"),
		       member_text(postgres, "synchronous_commit"),
		       (long long)member_number(postgres, "schema_version"));
		print_hazards(member_text(postgres, "hazards"));
	}
	fputs("redis     ", stdout);
	if (json_is_null(redis))
		fputs("none\n", stdout);
	else if (!json_is_true(json_object_get(redis, "is_up")))
		fputs("down\n", stdout);
	else if (!*member_text(redis, "version"))
		fputs("up, but INFO was not answered\n", stdout);
	else
		printf("%.20s %.20s, %.1f ms, %.20s used, %.20s\n", member_text(redis, "version"),
		       member_text(redis, "role"), member_real(redis, "latency_ms"),
		       member_text(redis, "used_memory_human"), member_text(redis, "maxmemory_policy"));
}

static void print_listeners(const json_t *all)
{
	size_t i;
	json_t *one;
	char up[24], checkin[24];

	printf("\n%-20s %-7s %7s %8s %5s %8s %8s %8s\n", "listener", "version", "up", "check-in", "alive", "recv/s",
	       "stored/s", "oldest");
	json_array_foreach(all, i, one)
	{
		printf("%-20.20s %-7.7s %7s %8s %5s %8.1f %8.1f %6.1f s\n", member_text(one, "name"),
		       member_text(one, "version"), print_age(member_number(one, "uptime_s"), up),
		       print_age(member_number(one, "checkin_s"), checkin),
		       json_is_true(json_object_get(one, "is_alive")) ? "yes" : "no",
		       member_real(one, "received_per_s"), member_real(one, "stored_per_s"),
		       (double)member_number(one, "oldest_ms") / 1000);
	}
}

static void print_sources(const json_t *all)
{
	size_t i;
	json_t *one;
	char age[24];

	if (!json_array_size(all))
		return;
	printf("\n%-28s %-14s %-10s %8s %8s\n", "source", "listener", "state", "last", "msg/s");
	json_array_foreach(all, i, one)
	{
		printf("%-28.28s %-14.14s %-10.10s %8s %8.1f\n", member_text(one, "name"), member_text(one, "listener"),
		       member_text(one, "state"),
		       json_object_get(one, "silent_s") ? print_age(member_number(one, "silent_s"), age) : "never",
		       member_real(one, "messages_per_s"));
		if (*member_text(one, "error"))
			text_wrap(stdout, "", 2, member_text(one, "error"));
	}
}

static double sum_of(const json_t *all, const char *name)
{
	double sum = 0;
	size_t i;
	json_t *one;

	json_array_foreach(all, i, one) sum += member_real(one, name);
	return sum;
}

/* The statements stop counting at a limit. */
static const char *or_more(const json_t *counts)
{
	return json_is_true(json_object_get(counts, "is_more")) ? " (or more)" : "";
}

static void print_counts(const json_t *state)
{
	const json_t *listeners = json_object_get(state, "listeners"), *outbox = json_object_get(state, "outbox"),
		     *dead_letters = json_object_get(state, "dead_letters");
	char age[24];

	if (!json_is_true(json_object_get(json_object_get(state, "postgres"), "is_up"))) {
		puts("\nrates, dead letters and the outbox are unknown");
		return;
	}
	printf("\nstored %.1f/s, duplicates %.1f/s, dead letters %.1f/min, ", sum_of(listeners, "stored_per_s"),
	       sum_of(listeners, "duplicates_per_s"), 60 * sum_of(listeners, "dead_lettered_per_s"));
	if (json_is_object(dead_letters))
		printf("%lld open%s\n", (long long)member_number(dead_letters, "open"), or_more(dead_letters));
	else
		puts("open ones unknown");
	if (!json_is_object(outbox))
		puts("outbox unknown");
	else
		printf("outbox %lld pending, oldest %s, %lld dead%s\n", (long long)member_number(outbox, "pending"),
		       print_age(member_number(outbox, "oldest_s"), age), (long long)member_number(outbox, "dead"),
		       or_more(outbox));
}

static void print_differing(json_t *all, int width)
{
	const char *flag, *value;
	json_t *values, *who;

	json_object_foreach(all, flag, values)
	{
		printf("\n--%.40s differs:\n", flag);
		json_object_foreach(values, value, who)
			printf("  %.*s (%zu: %.20s%s\n", width - 40, value, json_array_size(who),
			       json_string_value(json_array_get(who, 0)), json_array_size(who) > 1 ? ", ...)" : ")");
	}
}

static enum colour colour_of(const char *health)
{
	return strcmp(health, "ok") == 0 ? COLOUR_GREEN : strcmp(health, "degraded") == 0 ? COLOUR_YELLOW : COLOUR_RED;
}

static void print_text(const json_t *from, int width)
{
	json_t *state = make_printable(from), *problem;
	const char *health = member_text(state, "status");
	size_t i;

	colour_print(colour_of(health), 20, health);
	printf(" %*s\n", width - 22, member_text(state, "at"));
	json_array_foreach(json_object_get(state, "problems"), i, problem)
		text_wrap(stdout, "!", 2, json_string_value(problem));
	putchar('\n');
	print_servers(state);
	print_listeners(json_object_get(state, "listeners"));
	print_sources(json_object_get(state, "sources"));
	print_counts(state);
	print_differing(json_object_get(state, "differing_settings"), width);
	json_decref(state);
}

/* --- the command --- */

/* Returns the width of the terminal, at least 80, which the columns need. */
static int find_width(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > WIDTH ? size.ws_col : WIDTH;
}

static enum fleet_health show(const struct invocation *in)
{
	const struct given *o = in->options;
	enum fleet_health health;
	json_t *state;

	session_limit(LIMIT_MS, true);
	state = fleet_state_read(in->config, &health);
	/* Only a terminal is cleared. */
	if (o->is_watching && isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	if (o->is_json) {
		json_out_value(json_incref(state), o->is_watching ? JSON_COMPACT : JSON_INDENT(2));
		putchar('\n');
	} else {
		print_text(state, find_width());
	}
	fflush(stdout);
	json_decref(state);
	return health;
}

int status_command(const struct invocation *in)
{
	const struct given *o = in->options;
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

const char *status_check(const struct invocation *in)
{
	const struct given *o = in->options;

	return o->every_us && !o->is_watching ? "--every goes with --watch" : NULL;
}
