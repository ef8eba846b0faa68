/* Acks of wsonce.ack.v1, read as JSON. */
#include "ack.h"
#include "support.h"

#define ACK_MS 10000

/* A copy of a member's text; NULL if it is null or missing. */
static char *text_of(const json_t *root, const char *name)
{
	const json_t *value = json_object_get(root, name);

	return json_is_string(value) ? strdup(json_string_value(value)) : NULL;
}

static struct ack *parse(const char *text)
{
	struct ack *ack = calloc(1, sizeof *ack);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		cr_assert_fail("an ack is not JSON (%s): %s", error.text, text);
	ack->event_id = text_of(root, "event_id");
	ack->status = text_of(root, "status");
	ack->reason = text_of(root, "reason");
	bool is_rejected = ack->status && strcmp(ack->status, "rejected") == 0;
	bool has_id = ack->event_id || json_is_null(json_object_get(root, "event_id"));
	if (!ack->status || !has_id || is_rejected != (ack->reason != NULL))
		cr_assert_fail("an ack of the wrong shape: %s", text);
	ack->n = (long)json_integer_value(json_object_get(root, "n"));
	if (json_object_size(root) != (is_rejected ? 4u : 3u) || ack->n < 1)
		cr_assert_fail("an ack with other members: %s", text);
	return ack;
}

struct ack *ack_read(struct peer *p, int deadline_ms)
{
	char *text = peer_recv(p, deadline_ms);

	if (!text)
		cr_assert_fail("no ack within %d ms; the connection is %s", deadline_ms,
			       peer_is_open(p) ? "open" : "closed");
	return parse(text);
}

static void check(const struct ack *ack, const char *event_id, const char *status)
{
	bool is_same_id = event_id && ack->event_id ? strcmp(event_id, ack->event_id) == 0 : event_id == ack->event_id;

	if (!is_same_id || strcmp(ack->status, status) != 0)
		cr_assert_fail("an ack for %s says %s (%s), not %s for %s", ack->event_id ? ack->event_id : "null",
			       ack->status, ack->reason ? ack->reason : "no reason", status,
			       event_id ? event_id : "null");
}

void ack_expect(struct peer *p, const char *event_id, const char *status)
{
	struct ack *ack = ack_read(p, ACK_MS);

	check(ack, event_id, status);
}

void ack_expect_rejected(struct peer *p, const char *event_id, const char *reason)
{
	struct ack *ack = ack_read(p, ACK_MS);

	check(ack, event_id, "rejected");
	if (!strstr(ack->reason, reason))
		cr_assert_fail("an ack gives the reason \"%s\", not \"%s\"", ack->reason, reason);
}
