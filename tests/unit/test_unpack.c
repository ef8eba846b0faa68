/* How binary messages are inflated: each coding, and bytes that are not one whole message. */
#include "net/unpack.h"

#include "unit.h"
#include <zdict.h>
#include <zlib.h>
#include <zstd.h>

static const char message[] =
	"{\"id\":\"id-1\",\"text\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
#define LEN (sizeof message - 1)

static char packed[1 << 20];
static char dictionary[2][4096];
static size_t dictionary_len;

static int window_of(enum profile_binary coding)
{
	return coding == BINARY_GZIP ? 31 : coding == BINARY_ZLIB ? 15 : -15;
}

static size_t pack_at(size_t at, enum profile_binary coding, const void *bytes, size_t len)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
		      .avail_in = (uInt)len,
		      .next_out = (Bytef *)packed + at,
		      .avail_out = (uInt)(sizeof packed - at)};

	if (coding == BINARY_ZSTD)
		return at + ZSTD_compress(packed + at, sizeof packed - at, bytes, len, 3);
	cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, window_of(coding), 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return sizeof packed - z.avail_out;
}

/* Returns the reason; NULL if the result is `bytes`. The input has its exact size, so that ASan sees a step beyond. */
static const char *try(enum profile_binary coding, struct slice words, size_t in_len, size_t most, const void *bytes,
		       size_t len)
{
	struct unpack *u = unpack_new(coding, words);
	char *copy = memcpy(malloc(in_len ? in_len : 1), packed, in_len), *inflated = NULL;
	const char *why = NULL;

	for (int i = 0; i < 2; i++) { /* a message leaves nothing to the next */
		struct slice in = {copy, in_len};
		const char *first = why;

		why = unpack(u, &in, most, &inflated);
		cr_assert(!i || why == first);
		cr_assert(why ? in.at == copy && in.len == in_len : in.at == inflated && in.len == len);
		cr_assert(why || memcmp(in.at, bytes, len) == 0);
		free(inflated);
		inflated = NULL;
	}
	free(copy);
	unpack_free(u);
	return why;
}

static const struct slice no_dictionary;

#define EACH(coding) for (enum profile_binary coding = BINARY_GZIP; coding <= BINARY_ZSTD; coding++)

static void expect(const char *why, const char *part)
{
	cr_assert(why && strstr(why, part), "%s, not %s", why, part);
}

TestSuite(unpack, .timeout = 60);

Test(unpack, each_coding_is_inflated_up_to_the_limit)
{
	EACH(coding)
	{
		size_t n = pack_at(0, coding, message, LEN);

		cr_assert_null(try(coding, no_dictionary, n, LEN, message, LEN));
		cr_assert_null(try(coding, no_dictionary, n, 1 << 28, message, LEN));
		expect(try(coding, no_dictionary, n, LEN - 1, NULL, 0), "inflates to more bytes");
		n = pack_at(0, coding, "", 0);
		cr_assert_null(try(coding, no_dictionary, n, 64, "", 0));
	}
}

Test(unpack, a_bomb_ends_at_the_limit)
{
	size_t len = 200 << 20;
	char *zeros = calloc(1, len);

	EACH(coding)
	expect(try(coding, no_dictionary, pack_at(0, coding, zeros, len), 1 << 20, NULL, 0), "inflates to more bytes");
	free(zeros);
}

/* As a stream of unknown length has it. */
Test(unpack, a_zstd_frame_need_not_say_its_size)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_outBuffer out = {packed, sizeof packed, 0};
	ZSTD_inBuffer in = {message, LEN, 0}, none = {NULL, 0, 0};

	ZSTD_compressStream2(c, &out, &in, ZSTD_e_flush);
	cr_assert_eq(ZSTD_compressStream2(c, &out, &none, ZSTD_e_end), 0);
	ZSTD_freeCCtx(c);
	cr_assert_eq(ZSTD_getFrameContentSize(packed, out.pos), ZSTD_CONTENTSIZE_UNKNOWN);
	cr_assert_null(try(BINARY_ZSTD, no_dictionary, out.pos, LEN, message, LEN));
	expect(try(BINARY_ZSTD, no_dictionary, out.pos, LEN - 1, NULL, 0), "inflates to more bytes");
}

