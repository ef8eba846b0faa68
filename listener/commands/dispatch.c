/* dispatch.c finds the command in a command line, prints its help, and runs it with its options and settings. Each
 * command has a file of its own in this folder. */
#include "commands/dispatch.h"

#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/secret.h"
#include "commands/progress.h"
#include "commands/session.h"
#include "commands/table.h"
#include "base/text.h"
#include "help.h"

/* Where the command on this thread prints. NULL: standard output and standard error. */
static _Thread_local FILE *command_out, *command_errors;
static _Thread_local char last_failure[600];
static _Thread_local bool is_hushed;

/* Replaces characters that a terminal would act on with blanks. */
static void calm(char *text)
{
	if (!is_utf8(text, strlen(text)))
		make_ascii(text);
	text_replace_controls(text, ' ');
}

FILE *dispatch_out(void)
{
	return command_out ? command_out : stdout;
}

int dispatch_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(last_failure, sizeof(last_failure), format, ap);
	va_end(ap);
	calm(last_failure);
	secret_mask_logins(last_failure);
	progress_clear();
	if (!is_hushed)
		fprintf(command_errors ? command_errors : stderr, "wsonce: %s\n", last_failure);
	return STATUS_FAILED;
}

void dispatch_hush(bool is_quiet)
{
	is_hushed = is_quiet;
}

const char *dispatch_failure(void)
{
	return last_failure;
}

/* Returns how many words of argv are the command's name; 0 if it is another. */
static int match(const struct subcommand *c, int argc, char **argv)
{
	size_t n = strcspn(c->name, " ");

	if (strlen(argv[0]) != n || strncmp(c->name, argv[0], n) != 0)
		return 0;
	if (!c->name[n])
		return 1;
	return argc > 1 && strcmp(c->name + n + 1, argv[1]) == 0 ? 2 : 0;
}

/* Finds the command in argv[0] and argv[1], and sets *n to the number of its words. NULL: there is none. */
static const struct subcommand *find_command(int argc, char **argv, int *n)
{
	for (size_t i = 0; i < command_count; i++)
		if ((*n = match(&command_table[i], argc, argv)))
			return &command_table[i];
	return NULL;
}

static bool is_of_family(const char *name, const char *family)
{
	size_t n = strlen(family);

	return strncmp(name, family, n) == 0 && name[n] == ' ';
}

static bool is_family(const char *word)
{
	for (size_t i = 0; i < command_count; i++)
		if (is_of_family(command_table[i].name, word))
			return true;
	return false;
}

/* A command's section of help.txt, which begins with "# " and its name. */
struct help {
	char *summary; /* one line; the other parts follow it on the heap */
	char *text;
	char *examples; /* lines */
};

/* Ends text at the mark and returns what follows. */
static char *cut(char *text, const char *mark)
{
	char *at = strstr(text, mark);

	*at = '\0';
	return at + strlen(mark);
}

static struct help find_help(const char *name)
{
	AUTO_FREE char *head = memory_printf("# %s\n", name);
	const char *at = strstr(TEXT_HELP, head) + strlen(head), *end = strstr(at, "\n\n# ");
	struct help h = {.summary = memory_strndup(at, end ? (size_t)(end - at) : strlen(at) - 1)};

	h.text = cut(h.summary, "\n\n");
	h.examples = cut(h.text, "\n\n\t");
	for (char *line = h.text; (line = strchr(line, '\n'));)
		*line = ' ';
	return h;
}

static const char *next_example(struct help *h)
{
	const char *line = strsep(&h->examples, "\n");

	return line && *line == '\t' ? line + 1 : line;
}

static void print_entry(FILE *out, const char *name)
{
	struct help h = find_help(name);
	char head[40];

	snprintf(head, sizeof(head), "  %s", name);
	text_wrap(out, head, 25, h.summary);
	free(h.summary);
}

/* If family is "", lists all commands. */
static void list_matching(FILE *out, const char *family)
{
	for (size_t i = 0; i < command_count; i++)
		if (!*family || is_of_family(command_table[i].name, family))
			print_entry(out, command_table[i].name);
}

void dispatch_list(FILE *out)
{
	list_matching(out, "");
}

static const char *settings_of(const struct subcommand *c)
{
	return c->settings && strcmp(c->settings, SETTINGS_OF_LISTEN) == 0 ? NULL : c->settings;
}

/* The command under whose name config.c reads its settings. */
static const char *name_for_settings(const struct subcommand *c)
{
	return settings_of(c) == c->settings ? c->name : "listen";
}

