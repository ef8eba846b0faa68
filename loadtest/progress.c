/* progress.c owns the progress line. The programs decide when to show it, and what. */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool is_shown;

bool progress_is_seen(void)
{
	return isatty(STDERR_FILENO);
}

void progress_show(const char *format, ...)
{
	va_list args;

	if (!progress_is_seen())
		return;
	fputs("\r\033[K", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fflush(stderr);
	is_shown = true;
}

void progress_end(void)
{
	if (is_shown)
		fputs("\r\033[K", stderr);
	is_shown = false;
}