Test(unpack, a_message_that_is_cut_anywhere_is_refused)
{
	EACH(coding)
	{
		size_t n = pack_at(0, coding, message, LEN);

		for (size_t i = 0; i < n; i++)
			expect(try(coding, no_dictionary, i, 1 << 20, NULL, 0), "is cut off");
	}
}

Test(unpack, bytes_behind_the_end_are_refused)
{
	EACH(coding)
	{
		size_t n = pack_at(0, coding, message, LEN);

		packed[n] = 0;
		expect(try(coding, no_dictionary, n + 1, 1 << 20, NULL, 0), "has bytes after");
		n = pack_at(n, coding, message, LEN);
		expect(try(coding, no_dictionary, n, 1 << 20, NULL, 0), "has bytes after");
	}
}

Test(unpack, what_is_compressed_otherwise_or_damaged_is_refused)
{
	EACH(coding)
	{
		EACH(other)
		{
			size_t n = pack_at(0, coding, message, LEN);
			const char *why = coding == other ? NULL : try(other, no_dictionary, n, 1 << 20, NULL, 0);

			cr_assert(coding == other || why);
			if (coding != other && other != BINARY_DEFLATE) /* which has no mark of its own */
				expect(why, "is damaged, or not of the coding");
		}
		strcpy(packed, message);
		cr_assert_not_null(try(coding, no_dictionary, LEN, 1 << 20, NULL, 0));
	}
	for (size_t i = 0; i < 4; i++) { /* checksums */
		size_t n = pack_at(0, BINARY_GZIP, message, LEN);

		packed[n - 1 - i] ^= 1;
		expect(try(BINARY_GZIP, no_dictionary, n, 1 << 20, NULL, 0), "is damaged, or");
	}
}

/* A frame of a thing to be skipped, and one of zstd 0.7. */
Test(unpack, other_formats_that_libzstd_knows_are_refused)
{
	memcpy(packed, "\x50\x2a\x4d\x18\x00\x00\x00\x00", 8);
	expect(try(BINARY_ZSTD, no_dictionary, 8, 64, NULL, 0), "is damaged, or not of the coding");
	memcpy(packed, "\x27\xb5\x2f\xfd\x00\x00\x00\x00", 8);
	expect(try(BINARY_ZSTD, no_dictionary, 8, 64, NULL, 0), "is damaged, or not of the coding");
}

/* Trains two dictionaries. */
static struct slice train(int which)
{
	static char samples[64000];
	size_t sizes[500], at = 0;

	for (int i = 0; i < 500; i++) {
		sizes[i] =
			(size_t)snprintf(samples + at, 128, "{\"did\":\"did:plc:%d\",\"kind\":\"commit%d\",\"%x\":%d}",
					 i * 7919, which, i * 104729, i);
		at += sizes[i];
	}
	dictionary_len = ZDICT_trainFromBuffer(dictionary[which], sizeof dictionary[which], samples, sizes, 500);
	cr_assert(!ZDICT_isError(dictionary_len), "%s", ZDICT_getErrorName(dictionary_len));
	return (struct slice){dictionary[which], dictionary_len};
}

Test(unpack, zstd_takes_a_dictionary)
{
	struct slice right = train(0), wrong = train(1);
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t n = ZSTD_compress_usingDict(c, packed, sizeof packed, message, LEN, right.at, right.len, 3);

	ZSTD_freeCCtx(c);
	cr_assert_null(try(BINARY_ZSTD, right, n, LEN, message, LEN));
	expect(try(BINARY_ZSTD, wrong, n, LEN, NULL, 0), "needs another zstd dictionary");
	expect(try(BINARY_ZSTD, no_dictionary, n, LEN, NULL, 0), "needs another zstd dictionary");
	expect(try(BINARY_ZSTD, right, n - 1, LEN, NULL, 0), "is cut off");
	n = pack_at(0, BINARY_ZSTD, message, LEN); /* without it */
	cr_assert_null(try(BINARY_ZSTD, right, n, LEN, message, LEN));
	cr_assert_null(unpack_new(BINARY_ZSTD, (struct slice){right.at, 40}), "a damaged one");
}
