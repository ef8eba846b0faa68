/* deflate.c implements permessage-deflate of a dialled feed (RFC 7692) with zlib: it parses the server's answer and
 * inflates messages. The caller limits their size.
 *
 * A 32 KiB window inflates data of any smaller window, so the negotiated sizes do not matter. */
#include "net/deflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"

#define ROOM_BYTES   65536 /* size of one part of a message */
#define WINDOW_BITS  15
#define WINDOW_BYTES (1 << WINDOW_BITS)
#define FINALS_MOST  64 /* limit of BFINAL blocks per message: each costs a copy of the window */

struct inflater {
	z_stream stream;
	bool is_forgetful;
	unsigned int finals; /* in the current message */
};

/* Output buffer for one part; shared, because no part outlives its callback. */
static char room[ROOM_BYTES];

/* --- the terms --- */

/* Cuts the next parameter out of a semicolon-separated list, in place, without blanks and quotes around its value.
 * Returns NULL at the end. *value is NULL if the parameter has none. */
static char *next_word(char **at, char **value)
{
	char *word = *at, *end, *equals;

	if (!word)
		return NULL;
	end = word + strcspn(word, ";");
	*at = *end ? end + 1 : NULL;
	*end = '\0';
	word += strspn(word, " \t");
	for (end = word + strlen(word); end > word && (end[-1] == ' ' || end[-1] == '\t'); end--)
		end[-1] = '\0';
	equals = strchr(word, '=');
	*value = equals ? equals + 1 : NULL;
	if (!equals)
		return word;
	*equals = '\0';
	if (**value == '"' && end - *value >= 2 && end[-1] == '"') {
		end[-1] = '\0';
		++*value;
	}
	return word;
}

/* Section 7.1.2: 8 to 15, without leading zeros. */
static bool is_window(const char *value)
{
	if (!value)
		return false;
	return (strlen(value) == 1 && (*value == '8' || *value == '9')) ||
	       (strlen(value) == 2 && value[0] == '1' && value[1] >= '0' && value[1] <= '5');
}

/* Returns the bit of a valid parameter, so that the caller can see duplicates, or 0. */
static unsigned int judge_parameter(const char *name, const char *value)
{
	static const char *const flags[] = {"server_no_context_takeover", "client_no_context_takeover"};
	static const char *const windows[] = {"server_max_window_bits", "client_max_window_bits"};

	for (unsigned int i = 0; i < 2; i++) {
		if (strcasecmp(name, flags[i]) == 0)
			return value ? 0 : 1U << i;
		if (strcasecmp(name, windows[i]) == 0)
			return is_window(value) ? 4U << i : 0;
	}
	return 0;
}

int deflate_read_terms(const char *value, struct deflate_terms *terms)
{
	char *text = memory_strdup(value), *at = text, *parameter;
	char *name = next_word(&at, &parameter);
	unsigned int seen = 0, one = 1;

	if (strcasecmp(name, "permessage-deflate") != 0 || parameter)
		one = 0;
	while (one && (name = next_word(&at, &parameter))) {
		one = judge_parameter(name, parameter);
		one = (seen & one) ? 0 : one;
		seen |= one;
	}
	free(text);
	terms->is_agreed = one != 0;
	terms->is_forgetful = seen & 1;
	return one ? 0 : -1;
}

/* --- inflating --- */

struct inflater *inflater_new(const struct deflate_terms *terms)
{
	struct inflater *i = memory_calloc(1, sizeof(*i));

	i->is_forgetful = terms->is_forgetful;
	if (inflateInit2(&i->stream, -WINDOW_BITS) != Z_OK)
		memory_exhausted("zlib", 0);
	return i;
}

void inflater_free(struct inflater *i)
{
	if (!i)
		return;
	inflateEnd(&i->stream);
	free(i);
}

/* A block may be marked as the last one (section 7.2.3.4), and later blocks may still refer to earlier data. zlib drops
 * its window on reset, so it is restored here. */
static void begin_anew(struct inflater *i)
{
	Bytef window[WINDOW_BYTES];
	uInt len = 0;

	inflateGetDictionary(&i->stream, window, &len);
	inflateReset(&i->stream);
	if (!i->is_forgetful && len)
		inflateSetDictionary(&i->stream, window, len);
}

/* Inflates all input and passes each full part to take. Returns the number of bytes left in room, or -1. */
static ssize_t inflate_all(struct inflater *i, size_t used, inflater_cb *take, void *arg)
{
	for (;;) {
		int result;

		i->stream.next_out = (Bytef *)room + used;
		i->stream.avail_out = (uInt)(ROOM_BYTES - used);
		result = inflate(&i->stream, Z_SYNC_FLUSH);
		used = ROOM_BYTES - i->stream.avail_out;
		if (result == Z_MEM_ERROR)
			memory_exhausted("zlib", 0);
		if (result != Z_OK && result != Z_BUF_ERROR && result != Z_STREAM_END)
			return -1;
		if (result == Z_STREAM_END && ++i->finals > FINALS_MOST)
			return -1;
		if (result == Z_STREAM_END)
			begin_anew(i);
		if (i->stream.avail_out && !i->stream.avail_in)
			return (ssize_t)used;
		if (used == ROOM_BYTES) {
			if (take(arg, room, used, false))
				return -1;
			used = 0;
		}
	}
}

/* True if the stream is between two blocks (zlib.h, data_type), the only place where a message may end. */
static bool is_between_blocks(const struct inflater *i)
{
	return i->stream.data_type & 128;
}

int inflater_receive(struct inflater *i, const char *bytes, size_t len, bool is_last, inflater_cb *take, void *arg)
{
	static const unsigned char tail[4] = {0x00, 0x00, 0xff, 0xff}; /* the server leaves these bytes out */
	ssize_t used;

	i->stream.next_in = (Bytef *)(uintptr_t)bytes;
	i->stream.avail_in = (uInt)len;
	used = inflate_all(i, 0, take, arg);
	if (used >= 0 && is_last) {
		i->stream.next_in = (Bytef *)(uintptr_t)tail;
		i->stream.avail_in = sizeof(tail);
		used = inflate_all(i, (size_t)used, take, arg);
		if (used >= 0 && !is_between_blocks(i))
			return -1;
		i->finals = 0;
		if (i->is_forgetful)
			inflateReset(&i->stream);
	}
	if (used < 0)
		return -1;
	return used || is_last ? take(arg, room, (size_t)used, is_last) : 0;
}
