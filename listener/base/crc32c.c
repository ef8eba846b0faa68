/* crc32c.c takes eight bytes at a time, with a processor instruction or with eight tables ("slicing by 8"). */
#include "base/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 with its bits reversed */

static uint32_t table[8][256];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static uint32_t add_by_table(uint32_t crc, const unsigned char *at, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_table);
	for (; len >= 8; at += 8, len -= 8) {
		uint64_t word;

		memcpy(&word, at, 8);
		word = le64toh(word) ^ crc;
		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= table[7 - k][word >> (8 * k) & 0xff];
	}
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return crc;
}

#ifdef __x86_64__

__attribute__((target("sse4.2"))) static uint32_t add(uint32_t crc, const unsigned char *at, size_t len)
{
	uint64_t word, sum = crc;

	if (!__builtin_cpu_supports("sse4.2"))
		return add_by_table(crc, at, len);
	for (; len >= 8; at += 8, len -= 8) {
		memcpy(&word, at, 8);
		sum = __builtin_ia32_crc32di(sum, word);
	}
	for (crc = (uint32_t)sum; len; len--)
		crc = __builtin_ia32_crc32qi(crc, *at++);
	return crc;
}

#else
#define add add_by_table
#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
	return ~add(~crc, bytes, len);
}
