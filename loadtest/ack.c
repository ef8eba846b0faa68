/* ack.c parses acks. There is one per message, so the two usual forms are matched byte by byte;
 * anything else goes through jansson. */
#include "ack.h"

#include <jansson.h>
#include <string.h>

static const char *const names[] = {
	[ACK_PERSISTED] = "persisted",
	[ACK_DUPLICATE] = "duplicate",
	[ACK_REJECTED] = "rejected",
};

static const char head[] = "{\"event_id\":\"";
static const char *const tails[] = {
	[ACK_PERSISTED] = "\",\"status\":\"persisted\"",
	[ACK_DUPLICATE] = "\",\"status\":\"duplicate\"",
};

enum { HEAD_LEN = sizeof(head) - 1, TAIL_LEN = 22 };

const char *ack_name(enum ack_status status)
{
	return names[status];
}

/* Accepts "}", or ',"n":', a number and "}": not all servers number their acks. */
static int is_end(const char *text, size_t len)
{
	static const char number[] = ",\"n\":";
	size_t begin = sizeof(number) - 1;

	if (len == 1)
		return *text == '}';
	if (len < begin + 2 || memcmp(text, number, begin) != 0 || text[begin] == '0')
		return 0;
	for (size_t i = begin; i < len - 1; i++)
		if (text[i] < '0' || text[i] > '9')
			return 0;
	return text[len - 1] == '}';
}

static int read_usual(const char *text, size_t len, struct ack *ack)
{
	const char *id = text + HEAD_LEN, *end = text + len, *tail;

	if (len < HEAD_LEN + TAIL_LEN + 1 || memcmp(text, head, HEAD_LEN) != 0)
		return -1;
	tail = memchr(id, '"', len - HEAD_LEN);
	if (!tail || end - tail <= TAIL_LEN || memchr(id, '\\', (size_t)(tail - id)) ||
	    !is_end(tail + TAIL_LEN, (size_t)(end - tail) - TAIL_LEN))
		return -1;
	for (enum ack_status status = ACK_PERSISTED; status <= ACK_DUPLICATE; status++)
		if (!memcmp(tail, tails[status], TAIL_LEN)) {
			*ack = (struct ack){.status = status, .id = id, .id_len = (size_t)(tail - id)};
			return 0;
		}
	return -1;
}

static int read_status(const char *name, enum ack_status *status)
{
	for (*status = 0; name && *status < ACK_STATUSES; ++*status)
		if (!strcmp(name, names[*status]))
			return 0;
	return -1;
}

int ack_read(const char *text, size_t len, struct ack *ack)
{
	json_t *id;

	if (!read_usual(text, len, ack))
		return 0;
	*ack = (struct ack){.tree = json_loadb(text, len, 0, NULL)};
	if (read_status(json_string_value(json_object_get(ack->tree, "status")), &ack->status)) {
		ack_free(ack);
		return -1;
	}
	id = json_object_get(ack->tree, "event_id");
	ack->id = json_string_value(id);
	ack->id_len = json_string_length(id);
	ack->reason = json_string_value(json_object_get(ack->tree, "reason"));
	return 0;
}

void ack_free(struct ack *ack)
{
	json_decref(ack->tree);
	ack->tree = NULL;
}
