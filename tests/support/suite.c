/* What tests/support/run prepared, and this test's own directory. Servers are started elsewhere. */
#include "suite.h"

#include "support.h"
#include <criterion/hooks.h>
#include <ftw.h>

/* Options for AddressSanitizer, if the tests are built with it. A failed test leaves its memory allocated, and a list
 * of leaks would hide the reason. The programs under test look for leaks as usual. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* Criterion reports success if no test matches the filter. */
ReportHook(POST_ALL)(struct criterion_global_stats *all)
{
	if (all->tests_passed || all->tests_failed || all->tests_crashed)
		return;
	fprintf(stderr, "no test has run: give a --filter that fits a test\n");
	_exit(1);
}

const char *suite_env(const char *name)
{
	const char *value = getenv(name);

	if (!value || !*value)
		cr_assert_fail("%s is not set: start the tests by tests/support/run TESTBINARY", name);
	return value;
}

static void write_name(const char *directory);

const char *suite_directory(void)
{
	static char path[200];

	if (path[0])
		return path;
	snprintf(path, sizeof path, "%s/test-XXXXXX", suite_env("WSONCE_TEST_DIR"));
	if (!mkdtemp(path))
		cr_assert_fail("cannot make the directory %s: %s", path, strerror(errno));
	chmod(path, 0755); /* servers that run as another user must pass through */
	write_name(path);
	return path;
}

char *suite_vtext(const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		cr_assert_fail("out of memory");
	return text;
}

char *suite_text(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *text = suite_vtext(fmt, args);
	va_end(args);
	return text;
}

char *suite_path(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *name = suite_vtext(fmt, args);
	va_end(args);
	return suite_text("%s/%s", suite_directory(), name);
}

char *suite_file(const char *name, const char *text)
{
	char *path = suite_path("%s", name);
	FILE *file = fopen(path, "we");

	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		cr_assert_fail("cannot write %s: %s", path, strerror(errno));
	return path;
}

char *suite_read(const char *path)
{
	char *text = calloc(1, 65537);
	FILE *file = fopen(path, "re");

	cr_assert_not_null(file, "%s cannot be read", path);
	for (size_t n = fread(text, 1, 65536, file); n--;)
		text[n] = (char)(text[n] ? text[n] : ' ');
	fclose(file);
	return text;
}

int suite_number(void)
{
	static int last;

	return ++last;
}

/* A function to call at the end. */
struct ending {
	void (*end)(void *thing);
	void *thing;
	struct ending *before;
};

static struct ending *endings;

static void end_all(void)
{
	for (; endings; endings = endings->before)
		endings->end(endings->thing);
}

void suite_at_end(void (*end)(void *thing), void *thing)
{
	struct ending *ending = malloc(sizeof *ending);

	if (!endings)
		atexit(end_all);
	*ending = (struct ending){end, thing, endings};
	endings = ending;
}

static void remove_name(void *path)
{
	remove(path);
	free(path);
}

/* tests/support/run prints the names of tests that run if it is ended. This is the first ending, so it comes last. */
static void write_name(const char *directory)
{
	char *path = suite_text("%s/name", directory);
	FILE *file = fopen(path, "we");

	if (!file)
		cr_assert_fail("cannot write %s: %s", path, strerror(errno));
	fprintf(file, "%s/%s\n", criterion_current_test->category, criterion_current_test->name);
	fclose(file);
	suite_at_end(remove_name, path);
}

static int on_entry(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
	remove(path);
	return 0;
}

void suite_remove(const char *path)
{
	nftw(path, on_entry, 16, FTW_DEPTH | FTW_PHYS);
}
