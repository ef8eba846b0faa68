/* feeds.c replaces intake/conversation.c: it plays feeds that number their frames, send from a cursor on and want
 * acks, and checks what listeners do with them. Profiles, ledgers and cursors are the program's own code. */
#include "feeds.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed/session.h"
#include "intake/conversation.h"
#include "steps.h"

#define SECOND     INT64_C(1000000)
#define FRAMES_MAX 2000
#define ITEMS_MAX  3

/* A frame that the feed has sent. */
struct frame {
	int64_t number;
	const char *text;
	int items[ITEMS_MAX]; /* the messages in it */
	int count;
	bool wants_ack;
	bool is_acked;
	struct line *line; /* the line it was sent to, if each frame goes to one line; NULL if none yet */
};

struct line {
	struct conversation *conversation;
	void *of; /* NULL if not open */
	int64_t cursor;
	int next;         /* next frame to send; counts down while stored frames are sent */
	bool is_stored;   /* sending stored frames, newest first */
	bool is_held;     /* paused, because the listener owes too many acks */
	bool is_on_a_way; /* a frame is in transit */
	int sent[FRAMES_MAX];
	int sent_count;
};

/* One per life of a listener. */
struct conversation {
	struct conversation_parts p;
	int process;
	unsigned int life;
	int64_t began_at;
	unsigned int attempt; /* events of older attempts are ignored */
	bool is_started;
	struct line *line;
	struct line *old; /* the previous connection, which is still read and acked for a while */
};

static struct {
	const struct plan *plan;
	struct frame frames[FRAMES_MAX];
	int count;
	int64_t number;
	struct conversation *current[SIM_LISTENERS];
	unsigned int lives[SIM_LISTENERS];
	int64_t deaf_until[SIM_LISTENERS];
	int turn; /* whose turn is next, if each frame goes to one line */
	struct profile *profile;
	double items_read;
	int64_t stored_at; /* when a cursor was stored that is not forgotten; -1 if none */
} feeds;

static const struct feed_settings *settings(void)
{
	return &feeds.plan->settings.feed;
}

static bool is_acked_kind(void)
{
	return settings()->kind == FEED_ACKED || settings()->kind == FEED_CUMULATIVE;
}

/* --- the profile --- */

static const char *const kind_names[] = {"plain", "cursor", "held", "acked", "cumulative"};

const char *feeds_describe(const struct feed_settings *s)
{
	return s->kind == FEED_PLAIN ? "" : sim_print(", a %s feed", kind_names[s->kind]);
}

static const char *members(const struct feed_settings *s)
{
	if (s->kind == FEED_ACKED || s->kind == FEED_CUMULATIVE)
		return sim_print("\"fleet\":\"shared\",\"overlap_s\":%d,\"ack_mode\":\"%s\",\"max_unacked\":%d",
				 s->overlap_s, s->kind == FEED_ACKED ? "each" : "cumulative", s->max_unacked);
	return sim_print("\"overlap_s\":%d,\"cursor\":{\"kind\":\"%s\",\"scope\":\"source\",\"rewind\":%d%s}",
			 s->overlap_s, s->is_last ? "last" : "max", s->rewind,
			 s->kind == FEED_HELD ? ",\"hold_until\":{\"/eose\":1}" : "");
}

static struct profile *make_profile(const struct feed_settings *s)
{
	bool has_cursor = s->kind == FEED_CURSOR || s->kind == FEED_HELD;
	const char *text = sim_print(
		"{\"name\":\"numbers\",\"url\":\"ws://feed/"
		"\",%s%s,\"default\":\"reject\",\"rules\":[{\"name\":\"items\","
		"\"when\":{\"/items\":{\"exists\":true}},\"action\":\"event\",\"explode\":\"/items/*\","
		"\"id\":[[\"/event_id\"]],\"type\":\"/event_type\",\"payload\":\"/payload\"%s%s},"
		"{\"when\":{\"/eose\":1},\"action\":\"ignore\"}]}",
		has_cursor ? "\"url_resume\":\"ws://feed/?cursor=${cursor}\"," : "", members(s),
		has_cursor ? ",\"cursor\":\"^/seq\"" : "", has_cursor ? "" : ",\"ack\":{\"seq\":\"${/seq}\"}");
	struct profile_fault fault;
	struct profile *p = profile_parse(text, strlen(text), "feeds.c", NULL, &fault);

