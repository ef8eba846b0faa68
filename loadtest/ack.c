/* ack.c owns the reading of acks. The two usual forms are recognised byte by byte, since there is
 * one for every message sent; whatever looks different goes through jansson. */
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
	[ACK_PERSISTED] = "\",\"status\":\"persisted\"}",
	[ACK_DUPLICATE] = "\",\"status\":\"duplicate\"}",
};

enum { HEAD_LEN = sizeof(head) - 1, TAIL_LEN = 23 };

const char *ack_name(enum ack_status status)
{
	return names[status];
}

static int read_usual(const char *text, size_t len, struct ack *ack)
{
	const char *id = text + HEAD_LEN;
	const char *tail = text + len - TAIL_LEN;

	if (len < HEAD_LEN + TAIL_LEN || memcmp(text, head, HEAD_LEN) != 0)
		return -1;
	for (const char *c = id; c < tail; c++)
		if (*c == '\\' || *c == '"')
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
