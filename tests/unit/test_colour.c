/* Colours of states: on a terminal only, and not where NO_COLOR or TERM forbids them. */
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands/colour.h"
#include "unit.h"

/* What a child prints whose standard output is a terminal, or a pipe, with these variables; NULL: not set. */
static const char *print_with(bool is_terminal, const char *no_color, const char *term)
{
	static char text[200];
	int ends[2];
	size_t len = 0;
	pid_t child;

	cr_assert_eq(is_terminal ? openpty(&ends[0], &ends[1], NULL, NULL, NULL) : pipe(ends), 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR");
		term ? setenv("TERM", term, 1) : unsetenv("TERM");
		dup2(ends[1], STDOUT_FILENO);
		colour_print(COLOUR_GREEN, 4, "ok");
		colour_print(COLOUR_YELLOW, 0, "degraded");
		colour_print(COLOUR_RED, 0, "down");
		fflush(stdout);
		_exit(0);
	}
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0;)
		len += (size_t)n;
	text[len] = '\0';
	close(ends[0]);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	return text;
}

#define PLAIN    "ok  degradeddown"
#define COLOURED "\033[32mok  \033[0m\033[33mdegraded\033[0m\033[31mdown\033[0m"

Test(colour, states_have_a_colour_on_a_terminal)
{
	cr_assert_str_eq(print_with(true, NULL, "xterm"), COLOURED);
	cr_assert_str_eq(print_with(true, "", NULL), COLOURED);
}

Test(colour, no_color_and_dumb_terminals_and_pipes_have_none)
{
	cr_assert_str_eq(print_with(true, "1", "xterm"), PLAIN);
	cr_assert_str_eq(print_with(true, NULL, "dumb"), PLAIN);
	cr_assert_str_eq(print_with(false, NULL, "xterm"), PLAIN);
}
