/* Acks: the listener's ack for an id and a reason is JSON with these, by jansson and by the producer's reader; and that
 * reader accepts any bytes.
 *
 * An input is a letter for the outcome (p, d, r), then the id, NUL, the reason; or the letter a, then
 * the text of an ack. */
#include "../../loadtest/ack.h"

#include <jansson.h>
#include <unistr.h>

#include "fuzz.h"

#include "intake/acks.h"

static const char *const names[] = {"persisted", "duplicate", "rejected"};

/* True if the envelope accepts it as an id: 1 to 512 bytes of UTF-8. */
static bool is_id(const char *text, size_t len)
{
	return len <= ENVELOPE_ID_MAX && !memchr(text, '\0', len) && !u8_check((const uint8_t *)text, len);
}

#define NUMBER 1234567 /* number of the message */

static bool is_text(const char *text, size_t len, const char *expected, size_t expected_len)
{
	return text && len == expected_len && memcmp(text, expected, len) == 0;
}

/* --- what the listener writes --- */

static void check_reason(const json_t *said, const struct event *ev, enum outcome outcome)
{
	if (outcome != OUTCOME_REJECTED)
		must(!said, "a reason, and the event is stored");
	else if (!ev->reason)
		must(strstr(json_string_value(said), "dead_letters"), "no reason");
	else if (!u8_check((const uint8_t *)ev->reason, strlen(ev->reason)))
		must(strcmp(json_string_value(said), ev->reason) == 0, "another reason: %s", json_string_value(said));
	else
		must(json_string_length(said) == strlen(ev->reason), "a reason cut off: %s", json_string_value(said));
}

static void check_by_jansson(const char *text, size_t len, const struct event *ev, enum outcome outcome)
{
	json_t *ack = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_t *id = json_object_get(ack, "event_id");

	must(ack, "not JSON: %.*s", (int)len, text);
	if (ev->id_len)
		must(is_text(json_string_value(id), json_string_length(id), ev->id, ev->id_len), "another id: %.*s",
		     (int)len, text);
	else
		must(json_is_null(id), "an id from nowhere: %.*s", (int)len, text);
	must(strcmp(json_string_value(json_object_get(ack, "status")), names[outcome]) == 0, "another status: %.*s",
	     (int)len, text);
	check_reason(json_object_get(ack, "reason"), ev, outcome);
	must(json_integer_value(json_object_get(ack, "n")) == NUMBER, "another number: %.*s", (int)len, text);
	must(json_object_size(ack) == 3 + (outcome == OUTCOME_REJECTED), "more than was to be said: %.*s", (int)len,
	     text);
	json_decref(ack);
}

static void check_by_producer(const char *text, size_t len, const struct event *ev, enum outcome outcome)
{
	struct ack ack;

	must(ack_read(text, len, &ack) == 0, "the producer does not take %.*s", (int)len, text);
	must(strcmp(ack_name(ack.status), names[outcome]) == 0, "the producer reads %s", ack_name(ack.status));
	must(ev->id_len ? is_text(ack.id, ack.id_len, ev->id, ev->id_len) : !ack.id, "the producer reads another id");
	must(!ack.reason == (outcome != OUTCOME_REJECTED), "the producer reads another reason");
	ack_free(&ack);
}

/* RFC 6455, section 5.2: a whole text message, its length in one byte or in three, not masked. */
static void check_frame(const struct acks *acks, const struct event *ev, enum outcome outcome)
{
	const unsigned char *frame = (const unsigned char *)acks->bytes;
	size_t head = frame[1] < 126 ? 2 : 4, count, first;
	size_t len = head == 2 ? frame[1] : (size_t)frame[2] << 8 | frame[3];

	must(frame[0] == 0x81 && frame[1] <= 126, "another kind of frame");
	must(head + len == acks->end && (head == 2 || len >= 126), "a frame of %zu in %zu bytes", len, acks->end);
	must(acks_first(acks, 1, &first, &count) == acks->bytes && first == acks->end && count == 1,
	     "it is not one frame");
	check_by_jansson(acks->bytes + head, len, ev, outcome);
	check_by_producer(acks->bytes + head, len, ev, outcome);
}

static void check_written(enum outcome outcome, const char *input, size_t len)
{
	size_t id_len = strnlen(input, len);
	char *id = strndup(input, id_len);
	char *reason = id_len < len ? strndup(input + id_len + 1, len - id_len - 1) : NULL;
	struct event ev = {.id = id, .id_len = (uint16_t)id_len, .reason = reason};
	struct acks acks = {0};

	if (is_id(id, id_len) && (id_len || outcome == OUTCOME_REJECTED)) {
		acks_add(&acks, &ev, outcome, NUMBER);
		check_frame(&acks, &ev, outcome);
	}
	acks_clear(&acks);
	free(id);
	free(reason);
}

/* --- what a producer reads --- */

/* Of texts that are not JSON, only the usual form passes, whose id is not checked. */
static void check_read_of_no_json(const char *text, size_t len, const struct ack *ack)
{
	must(!ack->tree && ack->id == text + 13 && ack->id_len <= len - 13 - 23, "taken: %.*s", (int)len, text);
	must(!memchr(ack->id, '"', ack->id_len) && !memchr(ack->id, '\\', ack->id_len), "taken: %.*s", (int)len, text);
}

static void check_read_of_json(json_t *tree, const struct ack *ack)
{
	json_t *id = json_object_get(tree, "event_id"), *reason = json_object_get(tree, "reason");

	must(strcmp(ack_name(ack->status), json_string_value(json_object_get(tree, "status"))) == 0, "another status");
	must(json_is_string(id) ? is_text(ack->id, ack->id_len, json_string_value(id), json_string_length(id))
				: !ack->id,
	     "another id");
	must(json_is_string(reason) ? strcmp(ack->reason, json_string_value(reason)) == 0 : !ack->reason,
	     "another reason");
}

static bool is_status(const char *text)
{
	for (size_t i = 0; text && i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(text, names[i]) == 0)
			return true;
	return false;
}

static void check_read(const char *input, size_t len)
{
	char *text = malloc(len ? len : 1); /* of exact size, so that ASan detects an overrun */
	struct ack ack;

	memcpy(text, input, len);
	json_t *tree = json_loadb(text, len, 0, NULL);
	bool is_ack = is_status(json_string_value(json_object_get(tree, "status")));
	if (ack_read(text, len, &ack)) {
		must(!is_ack, "not taken: %.*s", (int)len, text);
	} else {
		must(is_ack || !tree, "taken: %.*s", (int)len, text);
		if (tree)
			check_read_of_json(tree, &ack);
		else
			check_read_of_no_json(text, len, &ack);
		ack_free(&ack);
	}
	json_decref(tree);
	free(text);
}

void try_input(const uint8_t *data, size_t size)
{
	const char *input = (const char *)data;

	if (!size)
		return;
	switch (*input) {
	case 'p':
		check_written(OUTCOME_PERSISTED, input + 1, size - 1);
		return;
	case 'd':
		check_written(OUTCOME_DUPLICATE, input + 1, size - 1);
		return;
	case 'r':
		check_written(OUTCOME_REJECTED, input + 1, size - 1);
		return;
	default:
		check_read(input + 1, size - 1);
		return;
	}
}
