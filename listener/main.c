/* main.c owns the command line: it finds the command and runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/dispatch.h"
#include "config/config.h"
#include "listen.h"
#include "base/libraries.h"
#include "base/memory.h"
#include "base/secret.h"

static const char usage[] = "usage: wsonce COMMAND [OPTIONS]\n"
			    "\n"
			    "Listens to WebSocket events with any number of identical processes and stores\n"
			    "every event in Postgres exactly once.\n"
			    "\n"
			    "commands:\n";

static const char usage_end[] = "\n"
				"  -V, --version          print the version\n"
				"  -h, --help             print this; wsonce help COMMAND has the details\n";

static void print_usage(FILE *out)
{
	fputs(usage, out);
	dispatch_list(out);
	fputs(usage_end, out);
}

static int run_word(int argc, char **argv)
{
	int status;

	if (strcmp(argv[0], "listen") == 0)
		listen_block_sighup(true);
	if (dispatch_run(argc, argv, &status) == 0)
		return status;
	if (*argv[0] == '-')
		dispatch_fail("\"%.80s\" is not a command: options follow the command; see wsonce --help", argv[0]);
	else
		dispatch_fail("unknown command \"%.80s\"%s (see wsonce --help)", argv[0], dispatch_ask_meant(argv[0]));
	return 2;
}

/* Runs `wsonce help COMMAND` as `wsonce COMMAND --help`. */
static int help_command(int argc, char **argv)
{
	static char help[] = "--help";

	for (int i = 0; i < argc - 2; i++)
		argv[i] = argv[i + 2];
	argv[argc - 2] = help;
	return run_word(argc - 1, argv);
}

/* If a standard stream is closed, the next file gets its number, and output could go to the socket of Postgres. So
 * opens /dev/null there, in a mode that makes every use fail, or / if a chroot has none. */
static void fill_streams(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0 && open("/", O_PATH) < 0)
			return;
}

/* Returns a copy of the command line, which is never freed, and overwrites secrets in the original. */
static char **take_words(int argc, char **argv)
{
	static char **words, *text;
	size_t size = 1;
	char *at;

	for (int i = 0; i < argc; i++)
		size += strlen(argv[i]) + 1;
	words = memory_calloc((size_t)argc + 1, sizeof(*words));
	at = text = memory_alloc(size);
	for (int i = 0; i < argc; i++) {
		words[i] = at;
		at = stpcpy(at, argv[i]) + 1;
	}
	config_hide(argc, argv);
	return words;
}

static int run(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (strcmp(command, "help") == 0 && argc > 2)
		return help_command(argc, argv);
	if (dispatch_is_help(command) || strcmp(command, "help") == 0) {
		print_usage(stdout);
		return 0;
	}
	if (strcmp(command, "--help=json") == 0) {
		dispatch_print_json();
		return 0;
	}
	if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
		printf("wsonce %s\n", WSONCE_VERSION);
		return 0;
	}
	if (*command)
		return run_word(argc - 1, argv + 1);
	print_usage(stderr);
	return 2;
}

int main(int argc, char **given)
{
	char **argv = take_words(argc, given);

	secret_protect_process();
	fill_streams();
	libraries_setup();
	return dispatch_end(run(argc, argv));
}
