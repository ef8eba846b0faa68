/* hash.h: 64-bit hashes that are the same in each process of a fleet. */
#ifndef WSONCE_HASH_H
#define WSONCE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a (Fowler, Noll and Vo; RFC 9923). The high bits of short texts are similar; hash_mix spreads them. */
static inline uint64_t hash_text(const char *text, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* The last steps of SplitMix64 (Steele, Lea and Flood, 2014): each bit of x affects every bit of the result. */
static inline uint64_t hash_mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The score of a listener for a source in rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to
 * increase hit rates", 1998): the highest comes first. */
static inline uint64_t hash_score(uint64_t listener, uint64_t source)
{
	return hash_mix(listener ^ source * UINT64_C(0x9e3779b97f4a7c15));
}

/* Compares two hashes, for qsort and bsearch. */
static inline int hash_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

#endif
