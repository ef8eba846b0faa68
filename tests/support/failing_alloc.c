/* The functions that ld puts in place of the C library's. */
#include "failing_alloc.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
int __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static unsigned long count, wanted;

static bool must_fail(void)
{
	return ++count == wanted;
}

void failing_alloc_start(unsigned long n)
{
	count = 0;
	wanted = n;
}

unsigned long failing_alloc_stop(void)
{
	wanted = 0;
	return count;
}

unsigned long failing_alloc_sweep(bool (*run)(void))
{
	unsigned long needed = 0;

	for (unsigned long n = 1;; n++) {
		bool worked;

		failing_alloc_start(n);
		worked = run();
		needed = failing_alloc_stop();
		if (needed < n) {
			cr_assert(worked, "it fails though no allocation does");
			return needed;
		}
		cr_assert(run(), "after allocation %lu has failed, it does not work again", n);
	}
}

void *__wrap_malloc(size_t size)
{
	return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return must_fail() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *block, size_t size)
{
	return must_fail() ? NULL : __real_realloc(block, size);
}

char *__wrap_strdup(const char *text)
{
	return must_fail() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
	return must_fail() ? NULL : __real_strndup(text, len);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
	va_list args;
	int n = -1;

	va_start(args, fmt);
	if (!must_fail())
		n = vasprintf(out, fmt, args);
	va_end(args);
	return n;
}

/* What asprintf is called where sources are fortified. */
int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...)
{
	va_list args;
	int n = -1;

	(void)flag;
	va_start(args, fmt);
	if (!must_fail())
		n = vasprintf(out, fmt, args);
	va_end(args);
	return n;
}
