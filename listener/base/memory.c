/* memory.c ends the process when memory runs out. libraries.c calls it for libraries. */
#include "base/memory.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"

/* Not exit(): its handlers may need memory. */
void memory_exhausted(const char *library, size_t size)
{
	log_error("out of memory, exiting", size ? "library=%s bytes=%zu" : "library=%s", library, size);
	_exit(1);
}

char *memory_printf(const char *format, ...)
{
	va_list args, again;
	char *text;
	int n;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	assert(n >= 0);
	text = memory_alloc((size_t)n + 1);
	vsnprintf(text, (size_t)n + 1, format, again);
	va_end(again);
	va_end(args);
	return text;
}
