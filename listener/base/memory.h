/* memory.h: memory for this process, or its end.
 *
 * There is one answer to exhausted memory: the process leaves with status 1 and one line. Nothing is lost by that which
 * a kill would not lose as well: other listeners hold their copies, claims expire, and what was not acked is sent
 * again. So nothing here returns NULL. Whoever passes on a size from outside has checked it against a limit before:
 * one message must not be able to end a listener. */
#ifndef WSONCE_MEMORY_H
#define WSONCE_MEMORY_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Ends the process. library: who asked, NULL for our own code. size: bytes, 0 where that is not known. */
_Noreturn void memory_exhausted(const char *library, size_t size) __attribute__((cold));

/* What a library gave, where NULL can only mean that memory is out. */
static inline void *memory_given(void *block, const char *library)
{
	if (!block)
		memory_exhausted(library, 0);
	return block;
}

/* What uthash asks for. */
#define uthash_malloc(size) memory_alloc(size)

/* As the functions of C's library, and freed by free(). No size is 0. */
static inline void *memory_alloc(size_t size)
{
	void *block = malloc(size);

	if (!block)
		memory_exhausted(NULL, size);
	return block;
}

static inline void *memory_calloc(size_t count, size_t size)
{
	void *block = calloc(count, size);

	if (!block)
		memory_exhausted(NULL, count * size);
	return block;
}

static inline void *memory_realloc(void *old, size_t size)
{
	void *block = realloc(old, size);

	if (!block)
		memory_exhausted(NULL, size);
	return block;
}

static inline char *memory_strdup(const char *text)
{
	return memory_given(strdup(text), NULL);
}

static inline char *memory_strndup(const char *text, size_t len)
{
	return memory_given(strndup(text, len), NULL);
}

/* As asprintf. */
char *memory_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
