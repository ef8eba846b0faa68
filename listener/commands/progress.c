/* progress.c owns the one line on the terminal that changes. */
#include "commands/progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define EVERY_MS 200

static bool is_shown;
static int64_t last_ms;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void progress_show(const char *format, ...)
{
	va_list ap;

	if (now_ms() - last_ms < EVERY_MS || !isatty(STDERR_FILENO))
		return;
	last_ms = now_ms();
	is_shown = true;
	fputs("\r\033[K", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fflush(stderr);
}

void progress_clear(void)
{
	if (is_shown)
		fputs("\r\033[K", stderr);
	is_shown = false;
	last_ms = 0;
}
