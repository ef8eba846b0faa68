/* Profiles and the frames that they read. An input is the text of a profile, a NUL, and lines: each is a frame, and an
 * empty one is a new connection.
 *
 * What must be true: the error about a wrong profile is one line; ids, types and payloads are valid for the pipeline;
 * all messages to send are JSON; two sessions, one of which got the other's variables and cursor by session_save and
 * session_restore, do the same; the canonical form of a payload does not change when it is made canonical again. */

#include "base/hash.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "feed/gap.h"
#include "feed/session.h"
#include "fuzz.h"

#define NOW 1790000000

/* A session, and a hash of all its callbacks. */
struct witness {
	struct session *session;
	struct gaps *gaps;
	uint64_t said;
};

static void say(struct witness *w, const char *what, struct slice bytes)
{
	w->said = hash_mix(w->said ^ hash_text(what, strlen(what)));
	if (bytes.at)
		w->said = hash_mix(w->said ^ hash_text(bytes.at, bytes.len));
}

static void must_be_json(const char *what, struct slice json)
{
	struct slice value;

	must(!json_check(json.at, json.len, &value) && value.len == json.len, "%s is not JSON: %.*s", what,
	     (int)json.len, json.at);
}

/* A number beyond a double becomes Infinity, as in Python, which is not JSON. */
static void must_be_canonical(struct slice payload)
{
	struct bytes once = {NULL, 0, 0}, twice = {NULL, 0, 0};

	json_write_canonical(&once, payload);
	if (!strstr(bytes_text(&once), "Infinity")) {
		must_be_json("the canonical form", bytes_slice(&once));
		json_write_canonical(&twice, bytes_slice(&once));
		must(once.len == twice.len && memcmp(bytes_text(&once), bytes_text(&twice), once.len) == 0,
		     "canonical: %s, then %s", bytes_text(&once), bytes_text(&twice));
	}
	bytes_free(&once);
	bytes_free(&twice);
}

static void on_event(void *ctx, const struct session_event *event)
{
	struct witness *w = ctx;
	struct gap gap;

	must(event->id.len <= PROFILE_ID_MAX && !memchr(event->id.at, '\0', event->id.len), "a bad id");
	must(is_utf8(event->id.at, event->id.len), "the id is not UTF-8");
	must(!event->type.at || !memchr(event->type.at, '\0', event->type.len), "a bad type");
	if (event->payload.at) {
		must_be_json("the payload", event->payload);
		must_be_canonical(event->payload);
	}
	say(w, "id", event->id);
	say(w, "type", event->type);
	say(w, "time", event->time);
	say(w, "payload", event->payload);
	if (gaps_note(w->gaps, event->gap_key, event->gap_seq, &gap))
		must(gap.first <= gap.last, "an empty gap");
	if (event->cursor.at) {
		must_be_json("the cursor", event->cursor);
		session_advance(w->session, event->cursor, NOW);
	}
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	must(*why, "rejected without a reason");
	say(ctx, why, bytes);
}

static void on_send(void *ctx, struct slice frame)
{
	must_be_json("a reply", frame);
	say(ctx, "send", frame);
}

static void on_action(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	must(rule->action == ACTION_RECONNECT || rule->action == ACTION_FATAL, "an action that is none");
	say(ctx, "action", frame);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	struct witness *w = ctx;

	must_be_json("the cursor", cursor);
	session_advance(w->session, cursor, NOW);
}

static void on_ack(void *ctx, struct slice frame)
{
	must_be_json("an ack", frame);
	say(ctx, "ack", frame);
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	say(ctx, rule->name ? rule->name : "", frame);
}

static void on_filtered(void *ctx)
{
	say(ctx, "filtered", (struct slice){NULL, 0});
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_action,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_rule = on_rule,
	.on_filtered = on_filtered,
};

static void connect_to(struct witness *w)
{
	struct session_dial dial;

	session_connect(w->session, NOW, 0, 0, &dial);
	must_be_json("the URL", dial.url_json);
	say(w, dial.url ? dial.url : "", dial.url_json);
	for (size_t i = 0; i < dial.on_open_count; i++)
		on_send(w, dial.on_open[i]);
}

/* Reads a copy of exact size, so that ASan detects an overrun. */
static void read_frame(struct witness *w, const char *text, size_t len)
{
	char *copy = memcpy(malloc(len ? len : 1), text, len);

	session_read(w->session, copy, len, &handler, w);
	free(copy);
	session_trouble(w->session);
}

static void witness_open(struct witness *w, const struct profile *p)
{
	*w = (struct witness){session_new(p, false), gaps_new(), 0};
}

static void witness_close(struct witness *w)
{
	session_free(w->session);
	gaps_free(w->gaps);
}

/* A session that continues from this one must have the same variables and cursor. */
static void check_successor(struct witness *w, const struct profile *p)
{
	struct session *next = session_new(p, false);
	struct slice mark = session_mark(w->session), shown;
	struct bytes cursor = {NULL, 0, 0};

	shown = session_save(w->session);
	must_be_json("what is saved", shown);
	must(session_load(next, shown), "what was saved cannot be loaded");
	if (mark.at) {
		must(session_restore(next, mark, 0), "the mark %.*s cannot be restored", (int)mark.len, mark.at);
		shown = session_cursor(w->session);
		bytes_add(&cursor, shown.at, shown.len);
		shown = session_cursor(next);
		must(shown.len == cursor.len && memcmp(shown.at, cursor.at, shown.len) == 0, "another cursor: %.*s",
		     (int)shown.len, shown.at);
	}
	bytes_free(&cursor);
	session_free(next);
}

static void play(const struct profile *p, const char *lines, const char *end)
{
	struct witness one, other;

	witness_open(&one, p);
	witness_open(&other, p);
	connect_to(&one);
	connect_to(&other);
	while (lines < end) {
		const char *line_end = memchr(lines, '\n', (size_t)(end - lines));
		size_t len = (size_t)((line_end ? line_end : end) - lines);

		if (!len) {
			connect_to(&one);
			connect_to(&other);
		} else {
			read_frame(&one, lines, len);
			read_frame(&other, lines, len);
		}
		must(one.said == other.said, "the same frame is not the same");
		lines += len + 1;
	}
	check_successor(&one, p);
	witness_close(&one);
	witness_close(&other);
}

void try_input(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = text + size, *nul = memchr(text, '\0', size);
	struct profile_fault fault = {""};

	if (!nul || memmem(data, size, "file:", 5) || memmem(data, size, "_dictionary", 11)) /* it would be read */
		return;
	struct profile *p = profile_parse(text, (size_t)(nul - text), "input", NULL, &fault);
	must(p || *fault.text, "refused without a reason");
	for (const char *at = fault.text; *at; at++)
		must((unsigned char)*at >= ' ', "a control character in the fault: %s", fault.text);
	if (p)
		play(p, nul + 1, end);
	profile_free(p);
}
