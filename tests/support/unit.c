/* The log of a unit test. Only errors are shown. */
#include "unit.h"
#include "base/log.h"

#include <uthash.h>
#include <zlib.h>

static int file, standard_error;
static char text[10000];

__attribute__((constructor)) static void be_quiet(void)
{
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
}

/* uthash's own hash is Jenkins's. The last 12 bytes undo what the first 12 did to its state. */
void make_colliding_key(uint32_t n, char *key)
{
	uint32_t a = 0x9e3779b9u + n, b = 0x9e3779b9u, c = 0xfeedbeefu;
	uint32_t words[6] = {n};

	HASH_JEN_MIX(a, b, c);
	words[3] = 0 - a;
	words[4] = 0 - b;
	words[5] = 0 - c;
	memcpy(key, words, sizeof(words));
}

static void make_key(uint32_t n, char *key)
{
	memset(key, 0, 24);
	memcpy(key, &n, sizeof(n));
}

void collisions_must_cost_no_more(double (*run)(void (*make)(uint32_t n, char *key)))
{
	double usual = run(make_key), colliding = run(make_colliding_key);

	cr_assert_lt(colliding, 10 * usual + 0.1, "%.3f s, not %.3f s", colliding, usual);
}

void capture_begin(void)
{
	log_setup(LOG_INFO, LOG_TEXT, NULL);
	file = memfd_create("log", MFD_CLOEXEC);
	standard_error = dup(STDERR_FILENO);
	dup2(file, STDERR_FILENO);
}

const char *captured(void)
{
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	cr_assert_geq(n, 0);
	text[n] = '\0';
	return text;
}

int captured_times(const char *part)
{
	int n = 0;

	for (const char *at = captured(); (at = strstr(at, part)); at++)
		n++;
	return n;
}

const char *capture_end(void)
{
	captured();
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	close(file);
	return text;
}

size_t compressed_frame(char *at, const char *message, size_t len)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)message,
		      .avail_in = (uInt)len,
		      .next_out = (Bytef *)at + 4,
		      .avail_out = UINT16_MAX};
	size_t n;

	deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
	deflate(&z, Z_SYNC_FLUSH);
	n = z.total_out - 4; /* without the end of the flush: RFC 7692, section 7.2.1 */
	deflateEnd(&z);
	cr_assert_gt(n, 125);
	memcpy(at, (char[]){(char)0xc1, 126, (char)(n >> 8), (char)n}, 4);
	return n + 4;
}