	if (!p)
		process_fail("the profile is wrong: %s", fault.text);
	return p;
}

struct profile *feeds_profile(void)
{
	return feeds.profile;
}

void feeds_start(const struct plan *plan)
{
	profile_free(feeds.profile);
	memset(&feeds, 0, sizeof(feeds));
	feeds.plan = plan;
	feeds.stored_at = -1;
	if (settings()->kind != FEED_PLAIN)
		feeds.profile = make_profile(settings());
}

/* The identity of a profile's event: the lengths of id and type, id, type, and payload. */
void feeds_digest(const char *id, const char *payload, unsigned char digest[32])
{
	static const unsigned char lengths[8] = {[7] = 1};
	char *bytes = sim_print("%.8s%st%s", "........", id, payload);
	size_t len = strlen(bytes);

	memcpy(bytes, lengths, sizeof(lengths));
	bytes[3] = (char)strlen(id);
	SHA256((const unsigned char *)bytes, len, digest);
}

/* --- what is right --- */

static void check_frame(const struct frame *f, const char *what, int64_t at, bool (*is_stored)(int message))
{
	for (int i = 0; i < f->count; i++)
		if (!is_stored(f->items[i]))
			process_fail("%s %lld, but message %d of frame %lld has neither row nor letter", what,
				     (long long)at, f->items[i], (long long)f->number);
}

void sim_committed_cursor(int process, const char *value)
{
	int64_t at = strtoll(value, NULL, 10);

	sim_log(process, "the cursor is %s", value);
	sim_reached("feed", "a cursor is stored");
	if (feeds.stored_at < 0)
		feeds.stored_at = sim_now();
	for (int i = 0; i < feeds.count; i++)
		if (feeds.frames[i].number <= at)
			check_frame(&feeds.frames[i], "the cursor is", at, checker_has);
}

void sim_forgot_cursor(void)
{
	feeds.stored_at = -1;
}

/* A listener that starts must continue where the fleet was. */
static void check_dial(const struct conversation *c, const char *url)
{
	if (feeds.stored_at >= 0 && feeds.stored_at < c->began_at && !strstr(url, "cursor="))
		process_fail("listener %d begins anew, though a cursor was stored before it started", c->process);
}

static void check_ack(struct line *line, int64_t number)
{
	int place = line->sent_count - 1;

	while (place >= 0 && feeds.frames[line->sent[place]].number != number)
		place--;
	if (place < 0)
		process_fail("an ack of frame %lld, which was not sent over this connection", (long long)number);
	sim_reached("feed", "a frame is acked");
	for (int i = settings()->kind == FEED_CUMULATIVE ? 0 : place; i <= place; i++) {
		struct frame *f = &feeds.frames[line->sent[i]];

		if (!f->is_acked)
			check_frame(f, "the ack is of", number, checker_had);
		f->is_acked = true;
	}
}

double feeds_items_read(void)
{
	return feeds.items_read;
}

/* No feed has anything left to send. */
bool feeds_have_settled(void)
{
	if (settings()->kind == FEED_PLAIN)
		return true;
	for (int i = 0; i < feeds.plan->settings.listeners; i++) {
		const struct conversation *c = feeds.current[i];

		if (!c || !c->line || !c->line->of || c->line->is_stored ||
		    (!is_acked_kind() && c->line->next < feeds.count))
			return false;
	}
	for (int i = 0; i < feeds.count && is_acked_kind(); i++)
		if (feeds.frames[i].wants_ack && !feeds.frames[i].is_acked)
			return false;
	return true;
}

/* Every listener connected at the end must have received everything. */
void feeds_finish(bool has_forgotten)
{
	for (int i = 0; i < feeds.count && !(is_acked_kind() && has_forgotten); i++)
		check_frame(&feeds.frames[i], "all is over, at frame", feeds.number, checker_has);
}

/* --- the server's side --- */

static void pump(struct line *line);

struct call {
	struct conversation *conversation;
	unsigned int attempt;
	struct line *line; /* NULL for the conversation itself */
	int frame;         /* -1: none */
};

