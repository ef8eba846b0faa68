/* exported.c reads the lines that `wsonce export` prints. */
#include "commands/exported.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/timestamp.h"
#include "spool/record.h"

/* The members that matter. */
enum member { RECEIVED, PROCESSED, TIME, SOURCE, ID, TYPE, PAYLOAD, REASON, RAW, WHOLE, MEMBERS };

static const char *const names[MEMBERS] = {"received_at", "processed_at", "event_time", "source",     "event_id",
					   "event_type",  "payload",      "reason",     "raw_base64", "is_whole"};

static void find_members(struct slice line, struct slice members[MEMBERS])
{
	struct json_walk w = json_walk(line);

	while (json_walk_next(&w))
		for (int i = 0; i < MEMBERS; i++)
			if (json_is_name(w.name, w.has_escape, names[i], strlen(names[i])))
				members[i] = w.value;
}

/* Returns the decoded text of a member that is a string; at is NULL for any other. */
static struct slice text_of(struct exported *x, struct slice value)
{
	return json_kind(value) == KIND_STRING ? json_text(value, &x->texts) : (struct slice){NULL, 0};
}

static int64_t time_of(struct exported *x, const struct slice members[MEMBERS])
{
	struct slice text = text_of(x, members[RECEIVED]);
	int64_t us = 0;

	if (!text.at)
		text = text_of(x, members[PROCESSED]);
	return text.at && timestamp_parse(text.at, text.len, TIMESTAMP_RFC3339, &us) ? us : 0;
}

static const char *name_of(struct exported *x, struct feeder *f, struct slice source)
{
	struct slice text = text_of(x, source);
	AUTO_FREE char *copy = memory_strndup(text.at ? text.at : "", text.len);

	return feeder_keep_name(f, copy);
}

/* Returns false if the id or the type is not valid: then the line is an ordinary message. */
static bool read_event(struct exported *x, struct feeder *f, const struct slice members[MEMBERS])
{
	x->event = (struct feed_event){.is_shared = true,
				       .id = text_of(x, members[ID]),
				       .type = text_of(x, members[TYPE]),
				       .payload = members[PAYLOAD],
				       .time = text_of(x, members[TIME]),
				       .unit = TIMESTAMP_RFC3339,
				       .came_us = time_of(x, members),
				       .source = name_of(x, f, members[SOURCE])};
	return x->event.id.at && x->event.id.len && x->event.id.len <= ENVELOPE_ID_MAX && x->event.type.at;
}

static bool read_raw(struct exported *x, const struct slice members[MEMBERS])
{
	struct slice code = text_of(x, members[RAW]);
	int n = -1;

	x->raw.len = 0;
	if (code.at && code.len <= RECORD_MOST)
		n = base64_decode(bytes_reserve(&x->raw, code.len), code.at, code.len);
	x->raw.len = n > 0 ? (size_t)n : 0;
	return n >= 0;
}

/* Like wsonce dead-letters retry: a dead letter becomes an event if a profile has read it, otherwise a message. A
 * frame, or the head of a message, cannot be tried and becomes a dead letter again. */
static bool read_letter(struct exported *x, struct feeder *f, struct feeder_message *m,
			const struct slice members[MEMBERS])
{
	struct slice reason = text_of(x, members[REASON]);
	bool is_event = read_event(x, f, members);

	if (!read_raw(x, members) || !reason.at)
		return false;
	x->event.came_us = 0;
	x->event.payload = bytes_slice(&x->raw);
	m->bytes = x->raw.at;
	m->len = x->raw.len;
	if (is_event) {
		m->event = &x->event;
	} else if (json_kind(members[WHOLE]) == KIND_FALSE || *x->event.source) {
		free(x->reason);
		m->reason = x->reason = memory_strndup(reason.at, reason.len);
		x->event.source = *x->event.source ? x->event.source : NULL;
		m->event = &x->event;
	}
	return true;
}

void exported_read(struct exported *x, struct feeder *f, struct feeder_message *m)
{
	struct slice members[MEMBERS] = {{NULL, 0}}, line;
	const char *head = exported_head(m->bytes, m->len);

	if (!head || json_check(m->bytes, m->len, &line))
		return;
	arena_clear(&x->texts);
	find_members(line, members);
	if (strcmp(head, EXPORTED_LETTER) == 0)
		read_letter(x, f, m, members);
	else if (members[PAYLOAD].at && read_event(x, f, members))
		m->event = &x->event;
}

void exported_free(struct exported *x)
{
	arena_clear(&x->texts);
	bytes_free(&x->raw);
	free(x->reason);
}
