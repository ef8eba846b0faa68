/* feeds.c replaces intake/feed_client.c: it plays feeds that number their frames, send from a cursor on and want
 * acks, and checks what listeners do with them. Profiles, ledgers and cursors are the program's own code. */
#include "feeds.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed/session.h"
#include "intake/feed_client.h"
#include "intake/fill.h"
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
	struct feed_connection *conn; /* the connection it was sent to, if each frame goes to one; NULL if none yet */
};

struct feed_connection {
	struct feed_client *client;
	void *of; /* NULL if not open */
	int64_t cursor;
	int next;         /* next frame to send; counts down while stored frames are sent */
	bool is_stored;   /* sending stored frames, newest first */
	bool is_held;     /* paused, because the listener owes too many acks */
	bool is_on_a_way; /* a frame is in transit */
	int sent[FRAMES_MAX];
	int64_t sent_at[FRAMES_MAX];
	int sent_count;
};

/* One per life of a listener. */
struct feed_client {
	struct feed_client_parts p;
	int process;
	unsigned int life;
	int64_t began_at;
	unsigned int attempt; /* events of older attempts are ignored */
	bool is_started;
	struct feed_connection *conn;
	struct feed_connection *old; /* the previous connection, which is still read and acked for a while */
};

static struct {
	const struct plan *plan;
	struct frame frames[FRAMES_MAX];
	int count;
	int64_t number;
	struct feed_client *current[SIM_LISTENERS];
	unsigned int lives[SIM_LISTENERS];
	int64_t deaf_until[SIM_LISTENERS];
	int turn; /* whose turn is next, if each frame goes to one connection */
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
		"\",%s%s,\"default\":\"reject\",\"rules\":[{\"name\":\"items\",\"when\":{\"/"
		"items\":{\"exists\":true}},\"action\":\"event\",\"explode\":\"/items/*\",\"id\":[[\"/"
		"event_id\"]],\"type\":\"/event_type\",\"payload\":\"/payload\"%s%s},"
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

static void check_frame(const struct frame *f, const char *what, int64_t at)
{
	for (int i = 0; i < f->count; i++)
		if (!checker_has(f->items[i]))
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
			check_frame(&feeds.frames[i], "the cursor is", at);
}

void sim_forgot_cursor(void)
{
	feeds.stored_at = -1;
}

/* A listener that starts must continue where the fleet was. */
static void check_dial(const struct feed_client *c, const char *url)
{
	if (feeds.stored_at >= 0 && feeds.stored_at < c->began_at && !strstr(url, "cursor="))
		process_fail("listener %d begins anew, though a cursor was stored before it started", c->process);
}

static void check_ack(struct feed_connection *conn, int64_t number)
{
	int place = conn->sent_count - 1;

	while (place >= 0 && feeds.frames[conn->sent[place]].number != number)
		place--;
	if (place < 0)
		process_fail("an ack of frame %lld, which was not sent over this connection", (long long)number);
	sim_reached("feed", "a frame is acked");
	for (int i = settings()->kind == FEED_CUMULATIVE ? 0 : place; i <= place; i++) {
		struct frame *f = &feeds.frames[conn->sent[i]];

		if (!f->is_acked && !checker_trusts_old_marks(conn->sent_at[i]))
			check_frame(f, "the ack is of", number);
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
		const struct feed_client *c = feeds.current[i];

		if (!c || !c->conn || !c->conn->of || c->conn->is_stored ||
		    (!is_acked_kind() && c->conn->next < feeds.count))
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
		check_frame(&feeds.frames[i], "all is over, at frame", feeds.number);
}

/* --- the server's side --- */

static void pump(struct feed_connection *conn);

struct call {
	struct feed_client *client;
	unsigned int attempt;
	struct feed_connection *conn; /* NULL for the client itself */
	int frame;                    /* -1: none */
};

static bool is_void(const struct call *call)
{
	const struct feed_client *c = call->client;

	if (feeds.lives[c->process] != c->life)
		return true;
	return call->conn ? !call->conn->of : c->attempt != call->attempt;
}

struct later {
	void (*fn)(void *arg);
	struct call call;
};

static void go_to_listener(void *arg)
{
	struct later *l = arg;

	if (!is_void(&l->call))
		process_call(l->call.client->process, l->fn, &l->call);
}

static void call_later(struct feed_client *c, int64_t delay_us, void (*fn)(void *arg), struct feed_connection *conn,
		       int frame)
{
	struct later *l = sim_alloc(sizeof(*l));

	*l = (struct later){fn, {c, c->attempt, conn, frame}};
	sim_at(delay_us, go_to_listener, l);
}

static void on_event(void *ctx, const struct session_event *event)
{
	const struct feed_connection *conn = ctx;

	conn->client->p.callbacks->on_event(conn->of, event);
}

static void on_reject(void *ctx, struct slice bytes, const char *why)
{
	const struct feed_connection *conn = ctx;

	conn->client->p.callbacks->on_reject(conn->of, bytes, why);
}

static void on_cursor(void *ctx, struct slice cursor)
{
	const struct feed_connection *conn = ctx;

	conn->client->p.callbacks->on_cursor(conn->of, cursor);
}

static void on_ack(void *ctx, struct slice frame)
{
	const struct feed_connection *conn = ctx;

	conn->client->p.callbacks->on_ack(conn->of, frame);
}

static void on_release(void *ctx)
{
	const struct feed_connection *conn = ctx;

	conn->client->p.callbacks->on_release(conn->of);
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
	.on_release = on_release,
};

/* In the listener's loop. */
static void read_text(struct feed_connection *conn, const char *text)
{
	struct feed_client *c = conn->client;

	sim_log(c->process, "reads %s", text);
	c->p.callbacks->on_message(conn->of, text, strlen(text));
	session_read(c->p.session, text, strlen(text), &handler, conn);
	c->p.callbacks->on_read(conn->of);
}

static void receive(void *arg)
{
	const struct call *call = arg;
	struct feed_connection *conn = is_void(call) ? NULL : call->conn;
	const struct frame *f = &feeds.frames[call->frame];

	if (!conn)
		return;
	conn->is_on_a_way = false;
	conn->sent_at[conn->sent_count] = sim_now();
	conn->sent[conn->sent_count++] = call->frame;
	for (int i = 0; i < f->count; i++)
		checker_received(conn->client->process, world_life(conn->client->process), f->items[i]);
	feeds.items_read += f->count;
	steps_receiving();
	read_text(conn, f->text);
	steps_received();
	pump(conn);
}

static void receive_end_of_stored(void *arg)
{
	const struct call *call = arg;
	struct feed_connection *conn = is_void(call) ? NULL : call->conn;

	if (!conn)
		return;
	conn->is_on_a_way = false;
	read_text(conn, "{\"eose\":1}");
	pump(conn);
}

static int count_unacked(const struct feed_connection *conn)
{
	int n = 0;

	for (int i = 0; i < conn->sent_count; i++)
		n += feeds.frames[conn->sent[i]].wants_ack && !feeds.frames[conn->sent[i]].is_acked;
	return n;
}

static void send_frame(struct feed_connection *conn, int frame)
{
	int most = is_acked_kind() ? settings()->max_unacked : 0;

	if (most && count_unacked(conn) >= most)
		process_fail("listener %d reads a connection that waits for %d acks", conn->client->process,
			     count_unacked(conn));
	conn->is_on_a_way = true;
	call_later(conn->client, sim_between(10, 3000), receive, conn, frame);
}

/* Sends stored frames newest first, then an end marker, then the frames that arrived meanwhile. */
static void pump_stored(struct feed_connection *conn)
{
	while (conn->next >= 0 && feeds.frames[conn->next].number > conn->cursor) {
		send_frame(conn, conn->next--);
		return;
	}
	conn->is_stored = false;
	conn->is_on_a_way = true;
	conn->next = conn->sent_count ? conn->sent[0] + 1 : conn->next + 1;
	call_later(conn->client, sim_between(10, 3000), receive_end_of_stored, conn, -1);
}

/* The next frame assigned to this connection. */
static int find_own(const struct feed_connection *conn)
{
	for (int i = 0; i < feeds.count; i++)
		if (feeds.frames[i].conn == conn && !feeds.frames[i].is_acked) {
			bool is_sent = false;

			for (int k = 0; k < conn->sent_count; k++)
				is_sent |= conn->sent[k] == i;
			if (!is_sent)
				return i;
		}
	return -1;
}

/* Sends one frame at a time, to keep them in order. */
static void pump(struct feed_connection *conn)
{
	int own;

	if (!conn->of || conn->is_held || conn->is_on_a_way)
		return;
	if (conn->is_stored) {
		pump_stored(conn);
	} else if (is_acked_kind()) {
		own = find_own(conn);
		if (own >= 0)
			send_frame(conn, own);
	} else if (conn->next < feeds.count) {
		send_frame(conn, conn->next++);
	}
}

/* Assigns unassigned frames to open connections. */
static void assign(void)
{
	for (int i = 0; i < feeds.count && is_acked_kind(); i++) {
		struct frame *f = &feeds.frames[i];

		for (int k = 0; k < feeds.plan->settings.listeners && !f->conn && !f->is_acked; k++) {
			const struct feed_client *c = feeds.current[(feeds.turn + k) % feeds.plan->settings.listeners];

			if (c && c->conn && c->conn->of)
				f->conn = c->conn;
		}
		feeds.turn++;
	}
}

static void pump_all(void)
{
	assign();
	for (int i = 0; i < SIM_LISTENERS; i++)
		for (int k = 0; k < 2 && feeds.current[i]; k++) {
			struct feed_connection *conn = k ? feeds.current[i]->old : feeds.current[i]->conn;

			if (conn)
				pump(conn);
		}
}

/* --- connections --- */

static void end_connection(struct feed_client *c, struct feed_connection **at)
{
	struct feed_connection *conn = *at;

	*at = NULL;
	for (int i = 0; i < feeds.count; i++)
		if (feeds.frames[i].conn == conn && conn)
			feeds.frames[i].conn = NULL;
	if (conn && conn->of)
		c->p.callbacks->on_close(conn->of);
	if (conn)
		conn->of = NULL;
	pump_all();
}

static void end_old(void *arg)
{
	const struct call *call = arg;

	if (!is_void(call) && call->conn == call->client->old)
		end_connection(call->client, &call->client->old);
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
	struct feed_client *c = call->client;
	struct session_dial dial;
	struct feed_connection *conn;

	if (is_void(call))
		return;
	if (sim_now() < feeds.deaf_until[c->process]) {
		call_later(c, sim_between(1000, SECOND / 2), connect_now, NULL, -1);
		return;
	}
	session_connect(c->p.session, sim_wall() / 1000, 0, 0, &dial);
	check_dial(c, dial.url);
	conn = sim_alloc(sizeof(*conn));
	*conn = (struct feed_connection){.client = c, .cursor = cursor_of(dial.url)};
	conn->is_stored = settings()->kind == FEED_HELD;
	conn->next = conn->is_stored ? feeds.count - 1 : first_behind(conn->cursor);
	c->conn = conn;
	sim_log(c->process, "dials %s", dial.url);
	conn->of = c->p.callbacks->on_open(c->p.arg, conn);
	pump_all();
}

/* In the listener's loop. */
static void lose_connection(void *arg)
{
	const struct call *call = arg;
	struct feed_client *c = call->client;

	if (is_void(call) || !c->conn)
		return;
	c->attempt++;
	if (c->p.profile->overlap_s && !c->old && sim_now() >= feeds.deaf_until[c->process]) {
		sim_log(c->process, "connects once more");
		c->old = c->conn;
		c->conn = NULL;
		call_later(c, sim_between(SECOND / 2, 2 * SECOND), end_old, c->old, -1);
	} else {
		sim_log(c->process, "has lost its feed");
		end_connection(c, &c->conn);
	}
	call_later(c, sim_between(1000, SECOND / 2), connect_now, NULL, -1);
}

void feeds_cut(int process, int64_t lasts_us)
{
	if (lasts_us && feeds.deaf_until[process] < sim_now() + lasts_us)
		feeds.deaf_until[process] = sim_now() + lasts_us;
	if (feeds.current[process] && feeds.current[process]->conn)
		call_later(feeds.current[process], 1, lose_connection, NULL, -1);
}

void feeds_calm(void)
{
	memset(feeds.deaf_until, 0, sizeof(feeds.deaf_until));
}

void feeds_died(int process)
{
	struct feed_client *c = feeds.current[process];

	feeds.lives[process]++;
	feeds.current[process] = NULL;
	for (int i = 0; c && i < feeds.count; i++)
		if (feeds.frames[i].conn && feeds.frames[i].conn->client == c)
			feeds.frames[i].conn = NULL;
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

/* --- intake/feed_client.h --- */

struct feed_client *feed_client_new(const struct feed_client_parts *parts)
{
	struct feed_client *c = sim_alloc(sizeof(*c));

	*c = (struct feed_client){
		.p = *parts, .process = sim_self(), .life = feeds.lives[sim_self()], .began_at = sim_now()};
	feeds.current[c->process] = c;
	return c;
}

void feed_client_start(struct feed_client *c)
{
	if (c->is_started)
		return;
	c->is_started = true;
	call_later(c, sim_between(100, 5000), connect_now, NULL, -1);
}

void feed_client_forget_numbers(struct feed_client *c)
{
	(void)c;
}

void feed_client_stop(struct feed_client *c, unsigned int code)
{
	(void)code;
	c->is_started = false;
	c->attempt++;
	end_connection(c, &c->conn);
	end_connection(c, &c->old);
}

/* Nobody asks for it: no sources.c tells presence of these connections. */
void feed_client_redial(struct feed_client *c, const char *reason)
{
	(void)c, (void)reason;
}

/* No profile of the simulation has shards. */
void feed_client_renew(struct feed_client *c)
{
	(void)c;
}

void feed_client_tell(struct feed_client *c, const json_t *message)
{
	(void)c, (void)message;
}

void feed_client_tell_more(struct feed_client *c, const json_t *message)
{
	(void)c, (void)message;
}

bool feed_client_is_renewed(const struct feed_client *c)
{
	(void)c;
	return true;
}

void feed_client_turn(struct feed_client *c)
{
	(void)c;
}

void feed_client_mask(const struct feed_client *c, char *text)
{
	(void)c, (void)text;
}

void feed_client_set_session(struct feed_client *c, struct session *session)
{
	c->p.session = session;
}

void feed_client_close(struct feed_client *c)
{
	(void)c;
}

void feed_client_free(struct feed_client *c)
{
	(void)c;
}

struct source_view feed_client_view(const struct feed_client *c)
{
	(void)c;
	return (struct source_view){.url = ""};
}

void feed_connection_send(struct feed_connection *conn, struct slice frame)
{
	char *text = sim_copy(frame.at, frame.len);

	sim_log(sim_self(), "sends %s", text);
	if (strncmp(text, "{\"seq\":", 7) != 0)
		process_fail("an ack that is none: %s", text);
	check_ack(conn, strtoll(text + 7, NULL, 10));
}

static void read_again(void *arg)
{
	const struct call *call = arg;

	if (!is_void(call))
		pump(call->conn);
}

void feed_connection_hold(struct feed_connection *conn, bool is_held)
{
	sim_reached("feed", is_held ? "it is not read any more" : "it is read again");
	conn->is_held = is_held;
	if (!is_held)
		call_later(conn->client, 10, read_again, conn, -1);
}

/* --- intake/fill.c: no profile of the simulator has holes filled --- */

struct fill *fill_new(const struct fill_parts *parts)
{
	(void)parts;
	return NULL;
}

void fill_hole(struct fill *f, const struct session_event *event)
{
	(void)f, (void)event;
}

void fill_reconnected(struct fill *f)
{
	(void)f;
}

uint64_t fill_filled(const struct fill *f)
{
	(void)f;
	return 0;
}

void fill_close(struct fill *f)
{
	(void)f;
}

void fill_free(struct fill *f)
{
	(void)f;
}
