/* How a command prints errors on a terminal. */
#include "commands/dispatch.h"

#include "unit.h"
#include <pty.h>
#include "commands/progress.h"

static char text[1000]; /* output on the terminal */
static int terminal, kept_stderr;

static void init(void)
{
	int slave;

	cr_assert_eq(openpty(&terminal, &slave, NULL, NULL, NULL), 0);
	kept_stderr = dup(STDERR_FILENO);
	dup2(slave, STDERR_FILENO);
	close(slave);
}

static void end_capture(void)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && !memchr(text, '\n', len)) {
		n = read(terminal, text + len, sizeof(text) - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	dup2(kept_stderr, STDERR_FILENO);
}

TestSuite(dispatch, .init = init, .timeout = 60);

Test(dispatch, a_failure_takes_the_place_of_the_progress)
{
	progress_show("50 %%");
	dispatch_fail("no");
	end_capture();
	cr_assert_str_eq(text, "\r\033[K50 %\r\033[Kwsonce: no\r\n");
}

Test(dispatch, a_failure_is_one_line_that_does_a_terminal_no_harm)
{
	dispatch_fail("%s", "a\nb\033[2Jc\x7f\xc2\x9b\x32J \xc3\xa4\xe2\x82\xac");
	end_capture();
	cr_assert_str_eq(text, "wsonce: a b [2Jc   2J \xc3\xa4\xe2\x82\xac\r\n");
}

Test(dispatch, of_what_is_no_utf8_a_failure_shows_the_ascii)
{
	dispatch_fail("%s", "a\x9b\x32J\xc2");
	end_capture();
	cr_assert_str_eq(text, "wsonce: a?2J?\r\n");
}

static void expect_refused(char *argv[], const char *expected)
{
	char *said = NULL;
	size_t len;
	FILE *errors = open_memstream(&said, &len);
	int argc = 0;

	while (argv[argc])
		argc++;
	cr_assert_eq(dispatch_call(&(struct config){.file = NULL}, argc, argv, stdout, errors), STATUS_USAGE);
	fclose(errors);
	cr_assert_str_eq(said, expected);
	free(said);
}

Test(dispatch, arguments_that_are_empty_or_too_many_are_refused)
{
	expect_refused((char *[]){"explain", "", NULL}, "wsonce: argument 1 is empty; is a shell variable not set?\n");
	expect_refused((char *[]){"dead-letters", "discard", "7", "", NULL},
		       "wsonce: argument 2 is empty; is a shell variable not set?\n");
	expect_refused((char *[]){"explain", "a", "b", NULL},
		       "wsonce: explain takes EVENT_ID; see wsonce explain --help\n");
}
