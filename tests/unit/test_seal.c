/* Seals of marks: whose they are, and of what. */
#include "road/seal.h"

#include "unit.h"
#include "road/mark.h"

#define MARK "done@1700000000000.0000ab12"

TestSuite(seal, .timeout = 60);

static struct seal_place place(const char *prefix, const char *id)
{
	return (struct seal_place){prefix, strlen(prefix), id, strlen(id)};
}

/* Does the seal of MARK at this place by this key pass for that of the value, at dedup: and e-1 by "a key of 16 bytes"?
 */
static bool passes(const char *key, const char *prefix, const char *id, const char *value)
{
	struct seal_key theirs, ours;
	struct seal_place at = place(prefix, id), home = place("dedup:", "e-1");
	char sealed[200];
	size_t len = (size_t)snprintf(sealed, sizeof(sealed), "%s", MARK);

	seal_key_make(&theirs, key);
	seal_key_make(&ours, "a key of 16 bytes");
	len = seal_put(&theirs, &at, sealed, len) - len;
	memmove(sealed + strlen(value), sealed + strlen(MARK), len);
	memcpy(sealed, value, strlen(value));
	return seal_is_right(&ours, &home, sealed, strlen(value) + len);
}

/* BLAKE2b of 16 bytes; its key is BLAKE2b of 32 bytes of the text. hashlib.blake2b says the same. */
Test(seal, text)
{
	struct seal_key key;
	struct seal_place at = place("dedup:", "e-1");
	char text[200] = MARK;

	seal_key_make(&key, "a key of 16 bytes");
	cr_assert_eq(seal_put(&key, &at, text, strlen(MARK)), strlen(MARK) + SEAL_LEN);
	text[strlen(MARK) + SEAL_LEN] = '\0';
	cr_assert_str_eq(text, MARK "/b3e1c44c5e4edb88d29a93cf00e587d4");
}

Test(seal, is_of_one_key_one_place_and_one_mark)
{
	cr_assert(passes("a key of 16 bytes", "dedup:", "e-1", MARK));
	cr_assert_not(passes("a key of 16 bytez", "dedup:", "e-1", MARK));
	cr_assert_not(passes("a key of 16 bytes", "dedup:", "e-2", MARK));
	cr_assert_not(passes("a key of 16 bytes", "dedup", ":e-1", MARK));
	cr_assert_not(passes("a key of 16 bytes", "other:", "e-1", MARK));
	cr_assert_not(passes("a key of 16 bytes", "dedup:", "e-1", "dead@1700000000000.0000ab12"));
	cr_assert_not(passes("a key of 16 bytes", "dedup:", "e-1", "done@1700000000001.0000ab12"));
	cr_assert_not(passes("a key of 16 bytes", "dedup:", "e-1", "done@1700000000000.0000ab13"));
	cr_assert_not(passes("a key of 16 bytes", "dedup:", "e-1", MARK "/0123456789abcdef"));
}

/* The bytes of the id and those of the mark are not mixed up. */
Test(seal, says_where_the_id_ends)
{
	struct seal_key key;
	struct seal_place longer = place("dedup:", "e-1done@"), shorter = place("dedup:", "e-1");
	char text[200] = "7.0000ab12", other[200] = "done@7.0000ab12";
	size_t len, other_len = strlen(other);

	seal_key_make(&key, "a key of 16 bytes");
	len = seal_put(&key, &longer, text, strlen(text));
	memcpy(other + other_len, text + len - SEAL_LEN, SEAL_LEN);
	cr_assert_not(seal_is_right(&key, &shorter, other, other_len + SEAL_LEN));
}

Test(seal, any_change_or_cut_breaks_it)
{
	struct seal_key key;
	struct seal_place at = place("dedup:", "e-1");
	char text[200] = MARK;
	size_t len;

	seal_key_make(&key, "a key of 16 bytes");
	len = seal_put(&key, &at, text, strlen(MARK));
	cr_assert(seal_is_right(&key, &at, text, len));
	for (size_t i = 0; i < len; i++) {
		text[i] ^= 1;
		cr_assert_not(seal_is_right(&key, &at, text, len), "byte %zu", i);
		text[i] ^= 1;
		cr_assert_not(seal_is_right(&key, &at, text, i), "%zu bytes", i);
	}
	cr_assert_not(seal_is_right(&key, &at, MARK, strlen(MARK)));
}

/* Listeners without the key read marks as before. */
Test(seal, marks_are_read_past_it)
{
	struct seal_key key;
	struct seal_place at = place("dedup:", "e-1");
	const struct mark dead = {true, 7, 0xab12, 0x0123456789abcdef};
	char text[MARK_TEXT_SIZE + SEAL_LEN];
	struct mark mark;
	size_t len = mark_write(&dead, text);

	seal_key_make(&key, "a key of 16 bytes");
	len = seal_put(&key, &at, text, len);
	cr_assert(mark_read(&mark, text, len) && mark.is_dead);
	cr_assert_eq(mark.epoch, 0xab12);
	cr_assert_eq(mark.digest, 0x0123456789abcdef);
	len = mark_write(&(struct mark){.ms = 7, .epoch = 0xab12, .digest = 0}, text);
	len = seal_put(&key, &at, text, len);
	cr_assert(mark_read(&mark, text, len) && !mark.is_dead);
	cr_assert_eq(mark.epoch, 0xab12);
}
