/* nearest.c measures the distance between names: letters replaced, left out, added, or swapped with the next one
 * (Damerau-Levenshtein distance, optimal string alignment). */
#include "base/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LEN_MAX   63
#define BEGINNING 4 /* letters that are enough to recognize a name */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t measure(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][LEN_MAX + 1], *old = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_len; j++)
		last[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *next = old;

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], old[j - 2] + 1);
		}
		old = last;
		last = row;
		row = next;
	}
	return last[b_len];
}

void nearest_init(struct nearest *n, const char *word, size_t len)
{
	*n = (struct nearest){word, len, NULL, NEAREST_MISTAKES(1 + len / 3)};
}

void nearest_offer(struct nearest *n, const char *name)
{
	size_t len = strlen(name), distance;
	bool is_head =
		len >= BEGINNING && len < n->len && strchr("-_", n->word[len]) && strncmp(name, n->word, len) == 0;

	if (len > LEN_MAX || n->len > LEN_MAX)
		return;
	distance = NEAREST_MISTAKES(measure(n->word, n->len, name, len));
	if (is_head)
		distance = least(distance, NEAREST_MISTAKES(2UL));
	if (n->len >= BEGINNING && strncmp(name, n->word, n->len) == 0)
		distance = least(distance, NEAREST_MISTAKES(1) + 1);
	if (distance < n->distance || (n->best && is_head && distance == n->distance && len > strlen(n->best))) {
		n->distance = distance;
		n->best = name;
	}
}

const char *nearest_ask(const struct nearest *n, const char *head, char *out, size_t size)
{
	*out = '\0';
	if (n->best)
		snprintf(out, size, "; did you mean %s%s?", head, n->best);
	return out;
}
