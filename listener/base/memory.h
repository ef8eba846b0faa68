/* memory.h: allocation that ends the process when memory runs out.
 *
 * The process then logs one line and exits with status 1. This loses nothing that a kill would not lose too: other
 * listeners hold their copies, claims expire, and what was not acked is sent again. So no function here returns NULL.
 * Callers check a size from outside against a limit first: one message must not be able to end a listener. */
#ifndef WSONCE_MEMORY_H
#define WSONCE_MEMORY_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Ends the process. library is the one that needed the memory; NULL: our own code. size is in bytes, 0 if unknown. */
_Noreturn void memory_exhausted(const char *library, size_t size) __attribute__((cold));

/* Returns what a library allocated. Only for calls where NULL means that memory ran out. */
static inline void *memory_given(void *block, const char *library)
{
	if (!block)
		memory_exhausted(library, 0);
	return block;
}

/* uthash's allocator. */
#define uthash_malloc(size) memory_alloc(size)

/* Like the functions of the C library. Free the result with free(3). No size may be 0. */
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

/* Frees what a local variable points to, at the end of its block. The variable must be set where it is declared. */
#define AUTO_FREE __attribute__((cleanup(memory_free_at)))

static inline void memory_free_at(void *variable)
{
	free(*(void **)variable);
}

/* Like asprintf(3), but returns the text. */
char *memory_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
