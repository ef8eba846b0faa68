/* acks.c owns the acks to a producer: the JSON, the WebSocket frame, and the queue. ingest.c decides when they go out
 * and charges for the memory. */
#include "intake/acks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define FIRST_BYTES 512  /* first allocation; later ones add a quarter */
#define KEPT_BYTES  4096 /* kept when the queue is empty */

#define NUMBER_DIGITS 20 /* digits of a 64-bit number */

/* --- adding --- */

static bool is_plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == '"' || s[i] == '\\' || s[i] == 0x7f)
			return false;
	return true;
}

static const char *status_name(enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_PERSISTED:
		return "persisted";
	case OUTCOME_DUPLICATE:
		return "duplicate";
	case OUTCOME_REJECTED:
		return "rejected";
	}
	return "";
}

char *ack_text(const struct event *ev, enum outcome outcome, uint64_t n)
{
	const char *why = ev->reason ? ev->reason : "rejected by another listener: see dead_letters";
	AUTO_FREE char *id = ev->id_len ? quote_json(ev->id, ev->id_len) : memory_strdup("null");
	AUTO_FREE char *reason = outcome == OUTCOME_REJECTED ? quote_json(why, strlen(why)) : NULL;

	return memory_printf("{\"event_id\":%s,\"status\":\"%s\"%s%s,\"n\":%llu}", id, status_name(outcome),
			     reason ? ",\"reason\":" : "", reason ? reason : "", (unsigned long long)n);
}

static void reserve(struct acks *a, size_t more)
{
	size_t used = a->end - a->begin, size = (used + more) / 4 * 5;

	if (a->end + more <= a->size)
		return;
	if (used)
		memmove(a->bytes, a->bytes + a->begin, used);
	a->begin = 0;
	a->end = used;
	if (used + more <= a->size)
		return;
	a->size = size < FIRST_BYTES ? FIRST_BYTES : size;
	a->bytes = memory_realloc(a->bytes, a->size);
}

/* Writes the head of an unmasked text frame (RFC 6455, section 5.2) and returns room for its payload. libwebsockets
 * would need a write for each frame. */
static char *start_frame(struct acks *a, size_t len)
{
	size_t head = len < 126 ? 0 : len <= UINT16_MAX ? 2 : 8; /* extra bytes of the length field */
	char *at;

	reserve(a, 2 + head + len);
	at = a->bytes + a->end;
	*at++ = (char)0x81;
	*at++ = (char)(head == 0 ? len : head == 2 ? 126 : 127);
	for (size_t i = head; i-- > 0;)
		*at++ = (char)((uint64_t)len >> 8 * i);
	a->end = (size_t)(at - a->bytes) + len;
	return at;
}

/* Returns the size of the frame that begins at `at`. */
static size_t frame_bytes(const unsigned char *at)
{
	size_t head = at[1] < 126 ? 0 : at[1] == 126 ? 2 : 8, len = head ? 0 : at[1];

	for (size_t i = 0; i < head; i++)
		len = len << 8 | at[2 + i];
	return 2 + head + len;
}

/* Writes n in decimal to the end of room. Returns the first digit. */
static char *write_number(char room[NUMBER_DIGITS], uint64_t n)
{
	char *at = room + NUMBER_DIGITS;

	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	return at;
}

/* Fast path for an id that needs no escapes, and no reason. */
static void add_usual(struct acks *a, const struct event *ev, enum outcome outcome, uint64_t n)
{
	static const char head[] = "{\"event_id\":\"", middle[] = "\",\"status\":\"", tail[] = "\",\"n\":";
	const char *status = status_name(outcome);
	char room[NUMBER_DIGITS], *digits = write_number(room, n);
	size_t status_len = strlen(status), digits_len = (size_t)(room + NUMBER_DIGITS - digits);
	char *at = start_frame(a, sizeof(head) + sizeof(middle) + sizeof(tail) - 3 + ev->id_len + status_len +
					  digits_len + 1);

	at = mempcpy(at, head, sizeof(head) - 1);
	at = mempcpy(at, ev->id, ev->id_len);
	at = mempcpy(at, middle, sizeof(middle) - 1);
	at = mempcpy(at, status, status_len);
	at = mempcpy(at, tail, sizeof(tail) - 1);
	at = mempcpy(at, digits, digits_len);
	*at = '}';
}

void acks_add_text(struct acks *a, const char *text, size_t len)
{
	memcpy(start_frame(a, len), text, len);
}

static void add_quoted(struct acks *a, const struct event *ev, enum outcome outcome, uint64_t n)
{
	AUTO_FREE char *text = ack_text(ev, outcome, n);

	acks_add_text(a, text, strlen(text));
}

void acks_add(struct acks *a, const struct event *ev, enum outcome outcome, uint64_t n)
{
	if (ev->id_len && is_plain(ev->id, ev->id_len) && outcome != OUTCOME_REJECTED)
		add_usual(a, ev, outcome, n);
	else
		add_quoted(a, ev, outcome, n);
}

/* --- sending --- */

size_t acks_memory(const struct acks *a)
{
	return a->size > KEPT_BYTES ? a->size : 0;
}

size_t acks_waiting(const struct acks *a)
{
	return a->end - a->begin;
}

char *acks_first(const struct acks *a, size_t most, size_t *len, size_t *count)
{
	char *first = a->bytes + a->begin;

	*len = 0;
	for (*count = 0; *len < acks_waiting(a); ++*count) {
		size_t frame = frame_bytes((const unsigned char *)first + *len);

		if (*len && *len + frame > most)
			break;
		*len += frame;
	}
	return first;
}

void acks_clear(struct acks *a)
{
	free(a->bytes);
	*a = (struct acks){0};
}

void acks_sent(struct acks *a, size_t len)
{
	a->begin += len;
	if (a->begin < a->end)
		return;
	a->begin = a->end = 0;
	if (a->size > KEPT_BYTES)
		acks_clear(a);
}
