/* progress.c owns the progress line on the terminal. */
#include "commands/progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "commands/dispatch.h"

#define EVERY_MS 200

static bool is_shown;
static int64_t last_ms;

void progress_show(const char *format, ...)
{
	va_list ap;

	if (dispatch_out() != stdout || clock_ms(CLOCK_MONOTONIC_COARSE) - last_ms < EVERY_MS || !isatty(STDERR_FILENO))
		return;
	last_ms = clock_ms(CLOCK_MONOTONIC_COARSE);
	is_shown = true;
	fputs("\r\033[K", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fflush(stderr);
}

void progress_clear(void)
{
	if (dispatch_out() != stdout)
		return;
	if (is_shown)
		fputs("\r\033[K", stderr);
	is_shown = false;
	last_ms = 0;
}