static bool is_void(const struct call *call)
{
	const struct conversation *c = call->conversation;

	if (feeds.lives[c->process] != c->life)
		return true;
	return call->line ? !call->line->of : c->attempt != call->attempt;
}

struct later {
	void (*fn)(void *arg);
	struct call call;
};

static void go_to_listener(void *arg)
{
	struct later *l = arg;

	if (!is_void(&l->call))
		process_call(l->call.conversation->process, l->fn, &l->call);
}

static void call_later(struct conversation *c, int64_t delay_us, void (*fn)(void *arg), struct line *line, int frame)
{
	struct later *l = sim_alloc(sizeof(*l));

	*l = (struct later){fn, {c, c->attempt, line, frame}};
	sim_at(delay_us, go_to_listener, l);
}

static void on_event(void *ctx, const struct session_event *event)
{
	const struct line *line = ctx;

	line->conversation->p.sink->on_event(line->of, event);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	const struct line *line = ctx;

	line->conversation->p.sink->on_reject(line->of, bytes, why);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	const struct line *line = ctx;

	line->conversation->p.sink->on_cursor(line->of, cursor);
}

static void on_ack(void *ctx, struct slice frame)
{
	const struct line *line = ctx;

	line->conversation->p.sink->on_ack(line->of, frame);
}

static bool is_held(void *ctx)
{
	const struct line *line = ctx;

	return line->conversation->p.sink->is_held(line->of);
}

static void on_release(void *ctx)
{
	const struct line *line = ctx;

	line->conversation->p.sink->on_release(line->of);
}

static void on_nothing(void *ctx)
{
	(void)ctx;
}

static void on_send(void *ctx, struct slice frame)
{
	(void)ctx, (void)frame;
}

static void on_rule(void *ctx, const struct profile_rule *rule, struct slice frame)
{
	(void)ctx, (void)rule, (void)frame;
}

static const struct session_handler handler = {
	.on_event = on_event,
	.on_reject = on_reject,
	.on_send = on_send,
	.on_action = on_rule,
	.on_cursor = on_cursor,
	.on_ack = on_ack,
	.on_rule = on_rule,
	.on_filtered = on_nothing,
	.is_held = is_held,
	.on_release = on_release,
};

/* In the listener's loop. */
static void read_text(struct line *line, const char *text)
{
	struct conversation *c = line->conversation;

	sim_log(c->process, "reads %s", text);
	c->p.sink->on_message(line->of, text, strlen(text));
	session_read(c->p.session, text, strlen(text), &handler, line);
	c->p.sink->on_read(line->of);
}

static void receive(void *arg)
{
	const struct call *call = arg;
	struct line *line = is_void(call) ? NULL : call->line;
	const struct frame *f = &feeds.frames[call->frame];

	if (!line)
		return;
	line->is_on_a_way = false;
	line->sent[line->sent_count++] = call->frame;
	for (int i = 0; i < f->count; i++)
		checker_received(line->conversation->process, world_life(line->conversation->process), f->items[i]);
	feeds.items_read += f->count;
	read_text(line, f->text);
	steps_received();
	pump(line);
}

static void receive_end_of_stored(void *arg)
{
	const struct call *call = arg;
	struct line *line = is_void(call) ? NULL : call->line;

	if (!line)
		return;
	line->is_on_a_way = false;
	read_text(line, "{\"eose\":1}");
	pump(line);
}

static int count_unacked(const struct line *line)
{
	int n = 0;

	for (int i = 0; i < line->sent_count; i++)
		n += feeds.frames[line->sent[i]].wants_ack && !feeds.frames[line->sent[i]].is_acked;
	return n;
}

static void send_frame(struct line *line, int frame)
{
	int most = is_acked_kind() ? settings()->max_unacked : 0;

	if (most && count_unacked(line) >= most)
		process_fail("listener %d reads a connection that waits for %d acks", line->conversation->process,
			     count_unacked(line));
	line->is_on_a_way = true;
	call_later(line->conversation, sim_between(10, 3000), receive, line, frame);
}

/* Sends stored frames newest first, then an end marker, then the frames that arrived meanwhile. */
static void pump_stored(struct line *line)
{
	while (line->next >= 0 && feeds.frames[line->next].number > line->cursor) {
		send_frame(line, line->next--);
		return;
	}
	line->is_stored = false;
	line->is_on_a_way = true;
	line->next = line->sent_count ? line->sent[0] + 1 : line->next + 1;
	call_later(line->conversation, sim_between(10, 3000), receive_end_of_stored, line, -1);
}

