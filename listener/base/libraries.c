/* libraries.c makes libraries end the process when memory runs out. Otherwise libuv aborts, libwebsockets and OpenSSL
 * sometimes go on with half of what they need, and jansson leaves members out. libpq, libcurl and libmicrohttpd have no
 * hook: their callers use memory_given(). */
#include "base/libraries.h"

#include <hiredis/alloc.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <libwebsockets.h>
#include <openssl/crypto.h>
#include <uv.h>

#include "base/memory.h"

static void *check(void *block, size_t size, const char *library)
{
	if (!block && size)
		memory_exhausted(library, size);
	return block;
}

static void *uv_allocate(size_t size)
{
	return check(malloc(size), size, "libuv");
}

static void *uv_reallocate(void *block, size_t size)
{
	return check(realloc(block, size), size, "libuv");
}

static void *uv_clear_allocate(size_t count, size_t size)
{
	return check(calloc(count, size), count * size, "libuv");
}

/* libwebsockets passes a size of 0 to free. */
static void *lws_reallocate(void *block, size_t size, const char *reason)
{
	(void)reason;
	if (size)
		return check(realloc(block, size), size, "libwebsockets");
	free(block);
	return NULL;
}

static void *jansson_allocate(size_t size)
{
	return check(malloc(size), size, "jansson");
}

static void *openssl_allocate(size_t size, const char *file, int line)
{
	(void)file, (void)line;
	return size ? check(malloc(size), size, "OpenSSL") : NULL;
}

static void openssl_free(void *block, const char *file, int line)
{
	(void)file, (void)line;
	free(block);
}

static void *openssl_reallocate(void *block, size_t size, const char *file, int line)
{
	if (size)
		return check(realloc(block, size), size, "OpenSSL");
	openssl_free(block, file, line);
	return NULL;
}

/* hiredis 1.0 has a hook. 0.14 calls exported functions that abort, and the ones below replace them. For its buffers
 * 0.14 calls malloc() and reports most failures. */
#if HIREDIS_MAJOR >= 1
static void *hiredis_allocate(size_t size)
{
	return check(malloc(size), size, "hiredis");
}

static void *hiredis_clear_allocate(size_t count, size_t size)
{
	return check(calloc(count, size), count * size, "hiredis");
}

static void *hiredis_reallocate(void *block, size_t size)
{
	return check(realloc(block, size), size, "hiredis");
}

static char *hiredis_copy(const char *text)
{
	return check(strdup(text), strlen(text) + 1, "hiredis");
}

static void setup_hiredis(void)
{
	hiredisAllocFuncs functions = {hiredis_allocate, hiredis_clear_allocate, hiredis_reallocate, hiredis_copy,
				       free};

	hiredisSetAllocators(&functions);
}
#else
void *hi_malloc(size_t size)
{
	return check(malloc(size), size, "hiredis");
}

char *hi_strdup(const char *str)
{
	return check(strdup(str), strlen(str) + 1, "hiredis");
}

static void setup_hiredis(void)
{
}
#endif

void libraries_setup(void)
{
	setup_hiredis();
	uv_replace_allocator(uv_allocate, uv_reallocate, uv_clear_allocate, free);
	lws_set_allocator(lws_reallocate);
	json_set_alloc_funcs(jansson_allocate, free);
	/* OpenSSL refuses this once it has allocated, which it does not do before main. */
	CRYPTO_set_mem_functions(openssl_allocate, openssl_reallocate, openssl_free);
}
