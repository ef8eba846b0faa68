/* unpack.c inflates the binary messages of feeds and the bodies of producers, with zlib and libzstd. A message is one
 * member (RFC 1952), stream (RFC 1950, RFC 1951) or frame (RFC 8878), and nothing else. */
#include "net/unpack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/memory.h"

static const char is_other[] = "the compressed message is damaged, or not of the coding that its header, or the "
			       "profile's binary, names",
		  is_cut[] = "the compressed message is cut off",
		  has_more[] = "the compressed message has bytes after its end",
		  needs_other[] = "the compressed message needs another zstd dictionary than the profile names";
const char unpack_is_bomb[] =
	"the compressed message inflates to more bytes than --max-message, or the profile's max_message_bytes, allows";

struct unpack {
	z_stream zlib;
	ZSTD_DCtx *zstd;        /* NULL: zlib */
	ZSTD_DDict *dictionary; /* NULL: none */
};

struct unpack *unpack_new(enum profile_binary coding, struct slice dictionary)
{
	static const int windows[] = {[BINARY_GZIP] = MAX_WBITS + 16, MAX_WBITS, [BINARY_DEFLATE] = -MAX_WBITS};
	struct unpack *u = memory_calloc(1, sizeof(*u));

	if (coding == BINARY_ZSTD)
		u->zstd = memory_given(ZSTD_createDCtx(), "libzstd");
	else if (inflateInit2(&u->zlib, windows[coding]) != Z_OK)
		memory_exhausted("zlib", 0);
	u->dictionary = dictionary.at ? ZSTD_createDDict(dictionary.at, dictionary.len) : NULL;
	if (u->dictionary || !dictionary.at)
		return u;
	unpack_free(u);
	return NULL;
}

void unpack_free(struct unpack *u)
{
	if (!u)
		return;
	inflateEnd(&u->zlib);
	ZSTD_freeDCtx(u->zstd);
	ZSTD_freeDDict(u->dictionary);
	free(u);
}

static const char *inflate_zlib(z_stream *z, struct slice in, char *room, size_t most, size_t *len)
{
	int result;

	inflateReset(z);
	z->next_in = (Bytef *)(uintptr_t)in.at;
	z->avail_in = (uInt)in.len;
	z->next_out = (Bytef *)room;
	z->avail_out = (uInt)most;
	result = inflate(z, Z_FINISH);
	*len = most - z->avail_out;
	if (result == Z_MEM_ERROR)
		memory_exhausted("zlib", 0);
	if (result == Z_STREAM_END)
		return z->avail_in ? has_more : NULL;
	return result != Z_BUF_ERROR ? is_other : z->avail_out ? is_cut : unpack_is_bomb;
}

/* The magic number is checked here, since libzstd also takes old formats and frames to be skipped. */
static const char *inflate_zstd(const struct unpack *u, struct slice in, char *room, size_t most, size_t *len)
{
	*len = ZSTD_findFrameCompressedSize(in.at, in.len);
	if (in.len >= 4 && memcmp(in.at, "\x28\xb5\x2f\xfd", 4) != 0)
		return is_other;
	if (*len < in.len)
		return has_more;
	if (!ZSTD_isError(*len))
		*len = ZSTD_decompress_usingDDict(u->zstd, room, most, in.at, in.len, u->dictionary);
	switch (ZSTD_getErrorCode(*len)) {
	case ZSTD_error_no_error:
		return NULL;
	case ZSTD_error_memory_allocation:
		memory_exhausted("libzstd", 0);
	case ZSTD_error_srcSize_wrong:
		return is_cut;
	case ZSTD_error_dstSize_tooSmall:
		return unpack_is_bomb;
	case ZSTD_error_dictionary_wrong:
		return needs_other;
	default:
		return is_other;
	}
}

const char *unpack(struct unpack *u, struct slice *message, size_t most, char **inflated)
{
	char *room = *inflated = memory_alloc(most);
	size_t len;
	const char *why = u->zstd ? inflate_zstd(u, *message, room, most, &len)
				  : inflate_zlib(&u->zlib, *message, room, most, &len);

	if (!why)
		*message = (struct slice){room, len};
	return why;
}
