/* A process without memory ends with one line and status 1. tests/allocation shows it for every allocation of a
 * listener. */
#include "base/memory.h"

#include "unit.h"
#include <sys/wait.h>

#include "base/log.h"

/* Returns the output and the status of a process that asks for more memory than any library can give. */
static int end(void (*ask)(void), char *said, size_t size)
{
	int ends[2], status;

	cr_assert_eq(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		log_setup(LOG_ERROR, LOG_TEXT, "an instance");
		ask();
		_exit(0);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], said, size - 1);
	said[n > 0 ? n : 0] = '\0';
	cr_assert_eq(read(ends[0], said + (n > 0 ? n : 0), 1), 0, "a second line");
	close(ends[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

static void assert_end(void (*ask)(void), const char *line)
{
	char said[400];
	int status = end(ask, said, sizeof(said));

	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 1);
	cr_assert_not_null(strstr(said, line), "it says: %s", said);
}

static void ask_library(void)
{
	memory_given(NULL, "libpq");
}

static void ask_for_much(void)
{
	memory_exhausted(NULL, 1234567);
}

Test(memory, process_without_memory_leaves_with_one_line)
{
	assert_end(ask_library,
		   "level=error instance=\"an instance\" event=\"out of memory, exiting\" library=libpq\n");
	assert_end(ask_for_much, "event=\"out of memory, exiting\" bytes=1234567\n");
}

Test(memory, text_is_as_long_as_it_has_to_be)
{
	char *text = memory_printf("%0500d|%s", 7, "end");

	cr_assert_eq(strlen(text), 504);
	cr_assert_str_eq(text + 499, "7|end");
	free(text);
}