/* The next frame assigned to this line. */
static int find_own(const struct line *line)
{
	for (int i = 0; i < feeds.count; i++)
		if (feeds.frames[i].line == line && !feeds.frames[i].is_acked) {
			bool is_sent = false;

			for (int k = 0; k < line->sent_count; k++)
				is_sent |= line->sent[k] == i;
			if (!is_sent)
				return i;
		}
	return -1;
}

/* Sends one frame at a time, to keep them in order. */
static void pump(struct line *line)
{
	int own;

	if (!line->of || line->is_held || line->is_on_a_way)
		return;
	if (line->is_stored) {
		pump_stored(line);
	} else if (is_acked_kind()) {
		own = find_own(line);
		if (own >= 0)
			send_frame(line, own);
	} else if (line->next < feeds.count) {
		send_frame(line, line->next++);
	}
}

/* Assigns unassigned frames to open lines. */
static void assign(void)
{
	for (int i = 0; i < feeds.count && is_acked_kind(); i++) {
		struct frame *f = &feeds.frames[i];

		for (int k = 0; k < feeds.plan->settings.listeners && !f->line && !f->is_acked; k++) {
			const struct conversation *c = feeds.current[(feeds.turn + k) % feeds.plan->settings.listeners];

			if (c && c->line && c->line->of)
				f->line = c->line;
		}
		feeds.turn++;
	}
}

static void pump_all(void)
{
	assign();
	for (int i = 0; i < SIM_LISTENERS; i++)
		for (int k = 0; k < 2 && feeds.current[i]; k++) {
			struct line *line = k ? feeds.current[i]->old : feeds.current[i]->line;

			if (line)
				pump(line);
		}
}

/* --- connections --- */

static void end_line(struct conversation *c, struct line **at)
{
	struct line *line = *at;

	*at = NULL;
	for (int i = 0; i < feeds.count; i++)
		if (feeds.frames[i].line == line && line)
			feeds.frames[i].line = NULL;
	if (line && line->of)
		c->p.sink->on_close(line->of);
	if (line)
		line->of = NULL;
	pump_all();
}

static void end_old(void *arg)
{
	const struct call *call = arg;

	if (!is_void(call) && call->line == call->conversation->old)
		end_line(call->conversation, &call->conversation->old);
}

static int64_t cursor_of(const char *url)
{
	const char *at = strstr(url, "cursor=");

	return at ? strtoll(at + 7, NULL, 10) : -1;
}

static int first_behind(int64_t cursor)
{
	int i = 0;

	while (i < feeds.count && feeds.frames[i].number <= cursor)
		i++;
	return i;
}

/* In the listener's loop. */
static void connect_now(void *arg)
{
	const struct call *call = arg;
	struct conversation *c = call->conversation;
	struct session_dial dial;
	struct line *line;

	if (is_void(call))
		return;
	if (sim_now() < feeds.deaf_until[c->process]) {
		call_later(c, sim_between(1000, SECOND / 2), connect_now, NULL, -1);
		return;
	}
	session_connect(c->p.session, sim_wall() / 1000, 0, 0, &dial);
	check_dial(c, dial.url);
	line = sim_alloc(sizeof(*line));
	*line = (struct line){.conversation = c, .cursor = cursor_of(dial.url)};
	line->is_stored = settings()->kind == FEED_HELD;
	line->next = line->is_stored ? feeds.count - 1 : first_behind(line->cursor);
	c->line = line;
	sim_log(c->process, "dials %s", dial.url);
	line->of = c->p.sink->on_open(c->p.arg, line);
	pump_all();
}

/* In the listener's loop. */
static void lose_connection(void *arg)
{
	const struct call *call = arg;
	struct conversation *c = call->conversation;

	if (is_void(call) || !c->line)
		return;
	c->attempt++;
	if (c->p.profile->overlap_s && !c->old && sim_now() >= feeds.deaf_until[c->process]) {
		sim_log(c->process, "connects once more");
		c->old = c->line;
		c->line = NULL;
		call_later(c, sim_between(SECOND / 2, 2 * SECOND), end_old, c->old, -1);
	} else {
		sim_log(c->process, "has lost its feed");
		end_line(c, &c->line);
	}
	call_later(c, sim_between(1000, SECOND / 2), connect_now, NULL, -1);
}

