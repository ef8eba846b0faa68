/* libraries.c makes libraries end the process when memory runs out. Otherwise libuv aborts, libwebsockets and OpenSSL
 * sometimes continue with half of what they need, and jansson leaves members out. libpq, libcurl and libmicrohttpd have
 * no hook: their callers use memory_given(). */
#include "base/libraries.h"

#include <hiredis/alloc.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <libwebsockets.h>
#include <openssl/crypto.h>
#include <uv.h>

#include "base/memory.h"

/* libwebsockets passes a size of 0 to free. */
static void *lws_reallocate(void *block, size_t size, const char *reason)
{
	(void)reason;
	if (size)
		return memory_realloc(block, size);
	free(block);
	return NULL;
}

static void *openssl_allocate(size_t size, const char *file, int line)
{
	(void)file, (void)line;
	return size ? memory_alloc(size) : NULL;
}

static void *openssl_reallocate(void *block, size_t size, const char *file, int line)
{
	(void)line;
	return lws_reallocate(block, size, file);
}

static void openssl_free(void *block, const char *file, int line)
{
	(void)file, (void)line;
	free(block);
}

/* hiredis 1.0 has a hook. 0.14 calls exported functions that abort, and the ones below replace them. For its buffers
 * 0.14 calls malloc() and reports most failures. */
#if HIREDIS_MAJOR >= 1
static void setup_hiredis(void)
{
	hiredisAllocFuncs functions = {memory_alloc, memory_calloc, memory_realloc, memory_strdup, free};

	hiredisSetAllocators(&functions);
}
#else
void *hi_malloc(size_t size)
{
	return memory_alloc(size);
}

char *hi_strdup(const char *str)
{
	return memory_strdup(str);
}

static void setup_hiredis(void)
{
}
#endif

void libraries_setup(void)
{
	setup_hiredis();
	uv_replace_allocator(memory_alloc, memory_realloc, memory_calloc, free);
	lws_set_allocator(lws_reallocate);
	json_set_alloc_funcs(memory_alloc, free);
	/* OpenSSL refuses this once it has allocated, which it does not do before main. */
	CRYPTO_set_mem_functions(openssl_allocate, openssl_reallocate, openssl_free);
}
