/* keys.h: tables of the keys that a JSON object may have, for profiles and webhooks. Texts and JSON that are read into
 * a struct live as long as the object. */
#ifndef WSONCE_KEYS_H
#define WSONCE_KEYS_H

#include <stddef.h>

#include "config/profile_reader.h"

struct key;
struct items;
struct key_table;

/* Reads value into at. Returns 0, or -1 after profile_fail. */
typedef int key_read(struct profile_reader *r, const struct key *k, const json_t *value, void *at);
typedef int key_check(struct profile_reader *r, const json_t *item);

struct key {
	const char *name;
	key_read *read;
	size_t offset; /* in the struct that at points into */
	double lowest; /* lowest number; for an enum, the value of the first word */
	double highest;
	const char *words;               /* choices in the order of the enum, separated by one blank */
	const struct items *items;       /* items of an array or an object that is kept as JSON */
	const struct key_table *members; /* members of an object that are in the same struct */
	bool has_frame;                  /* templates may point into a frame */
};

struct key_table {
	const struct key *keys;
	size_t count;
	const char *needed; /* keys that must be there, with one blank between them; "": none */
};

/* What an array, an object, or either may hold. */
struct items {
	bool is_array, is_object;
	const char *what; /* "an array of texts" */
	key_check *check;
};

/* clang-format off */
#define TABLE(keys, needed) &(const struct key_table){keys, sizeof(keys) / sizeof((keys)[0]), needed}

#define KEY(name, read, offset)                    {name, read, offset, 0, 0, NULL, NULL, NULL, false}
#define RANGE(name, read, offset, lowest, highest) {name, read, offset, lowest, highest, NULL, NULL, NULL, false}
#define CHOICE(name, offset, words, first)         {name, key_choice, offset, first, 0, words, NULL, NULL, false}
#define ITEMS(name, offset, items)                 {name, key_items, offset, 0, 0, NULL, &(items), NULL, false}
#define FRAME(name, read, offset)                  {name, read, offset, 0, 0, NULL, NULL, NULL, true}
#define MEMBERS(name, offset, keys, needed) \
	{name, key_members, offset, 0, 0, NULL, NULL, TABLE(keys, needed), false}
/* clang-format on */

/* Kinds of values: a text, without NULs; a whole number, as int64_t; seconds, as milliseconds; a double; a bool; an
 * enum; what the item table says, as JSON; conditions, as JSON; an object whose members go into the same struct. */
key_read key_text, key_number, key_seconds, key_real, key_switch, key_choice, key_items, key_conditions, key_members;

/* Reads the members of an object into at. what is the kind of object, for errors. */
int key_object(struct profile_reader *r, const struct key_table *t, const char *what, const json_t *value, void *at);

key_check key_check_text;
/* Calls check for each item or member of value, with r's path at it. */
int key_check_each(struct profile_reader *r, const json_t *value, key_check *check);

/* Keeps the value as JSON. Returns 0. */
int key_keep(const json_t *value, void *at);

#endif
