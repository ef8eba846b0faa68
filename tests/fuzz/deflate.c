/* Messages of a feed that compresses (RFC 7692). An input is a byte of terms, a byte that cuts, and:
 *
 *   packed: messages as they come, each a length byte and that many bytes; the sender may break every rule
 *   plain:  messages of the same form, which zlib compresses here as an honest sender would
 *
 * What must be true: however a message is cut, the same bytes and the same verdict come out; an honest message comes
 * out unchanged, whatever window and memory the sender has and whether it keeps its context; all parts except the last
 * are not empty, each whole message has one last part, and none follows a refusal; a reader with a limit gets at most
 * one part more, however large the message would be.
 *
 * The bytes after the first two are also read as a binary message of each coding (net/unpack.c), and as one that is
 * packed here, which comes out unchanged or is longer than allowed. */
#include <zlib.h>
#include <zstd.h>

#include "fuzz.h"
#include "net/deflate.h"
#include "net/unpack.h"

#define MOST     (1 << 20) /* limit of a message in bytes */
#define PART     (1 << 17) /* limit of a part in bytes */
#define MESSAGES 64

struct taken {
	char *text;
	size_t len, ends;
};

static int on_part(void *arg, const char *bytes, size_t len, bool is_last)
{
	struct taken *t = arg;

	must(!t->ends, "a part behind the last one");
	must(len || is_last, "an empty part, and not the last one");
	must(len <= PART, "a part of %zu bytes", len);
	t->ends += is_last;
	if (t->len + len > MOST)
		return -1;
	memcpy(t->text + t->len, bytes, len);
	t->len += len;
	return 0;
}

/* Inflates in pieces of this many bytes; 0: as a whole. Returns the last answer. */
static int receive(struct inflater *i, const char *bytes, size_t len, size_t piece, struct taken *t)
{
	size_t at = 0, n;
	int result;

	t->len = t->ends = 0;
	do {
		n = piece && piece < len - at ? piece : len - at;
		result = inflater_receive(i, bytes + at, n, at + n == len, on_part, t);
		at += n;
	} while (!result && at < len);
	must(result || t->ends == 1, "a whole message without a last part");
	return result;
}

struct pair {
	struct inflater *whole, *cut;
	struct taken a, b;
	size_t piece;
};

/* Returns whether the message was accepted. */
static bool receive_both(struct pair *p, const char *bytes, size_t len)
{
	int whole = receive(p->whole, bytes, len, 0, &p->a), cut = receive(p->cut, bytes, len, p->piece, &p->b);

	must(!whole == !cut, "whole it is %d, cut %d", whole, cut);
	must(whole || (p->a.len == p->b.len && memcmp(p->a.text, p->b.text, p->a.len) == 0),
	     "whole it has %zu bytes, cut %zu", p->a.len, p->b.len);
	return !whole;
}

/* Compresses as in section 7.2.1: flushed, and without the last four bytes; an empty message is an empty block
 * (7.2.3.6).
 */
static size_t pack(z_stream *s, const char *message, size_t len, char *packed, size_t size)
{
	if (!len) {
		*packed = '\0';
		return 1;
	}
	s->next_in = (Bytef *)(uintptr_t)message;
	s->avail_in = (uInt)len;
	s->next_out = (Bytef *)packed;
	s->avail_out = (uInt)size;
	must(deflate(s, Z_SYNC_FLUSH) == Z_OK && s->avail_out, "zlib does not compress");
	return size - s->avail_out - 4;
}

static void check_honest(struct pair *p, z_stream *s, bool is_forgetful, const char *message, size_t len)
{
	static char packed[16384], text[40 * 256];

	/* long enough to fill windows of 256 bytes */
	for (size_t i = 0; i < 40 && len; i++)
		memcpy(text + i * len, message, len);
	for (int i = 0; i < 2; i++) {
		size_t n = pack(s, text, i ? 40 * len : len, packed, sizeof(packed));

		must(receive_both(p, packed, n), "an honest message is refused");
		must(p->a.len == (i ? 40 * len : len) && memcmp(p->a.text, text, p->a.len) == 0,
		     "an honest message comes out as another one");
		if (is_forgetful)
			deflateReset(s);
	}
}

static size_t pack_binary(enum profile_binary coding, const char *message, size_t len, char *packed, size_t size)
{
	static const int windows[] = {[BINARY_GZIP] = 31, [BINARY_ZLIB] = 15, [BINARY_DEFLATE] = -15};
	z_stream s = {.next_in = (Bytef *)(uintptr_t)message,
		      .avail_in = (uInt)len,
		      .next_out = (Bytef *)packed,
		      .avail_out = (uInt)size};

	if (coding == BINARY_ZSTD)
		return ZSTD_compress(packed, size, message, len, 1);
	deflateInit2(&s, 1, Z_DEFLATED, windows[coding], 8, Z_DEFAULT_STRATEGY);
	must(deflate(&s, Z_FINISH) == Z_STREAM_END, "zlib does not compress");
	deflateEnd(&s);
	return size - s.avail_out;
}

static void check_binary(enum profile_binary coding, const char *bytes, size_t len, size_t most)
{
	static struct unpack *all[BINARY_ZSTD + 1];
	char *packed = malloc(len + 1024), *inflated[2];
	struct slice odd = {bytes, len}, honest = {packed, pack_binary(coding, bytes, len, packed, len + 1024)};

	all[coding] = all[coding] ? all[coding] : unpack_new(coding, (struct slice){NULL, 0});
	must(unpack(all[coding], &odd, most, &inflated[0]) || odd.len <= most, "%zu bytes", odd.len);
	must(!unpack(all[coding], &honest, most, &inflated[1]) == (len <= most), "%zu of %zu bytes", len, most);
	must(len > most || (honest.len == len && memcmp(honest.at, bytes, len) == 0), "another message");
	free(inflated[0]);
	free(inflated[1]);
	free(packed);
}

void try_input(const uint8_t *data, size_t size)
{
	struct deflate_terms terms = {.is_agreed = true};
	static char a[MOST], b[MOST];
	struct pair p = {.a = {a, 0, 0}, .b = {b, 0, 0}};
	z_stream s = {0};
	bool is_honest, goes_on = true;

	if (size < 2)
		return;
	check_binary(BINARY_GZIP + data[1] % 4, (const char *)data + 2, size - 2, 64 + data[1] * 64U);
	is_honest = data[0] & 1;
	terms.is_forgetful = data[0] & 2;
	p.piece = data[1] % 32 + 1;
	p.whole = inflater_new(&terms);
	p.cut = inflater_new(&terms);
	/* zlib replaces a window of 2^8 bytes by one of 2^9 */
	must(deflateInit2(&s, data[0] >> 2 & 7, Z_DEFLATED, -(9 + (data[0] >> 5) % 7), 1 + data[1] / 32,
			  data[1] & 64 ? Z_FIXED : Z_DEFAULT_STRATEGY) == Z_OK,
	     "zlib does not begin");
	for (size_t at = 2, n = 0; at < size && n < MESSAGES && goes_on; n++) {
		size_t len = data[at++];

		len = len < size - at ? len : size - at;
		if (is_honest)
			check_honest(&p, &s, terms.is_forgetful, (const char *)data + at, len);
		else
			goes_on = receive_both(&p, (const char *)data + at, len);
		at += len;
	}
	deflateEnd(&s);
	inflater_free(p.whole);
	inflater_free(p.cut);
}
