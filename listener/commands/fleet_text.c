/* fleet_text.c prints the state of the fleet as text: columns that fit a terminal of 80, no colour, and no control
 * characters from outside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "commands/fleet_state.h"
#include "commands/json_out.h"

/* Prints a text from outside in lines of 80 columns. */
static void put_lines(const char *head, const char *text)
{
	char *copy = memory_strdup(text);

	make_line(copy);
	make_ascii(copy);
	text_wrap(stdout, head, 2, copy);
	free(copy);
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

/* Prints a line for each. */
static void print_hazards(const char *at)
{
	for (size_t len; *at; at += len + strspn(at + len, ", ")) {
		len = strcspn(at, ",");
		printf("          commits may vanish: %.*s\n", (int)len, at);
	}
}

static void print_redis(const json_t *redis)
{
	json_out_word(member_text(redis, "version"), 20);
	putchar(' ');
	json_out_word(member_text(redis, "role"), 20);
	printf(", %.1f ms, ", member_real(redis, "latency_ms"));
	json_out_word(member_text(redis, "used_memory_human"), 20);
	fputs(" used, ", stdout);
	json_out_word(member_text(redis, "maxmemory_policy"), 20);
	putchar('\n');
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
		json_out_word(member_text(postgres, "version"), (int)strcspn(member_text(postgres, "version"), " "));
		printf(" %s, %.1f ms, synchronous_commit %s, schema %lld\n", member_text(postgres, "role"),
		       member_real(postgres, "latency_ms"), member_text(postgres, "synchronous_commit"),
		       (long long)member_number(postgres, "schema_version"));
		print_hazards(member_text(postgres, "hazards"));
	}
	fputs("redis     ", stdout);
	if (json_is_null(redis))
		fputs("none\n", stdout);
	else if (!json_is_true(json_object_get(redis, "is_up")))
		fputs("down\n", stdout);
	else
		print_redis(redis);
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
		json_out_column(member_text(one, "name"), 20);
		putchar(' ');
		json_out_column(member_text(one, "version"), 7);
		printf(" %7s %8s %5s %8.1f %8.1f %6.1f s\n", print_age(member_number(one, "uptime_s"), up),
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
		json_out_column(member_text(one, "name"), 28);
		putchar(' ');
		json_out_column(member_text(one, "listener"), 14);
		putchar(' ');
		json_out_column(member_text(one, "state"), 10);
		printf(" %8s %8.1f\n",
		       json_object_get(one, "silent_s") ? print_age(member_number(one, "silent_s"), age) : "never",
		       member_real(one, "messages_per_s"));
		if (*member_text(one, "error"))
			put_lines("", member_text(one, "error"));
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
		     *letters = json_object_get(state, "dead_letters");
	char age[24];

	if (!json_is_true(json_object_get(json_object_get(state, "postgres"), "is_up"))) {
		puts("\nrates, dead letters and the outbox are unknown");
		return;
	}
	printf("\nstored %.1f/s, duplicates %.1f/s, dead letters %.1f/min, ", sum_of(listeners, "stored_per_s"),
	       sum_of(listeners, "duplicates_per_s"), 60 * sum_of(listeners, "dead_lettered_per_s"));
	if (json_is_object(letters))
		printf("%lld open%s\n", (long long)member_number(letters, "open"), or_more(letters));
	else
		puts("open ones unknown");
	if (!json_is_object(outbox))
		puts("outbox unknown");
	else
		printf("outbox %lld pending, oldest %s, %lld dead%s\n", (long long)member_number(outbox, "pending"),
		       print_age(member_number(outbox, "oldest_s"), age), (long long)member_number(outbox, "dead"),
		       or_more(outbox));
}

static void print_differing(const json_t *all, int width)
{
	const char *flag, *value;
	json_t *values, *who;

	json_object_foreach((json_t *)all, flag, values)
	{
		fputs("\n--", stdout);
		json_out_word(flag, 40);
		puts(" differs:");
		json_object_foreach(values, value, who)
		{
			size_t n = json_array_size(who);

			fputs("  ", stdout);
			json_out_word(value, width - 40);
			printf(" (%zu: ", n);
			json_out_word(json_string_value(json_array_get(who, 0)), 20);
			puts(n > 1 ? ", ...)" : ")");
		}
	}
}

void fleet_state_print(const json_t *state, int width)
{
	size_t i;
	json_t *problem;

	printf("%-20s %*s\n", member_text(state, "status"), width - 22, member_text(state, "at"));
	json_array_foreach(json_object_get(state, "problems"), i, problem) put_lines("!", json_string_value(problem));
	putchar('\n');
	print_servers(state);
	print_listeners(json_object_get(state, "listeners"));
	print_sources(json_object_get(state, "sources"));
	print_counts(state);
	print_differing(json_object_get(state, "differing_settings"), width);
}