static void print_help(const struct subcommand *c, bool is_all)
{
	static const char common[] =
		"source feed readers ingest ingest-http ingest-token-file redis store postgres admin dedup-window "
		"max-message id-pointer type-pointer payload-pointer time-pointer handler consumer config";
	bool is_short = !settings_of(c) && !is_all;
	const char *settings = is_short ? common : settings_of(c);
	bool has_settings = !settings || *settings;
	struct given ignored;
	struct setting own[TABLE_OPTIONS_MAX];
	size_t count = table_options(c, own, &ignored);
	struct help h = find_help(c->name);
	const char *example;

	printf("usage: wsonce %s%s%s%s\n\n", c->name, *c->arguments ? " " : "", c->arguments,
	       count || has_settings ? " [OPTIONS]" : "");
	text_wrap(stdout, "", 0, h.text);
	if (count)
		printf("\nOptions:\n");
	for (size_t i = 0; i < count; i++) {
		char head[80];

		snprintf(head, sizeof(head), "  --%s%s%s", own[i].flag, *own[i].value ? " " : "", own[i].value);
		text_wrap(stdout, head, 28, own[i].meaning);
	}
	if (has_settings)
		printf("\nSettings, from flags, the environment or the file of --config:\n");
	config_help(stdout, name_for_settings(c), settings);
	printf("\nExamples:\n");
	while ((example = next_example(&h)))
		printf("  %s\n", example);
	free(h.summary);
	if (is_short)
		printf("\nAll settings: wsonce %s --help=all, or docs/settings.md.\n", c->name);
}

static json_t *describe(const struct subcommand *c)
{
	json_t *flags = json_array(), *examples = json_array(), *all;
	struct help h = find_help(c->name);
	struct given ignored;
	struct setting own[TABLE_OPTIONS_MAX];
	const char *example;

	for (size_t i = 0, n = table_options(c, own, &ignored); i < n; i++)
		json_array_append_new(flags, json_pack("{ss ss ss}", "flag", own[i].flag, "value", own[i].value,
						       "meaning", own[i].meaning));
	config_describe(name_for_settings(c), settings_of(c), flags);
	while ((example = next_example(&h)))
		json_array_append_new(examples, json_string(example));
	all = json_pack("{ss ss ss ss so so}", "name", c->name, "arguments", c->arguments, "summary", h.summary, "help",
			h.text, "flags", flags, "examples", examples);
	free(h.summary);
	return all;
}

void dispatch_print_json(void)
{
	json_auto_t *all = json_array();

	for (size_t i = 0; i < command_count; i++)
		json_array_append_new(all, describe(&command_table[i]));
	json_dumpf(all, stdout, JSON_INDENT(1));
}

bool dispatch_is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Suggests an action of a family, or of the commands' first words if family is "". */
static const char *ask_meant(const char *family, const char *word)
{
	static char text[100];
	char names[command_count][32];
	size_t len = strlen(family);
	struct nearest n;

	nearest_init(&n, word, strlen(word));
	for (size_t i = 0; i < command_count; i++) {
		const char *name = command_table[i].name;

		if (len && !is_of_family(name, family))
			continue;
		name += len ? len + 1 : 0;
		snprintf(names[i], sizeof(names[i]), "%.*s", (int)strcspn(name, " "), name);
		nearest_offer(&n, names[i]);
	}
	return nearest_ask(&n, "", text, sizeof(text));
}

const char *dispatch_ask_meant(const char *word)
{
	return ask_meant("", word);
}

static int refuse_family(const char *family)
{
	char all[100] = "";

	for (size_t i = 0; i < command_count; i++)
		if (is_of_family(command_table[i].name, family))
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *all ? ", " : "",
				 command_table[i].name + strlen(family) + 1);
	return dispatch_refuse("%s needs an action: %s; see wsonce %s --help", family, all, family);
}

static int run_family(int argc, char **argv)
{
	if (argc > 1 && dispatch_is_help(argv[1])) {
		printf("usage: wsonce %s ACTION [OPTIONS]\n\n", argv[0]);
		list_matching(stdout, argv[0]);
		printf("\nwsonce %s ACTION --help has the details.\n", argv[0]);
		return STATUS_FINE;
	}
	if (argc == 1)
		return refuse_family(argv[0]);
	return dispatch_refuse("unknown action \"%.80s\" of %s%s (see wsonce %s --help)", argv[1], argv[0],
			       ask_meant(argv[0], argv[1]), argv[0]);
}

static bool takes(const struct subcommand *c, int count)
{
	int expected = *c->arguments != '\0';

	for (const char *at = c->arguments; *at; at++)
		expected += *at == ' ';
	return *c->arguments == '[' || count == expected;
}

