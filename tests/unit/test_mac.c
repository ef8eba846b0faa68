/* MACs of marks: by which key, and of what. */
#include "claim/mac.h"

#include "unit.h"
#include "claim/mark.h"

#define MARK "done@1700000000000.0000ab12"

TestSuite(mac, .timeout = 60);

static struct mac_place place(const char *prefix, const char *id)
{
	return (struct mac_place){prefix, strlen(prefix), id, strlen(id)};
}

/* True if the MAC of MARK for this Redis key and secret is also valid for value under "dedup:e-1" with "a key of 16
 * bytes". */
static bool passes(const char *key, const char *prefix, const char *id, const char *value)
{
	struct mac_key theirs, ours;
	struct mac_place at = place(prefix, id), home = place("dedup:", "e-1");
	char text[200];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s", MARK);

	mac_key_make(&theirs, key);
	mac_key_make(&ours, "a key of 16 bytes");
	len = mac_append(&theirs, &at, text, len) - len;
	memmove(text + strlen(value), text + strlen(MARK), len);
	memcpy(text, value, strlen(value));
	return mac_is_right(&ours, &home, text, strlen(value) + len);
}

/* BLAKE2b of 16 bytes; its key is BLAKE2b of 32 bytes of the text. hashlib.blake2b says the same. */
Test(mac, text)
{
	struct mac_key key;
	struct mac_place at = place("dedup:", "e-1");
	char text[200] = MARK;

	mac_key_make(&key, "a key of 16 bytes");
	cr_assert_eq(mac_append(&key, &at, text, strlen(MARK)), strlen(MARK) + MAC_LEN);
	text[strlen(MARK) + MAC_LEN] = '\0';
	cr_assert_str_eq(text, MARK "/b3e1c44c5e4edb88d29a93cf00e587d4");
}

Test(mac, is_of_one_key_one_place_and_one_mark)
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

/* Moving bytes between the id and the mark must change the MAC. */
Test(mac, says_where_the_id_ends)
{
	struct mac_key key;
	struct mac_place longer = place("dedup:", "e-1done@"), shorter = place("dedup:", "e-1");
	char text[200] = "7.0000ab12", other[200] = "done@7.0000ab12";
	size_t len, other_len = strlen(other);

	mac_key_make(&key, "a key of 16 bytes");
	len = mac_append(&key, &longer, text, strlen(text));
	memcpy(other + other_len, text + len - MAC_LEN, MAC_LEN);
	cr_assert_not(mac_is_right(&key, &shorter, other, other_len + MAC_LEN));
}

Test(mac, any_change_or_cut_breaks_it)
{
	struct mac_key key;
	struct mac_place at = place("dedup:", "e-1");
	char text[200] = MARK;

	mac_key_make(&key, "a key of 16 bytes");
	size_t len = mac_append(&key, &at, text, strlen(MARK));
	cr_assert(mac_is_right(&key, &at, text, len));
	for (size_t i = 0; i < len; i++) {
		text[i] ^= 1;
		cr_assert_not(mac_is_right(&key, &at, text, len), "byte %zu", i);
		text[i] ^= 1;
		cr_assert_not(mac_is_right(&key, &at, text, i), "%zu bytes", i);
	}
	cr_assert_not(mac_is_right(&key, &at, MARK, strlen(MARK)));
}

/* Listeners without the key read marks as before. */
Test(mac, marks_are_read_past_it)
{
	struct mac_key key;
	struct mac_place at = place("dedup:", "e-1");
	const struct mark dead = {true, 7, 0xab12, 0x0123456789abcdef, 0};
	char text[MARK_TEXT_SIZE + MAC_LEN];
	struct mark mark;
	size_t len = mark_write(&dead, text);

	mac_key_make(&key, "a key of 16 bytes");
	len = mac_append(&key, &at, text, len);
	cr_assert(mark_read(&mark, text, len) && mark.is_dead);
	cr_assert_eq(mark.epoch, 0xab12);
	cr_assert_eq(mark.digest, 0x0123456789abcdef);
	len = mark_write(&(struct mark){.ms = 7, .epoch = 0xab12, .digest = 0}, text);
	len = mac_append(&key, &at, text, len);
	cr_assert(mark_read(&mark, text, len) && !mark.is_dead);
	cr_assert_eq(mark.epoch, 0xab12);
}