void feeds_cut(int process, int64_t lasts_us)
{
	if (lasts_us && feeds.deaf_until[process] < sim_now() + lasts_us)
		feeds.deaf_until[process] = sim_now() + lasts_us;
	if (feeds.current[process] && feeds.current[process]->line)
		call_later(feeds.current[process], 1, lose_connection, NULL, -1);
}

void feeds_calm(void)
{
	memset(feeds.deaf_until, 0, sizeof(feeds.deaf_until));
}

void feeds_died(int process)
{
	struct conversation *c = feeds.current[process];

	feeds.lives[process]++;
	feeds.current[process] = NULL;
	for (int i = 0; c && i < feeds.count; i++)
		if (feeds.frames[i].line && feeds.frames[i].line->conversation == c)
			feeds.frames[i].line = NULL;
	pump_all();
}

/* --- messages --- */

void feeds_publish(int message, unsigned int to, uint64_t draw)
{
	const struct message *m = &feeds.plan->messages[message];
	struct frame *f = &feeds.frames[feeds.count];
	char *items = sim_print("%s", m->bytes);

	if (feeds.count == FRAMES_MAX)
		process_fail("too many frames");
	feeds.number += 1 + (int64_t)sim_dice(&draw, 2);
	*f = (struct frame){.number = feeds.number, .items = {message}, .count = 1};
	while (m->event >= 0 && f->count < ITEMS_MAX && sim_dice(&draw, 3) == 0) {
		int other = (int)sim_dice(&draw, (uint64_t)feeds.plan->message_count);

		if (feeds.plan->messages[other].event < 0)
			break;
		items = sim_print("%s,%s", items, feeds.plan->messages[other].bytes);
		f->items[f->count++] = other;
	}
	f->wants_ack = m->event >= 0;
	f->text = m->event < 0 ? m->bytes : sim_print("{\"seq\":%lld,\"items\":[%s]}", (long long)f->number, items);
	feeds.count++;
	for (int i = 0; i < feeds.plan->settings.listeners; i++)
		if (!(to >> i & 1))
			feeds_cut(i, settings()->overlap_s ? 0 : (int64_t)sim_dice(&draw, (uint64_t)SECOND));
	pump_all();
}

/* --- intake/conversation.h --- */

struct conversation *conversation_new(const struct conversation_parts *parts)
{
	struct conversation *c = sim_alloc(sizeof(*c));

	*c = (struct conversation){
		.p = *parts, .process = sim_self(), .life = feeds.lives[sim_self()], .began_at = sim_now()};
	feeds.current[c->process] = c;
	return c;
}

void conversation_start(struct conversation *c)
{
	if (c->is_started)
		return;
	c->is_started = true;
	call_later(c, sim_between(100, 5000), connect_now, NULL, -1);
}

void conversation_stop(struct conversation *c, unsigned int code)
{
	(void)code;
	c->is_started = false;
	c->attempt++;
	end_line(c, &c->line);
	end_line(c, &c->old);
}

void conversation_set_session(struct conversation *c, struct session *session)
{
	c->p.session = session;
}

void conversation_close(struct conversation *c)
{
	(void)c;
}

void conversation_free(struct conversation *c)
{
	(void)c;
}

struct conversation_view conversation_view(const struct conversation *c)
{
	(void)c;
	return (struct conversation_view){.url = ""};
}

void line_send(struct line *line, struct slice frame)
{
	char *text = sim_copy(frame.at, frame.len);

	sim_log(sim_self(), "sends %s", text);
	if (strncmp(text, "{\"seq\":", 7) != 0)
		process_fail("an ack that is none: %s", text);
	check_ack(line, strtoll(text + 7, NULL, 10));
}

static void read_again(void *arg)
{
	const struct call *call = arg;

	if (!is_void(call))
		pump(call->line);
}

void line_hold(struct line *line, bool is_held)
{
	sim_reached("feed", is_held ? "it is not read any more" : "it is read again");
	line->is_held = is_held;
	if (!is_held)
		call_later(line->conversation, 10, read_again, line, -1);
}