/* Reads options, words, and settings if config is not NULL. Returns -1 with a sentence in error if they are wrong. */
static int read_words(const struct subcommand *c, struct config *config, struct invocation *in, struct given *given,
		      char *error, size_t size)
{
	struct setting table[TABLE_OPTIONS_MAX];
	struct config_own own = {c->name, table, table_options(c, table, given), given, in->words, -1};
	int failed = config_read(config, &own, in->argc, in->argv, error, size), count = own.word_count;

	if (count < 0)
		return -1;
	in->word_count = count;
	for (int i = 0; i < count; i++)
		if (!*in->words[i]) {
			snprintf(error, size, "argument %d is empty; is a shell variable not set?", i + 1);
			return -1;
		}
	if (takes(c, count))
		return failed;
	if (*c->arguments)
		snprintf(error, size, "%s takes %s; see wsonce %s --help", c->name, c->arguments, c->name);
	else
		snprintf(error, size, "%s takes no arguments, but there is \"%.80s\"; see wsonce %s --help", c->name,
			 in->words[0], c->name);
	return -1;
}

/* A closed pipe (`head`) is not an error. */
static bool has_reader(void)
{
	struct pollfd out = {STDOUT_FILENO, 0, 0};

	return poll(&out, 1, 0) <= 0 || !(out.revents & POLLERR);
}

int dispatch_end(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	return has_reader() ? dispatch_fail("cannot write to standard output") : STATUS_FAILED;
}

static int run_with_session(const struct subcommand *c, struct invocation *in)
{
	int status = STATUS_FAILED;

	in->session = c->session ? session_open(in->config, c->session) : NULL;
	if (!c->session || in->session)
		status = c->run(in);
	session_close(in->session);
	return status;
}

/* Returns NULL or one sentence. */
static const char *check(const struct subcommand *c, const struct invocation *in)
{
	const struct given *o = in->options;

	if (o->since_us && o->until_us && o->since_us >= o->until_us)
		return "--since must be before --until; an age such as 7d is a time before now";
	return c->check ? c->check(in) : NULL;
}

static void tell_unknown(void *arg, const char *variable, const char *meant)
{
	(void)arg;
	if (*meant)
		dispatch_fail("%s is not a setting%s", variable, meant);
}

/* A misspelled variable may be why the settings are wrong. If they are read, listen, check and config lint name such
 * variables themselves. */
static void tell_misspelled(const struct subcommand *c, const struct config *config, bool is_read)
{
	if (!is_read || (c->run != listen_command && c->run != check_command && c->run != config_lint))
		config_each_unknown(config, tell_unknown, NULL);
}

/* argv[0] is the last word of the command's name. given: the settings; NULL: they are in argv, too. */
static int run_command(const struct subcommand *c, const struct config *given, int argc, char **argv)
{
	AUTO_FREE char **words = memory_calloc((size_t)argc, sizeof(*words));
	struct given options = GIVEN_DEFAULTS;
	struct config own = {.file = NULL};
	struct invocation in = {.config = given ? given : &own,
				.own = &own,
				.name = c->name,
				.options = &options,
				.argc = argc,
				.argv = argv,
				.words = words};
	char error[400];
	const char *what = error;
	bool is_read;
	int status;

	argv[0] = (char *)name_for_settings(c);
	is_read = !read_words(c, given ? NULL : &own, &in, &options, error, sizeof(error));
	if (!given)
		tell_misspelled(c, &own, is_read);
	if (is_read) {
		if (!given)
			config_start_log(&own);
		what = check(c, &in);
	}
	status = what ? dispatch_refuse("%s", what) : run_with_session(c, &in);
	config_free(&own);
	return status;
}

int dispatch_call(const struct config *config, int argc, char **argv, FILE *out, FILE *errors)
{
	int n, status;
	const struct subcommand *c = find_command(argc, argv, &n);

	command_out = out;
	command_errors = errors;
	status = c ? run_command(c, config, argc - n + 1, argv + n - 1) : dispatch_refuse("there is no such command");
	command_out = command_errors = NULL;
	return status;
}

/* Returns the first argument that asks for help, or NULL. */
static const char *find_wish(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (dispatch_is_help(argv[i]) || strcmp(argv[i], "--help=all") == 0)
			return argv[i];
	return NULL;
}

int dispatch_run(int argc, char **argv, int *status)
{
	const char *wish = find_wish(argc, argv);
	int n;
	const struct subcommand *c = find_command(argc, argv, &n);

	if (c && wish) {
		print_help(c, !dispatch_is_help(wish));
		*status = STATUS_FINE;
	} else if (c) {
		signal(SIGPIPE, SIG_IGN); /* a server that goes away does not end the command */
		*status = run_command(c, NULL, argc - n + 1, argv + n - 1);
	} else if (is_family(argv[0])) {
		*status = run_family(argc, argv);
	} else {
		return -1;
	}
	return 0;
}
