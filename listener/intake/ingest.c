/* ingest.c owns the producers' WebSocket connections: who may connect, and the acks for their messages. */
#include "intake/ingest.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/port.h"
#include "config/tokens.h"
#include "intake/acks.h"
#include "intake/addresses.h"
#include "intake/lateness.h"
#include "intake/producer_credit.h"
#include "intake/producer_profile.h"
#include "net/acceptor.h"
#include "net/certificate.h"
#include "net/long_head.h"
#include "net/refused_peers.h"
#include "pipeline/pipeline.h"
#include "base/counters.h"
#include "base/text.h"

#define RECEIVE_BYTES 1024 /* libwebsockets' read buffer, one per connection */
/* Maximum size of a TLS record (RFC 8446, section 5.1). libwebsockets loops for ever if reading stops in the middle of
 * one. */
#define RECORD_BYTES 16384
#define ACKS_STOP    (256u << 10) /* bytes of queued acks at which we stop reading from the producer */
#define ACKS_GO      (64u << 10)
#define ACKS_PART \
	8 /* all acks may take 1/8 of the budget; beyond that, we don't read from producers with queued acks */
#define SEND_BYTES   (256u << 10) /* send buffer in the kernel; by default it grows to megabytes */
#define WRITE_BYTES  (16u << 10)  /* bytes of acks per write: libwebsockets buffers what the kernel does not take */
#define ACK_PROTOCOL "wsonce.ack.v1"
#define KEY_CHARS    24 /* length of a Sec-WebSocket-Key in base64 */
#define KEY_BYTES    16 /* bytes of a Sec-WebSocket-Key */

#define LINGER_S 2 /* time for a dismissed producer to close the connection itself */

#define TOKENS_MS 1000 /* how often to check the token file for changes */

#define STRANGERS_TOLD 20 /* most producers of one reload that are named in the log */

#define UPGRADE_REQUIRED  426 /* libwebsockets does not define these */
#define TOO_MANY_REQUESTS 429

/* A producer's connection. It outlives the socket while its messages are in flight. */
struct session {
	struct sender sender; /* must be first: cast from sender */
	struct list open;     /* in ingest.sessions, while the socket is open */
	struct ws_link link;
	struct ingest *ingest;
	struct token *token; /* the token it authenticated with; NULL: none is required */
	struct address *address;
	uint64_t received; /* messages so far; an ack contains the number of its message */
	bool wants_acks;
	bool is_gone; /* the socket is closed: acks are dropped */
	struct producer_credit credit;
	struct list rest; /* in ingest.paused */
	int64_t rest_until_ms;
	unsigned int leave_code; /* not 0: stop reading, and close with this code when all messages are answered */
	unsigned int close_code; /* close with this code once the acks are sent; 0: do not */
	size_t pending;          /* messages not yet answered */
	struct list talker;      /* in a list of struct ingest, while it has acks to send in this turn of the loop */
	struct acks acks;
	size_t acks_charged;             /* memory of acks that the budget counts */
	struct producer_visitor visitor; /* used if there is a profile */
};

/* A socket that is not a WebSocket yet. It is the opaque user data of its wsi. */
struct handshake {
	struct list link; /* in ingest.handshakes */
	struct long_head head;
	struct lws *wsi;
	struct token *token; /* token that authorized it */
	struct address *address;
	int64_t due_ms; /* loop clock, deadline */
	bool is_judged; /* its upgrade was accepted */
	bool is_told;   /* its refusal was logged */
};

struct ingest {
	struct ws *ws;
	const struct config *config;
	struct lws_vhost *vhost;
	struct addresses *addresses;
	struct acceptor *acceptor;
	struct list handshakes;     /* oldest first */
	uv_timer_t handshake_timer; /* deadline of the oldest */
	size_t handshake_count;
	struct list sessions;  /* open sessions */
	struct list paused;    /* sessions of paused producers, ordered by the time when they resume */
	uv_timer_t rest_timer; /* for the first paused session */
	struct list talkers;
	uv_prepare_t turn; /* before each wait for I/O: sends acks */
	size_t session_count;
	size_t acks_bytes; /* memory of all acks, part of the budget */
	size_t acks_limit; /* above this, don't read from producers whose acks the kernel does not take */
	struct refused_peers refusals;
	struct tokens *tokens;
	struct tokens *fresh; /* read by a reload, not yet in use; NULL: none */
	struct certificate_rules certificates;
	struct producer_profile *profile; /* NULL: messages are envelopes */
	struct lateness lateness;
	struct lws_protocols *protocols;
	uv_timer_t tokens_timer;
	bool is_draining;
};

/* --- acks --- */

/* Call after each change of the acks. */
static void charge_acks(struct session *s)
{
	struct ingest *i = s->ingest;
	size_t now = acks_memory(&s->acks);

	if (now == s->acks_charged)
		return;
	i->acks_bytes += now - s->acks_charged;
	ws_charge(i->ws, (long)now - (long)s->acks_charged);
	s->acks_charged = now;
}

static void clear_acks(struct session *s)
{
	acks_clear(&s->acks);
	charge_acks(s);
}

/* Stops reading from a producer that does not read its acks. is_stuck: the kernel takes no more of them. */
static void check_acks(struct session *s, bool is_stuck)
{
	size_t waiting = acks_waiting(&s->acks);

	if (waiting > ACKS_STOP || (is_stuck && s->ingest->acks_bytes > s->ingest->acks_limit))
		ws_link_hold(&s->link, WS_HOLD_ACKS, true);
	else if (is_stuck ? waiting < ACKS_GO : !waiting)
		ws_link_hold(&s->link, WS_HOLD_ACKS, false);
}

/* --- producers that send garbage --- */

static void check_rest(struct session *s)
{
	bool is_read = !s->leave_code && producer_credit_allows(&s->credit, s->pending);

	ws_link_hold(&s->link, WS_HOLD_REST, !is_read);
}

static void on_rest_timer(uv_timer_t *timer)
{
	struct ingest *i = timer->data;
	int64_t now = (int64_t)uv_now(timer->loop);

	list_each(node, after, &i->paused) {
		struct session *s = list_entry(node, struct session, rest);

		if (s->rest_until_ms > now) {
			uv_timer_start(timer, on_rest_timer, (uint64_t)(s->rest_until_ms - now), 0);
			return;
		}
		list_remove(&s->rest);
		producer_credit_resume(&s->credit);
		check_rest(s);
	}
}

static void begin_rest(struct session *s)
{
	struct ingest *i = s->ingest;

	counters.ingest_rests++;
	s->rest_until_ms = (int64_t)uv_now(ws_loop(i->ws)) + PRODUCER_CREDIT_PAUSE_MS;
	list_append(&i->paused, &s->rest);
	if (!uv_is_active((uv_handle_t *)&i->rest_timer))
		uv_timer_start(&i->rest_timer, on_rest_timer, PRODUCER_CREDIT_PAUSE_MS, 0);
}

static void dismiss(struct session *s)
{
	char peer[64] = "";

	counters.ingest_ended++;
	s->leave_code = LWS_CLOSE_STATUS_POLICY_VIOLATION;
	lws_get_peer_simple(s->link.wsi, peer, sizeof(peer));
	log_warn("disconnecting a producer: most of its messages are not events", "peer=%s token=%s", peer,
		 s->token ? s->token->name : NULL);
}

static void check_leave(struct session *s)
{
	if (!s->leave_code || s->pending || s->close_code)
		return;
	s->close_code = s->leave_code;
	ws_link_want_write(&s->link);
}

static int64_t clock_of(const struct ingest *i)
{
	return (int64_t)uv_now(ws_loop(i->ws));
}

/* Each connection has its own credit, but none if its token's debt is twice the credit. */
static enum producer_credit_verdict take_credit(struct session *s, int cost)
{
	if (cost && s->token && !s->leave_code && producer_debt_is_over(s->token->debt_ms, 2, clock_of(s->ingest)))
		return PRODUCER_END;
	return producer_credit_take(&s->credit, cost, s->pending);
}

static void judge_message(struct session *s, int cost)
{
	bool had_rested = s->credit.pauses;

	if (s->ingest->is_draining)
		return;
	switch (take_credit(s, cost)) {
	case PRODUCER_GO_ON:
		break;
	case PRODUCER_PAUSE:
		begin_rest(s);
		break;
	case PRODUCER_END:
		dismiss(s);
		break;
	}
	if (had_rested || s->credit.pauses)
		check_rest(s);
	check_leave(s);
}

/* Schedules sending at the end of this turn of the loop, unless a close frame is sent: RFC 6455, section 5.5.1. */
static void talk(struct session *s)
{
	if (s->is_gone || lws_get_close_length(s->link.wsi)) {
		clear_acks(s);
		return;
	}
	list_remove(&s->talker);
	list_append(&s->ingest->talkers, &s->talker);
	check_acks(s, false);
}

/* Message n or an event in it has settled. */
static void note_answer(void *session, const struct event *ev, enum outcome outcome, uint64_t n)
{
	struct session *s = session;
	int cost = producer_credit_cost_of(ev, outcome);

	s->pending--;
	if (s->token) {
		s->token->rejected += outcome == OUTCOME_REJECTED;
		producer_debt_note(&s->token->debt_ms, cost, clock_of(s->ingest));
	}
	if (!s->link.ws) {
		if (!s->pending)
			free(s);
		return;
	}
	judge_message(s, cost);
	if (!s->wants_acks)
		return;
	acks_add(&s->acks, ev, outcome, n);
	charge_acks(s);
	talk(s);
}

static void answer(struct sender *sender, const struct event *ev, enum outcome outcome)
{
	note_answer(sender, ev, outcome, sender->n);
}

/* The producer is gone: send nothing more, but read what it sent before. */
static void stop_talking(struct session *s)
{
	s->is_gone = true;
	clear_acks(s);
	check_acks(s, false);
}

/* True if a write failed only because the kernel's buffer is full. */
static bool is_passing(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM;
}

/* After a failed write, libwebsockets does not read what the peer had sent. So write to the kernel directly, and let
 * libwebsockets buffer only what the kernel does not take. TLS needs libwebsockets; there, don't write to a connection
 * that is known to be reset. */
static int write_acks(struct session *s, char *at, size_t len)
{
	struct lws *wsi = s->link.wsi;
	int fd = lws_get_socket_fd(wsi);
	bool is_tls = lws_is_ssl(wsi);
	ssize_t n = is_tls ? 0 : send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	size_t sent = n > 0 ? (size_t)n : 0;

	if (is_tls ? ws_is_reset(fd) : n < 0 && !is_passing(errno)) {
		stop_talking(s);
		return 0;
	}
	return sent < len && lws_write(wsi, (unsigned char *)at + sent, len - sent, LWS_WRITE_RAW) < (int)(len - sent)
		       ? -1
		       : 0;
}

/* Writes until all acks are out, or until libwebsockets has to buffer a part. */
static int send_acks(struct session *s)
{
	list_remove(&s->talker);
	while (acks_waiting(&s->acks)) {
		size_t count, len;
		char *at = acks_first(&s->acks, WRITE_BYTES, &len, &count);

		if (lws_partial_buffered(s->link.wsi)) {
			check_acks(s, true);
			ws_link_want_write(&s->link);
			return 0;
		}
		if (write_acks(s, at, len))
			return -1;
		if (s->is_gone)
			return 0;
		acks_sent(&s->acks, len);
		charge_acks(s);
		counters.acks_sent += count;
	}
	check_acks(s, false);
	return 0;
}

/* A writable callback from libwebsockets costs four system calls, more than the write itself, so only sessions with
 * unsent acks wait for one. */
static void on_turn(uv_prepare_t *turn)
{
	struct ingest *i = turn->data;

	list_each(node, after, &i->talkers) {
		struct session *s = list_entry(node, struct session, talker);

		if (send_acks(s))
			ws_kill(i->ws, s->link.wsi);
		else
			ws_link_hook(&s->link);
	}
}

static int send_ping(struct session *s)
{
	unsigned char room[LWS_PRE + sizeof(WS_PING_PAYLOAD)];
	size_t len = strlen(WS_PING_PAYLOAD);

	if (!s->link.is_ping_due || lws_send_pipe_choked(s->link.wsi) || !ws_link_take_ping(&s->link))
		return 0;
	memcpy(room + LWS_PRE, WS_PING_PAYLOAD, len);
	return lws_write(s->link.wsi, room + LWS_PRE, len, LWS_WRITE_PING) < 0 ? -1 : 0;
}

/* Writes the close frame itself: libwebsockets sends none from a writable callback, and gives the peer too little
 * time. */
static void say_goodbye(struct session *s)
{
	const unsigned char frame[] = {0x88, 2, (unsigned char)(s->close_code >> 8), (unsigned char)s->close_code};
	unsigned char room[LWS_PRE + sizeof(frame)];

	if (!ws_link_leave(&s->link))
		return;
	memcpy(room + LWS_PRE, frame, sizeof(frame));
	lws_write(s->link.wsi, room + LWS_PRE, sizeof(frame), LWS_WRITE_RAW);
	if (s->leave_code)
		lws_set_timeout(s->link.wsi, PENDING_TIMEOUT_CLOSE_ACK, LINGER_S);
}

static int on_writable(struct session *s)
{
	if (send_ping(s) || send_acks(s))
		return -1;
	if (s->close_code && !acks_waiting(&s->acks))
		say_goodbye(s);
	return 0;
}

/* --- messages read by a profile --- */

static void on_full(void *arg, bool is_full)
{
	ws_link_hold(&((struct session *)arg)->link, WS_HOLD_OWED, is_full);
}

static void on_reply(void *arg, struct slice text)
{
	struct session *s = arg;

	acks_add_text(&s->acks, text.at, text.len);
	charge_acks(s);
	talk(s);
}

static int64_t now_ms(const struct session *s)
{
	return (int64_t)uv_now(ws_loop(s->ingest->ws));
}

static void on_ack(void *arg, struct slice ack, int64_t came_ms)
{
	struct session *s = arg;
	const struct profile *p = s->ingest->config->ingest_profile;

	lateness_note(&s->ingest->lateness, p->name, came_ms, now_ms(s), p->ack_deadline_ms);
	on_reply(arg, ack);
}

static void on_charge(void *arg, long bytes)
{
	const struct session *s = arg;

	ws_charge(s->ingest->ws, bytes);
}

static void on_leave(void *arg, bool is_fatal)
{
	struct session *s = arg;

	s->leave_code = is_fatal ? LWS_CLOSE_STATUS_POLICY_VIOLATION : LWS_CLOSE_STATUS_NORMAL;
}

static const struct producer_profile_owner producer_profile_owner = {on_ack,    on_full,  note_answer,
								     on_charge, on_reply, on_leave};

/* If variables use half of the budget, disconnects the producer that has most of them: idle ones could stop all. */
static void limit_variables(struct ingest *i)
{
	struct session *most = list_entry(i->sessions.next, struct session, open);

	if (producer_profile_variables(i->profile) <= (size_t)i->config->inflight_bytes / 2)
		return;
	list_each(node, after, &i->sessions) {
		struct session *s = list_entry(node, struct session, open);

		if (s->visitor.self_bytes > most->visitor.self_bytes)
			most = s;
	}
	producer_profile_forget(i->profile, &most->visitor);
	on_leave(most, true);
	check_rest(most);
	check_leave(most);
}

static void read_by_profile(struct session *s, const char *message, size_t len)
{
	size_t room = SESSION_ROOM(len);

	if (s->leave_code)
		return;
	s->pending +=
		producer_profile_read(s->ingest->profile, &s->visitor, message, len, &room, s->received, now_ms(s));
	check_rest(s);
	check_leave(s);
	limit_variables(s->ingest);
}

/* --- messages --- */

static int refuse_text(struct session *s, const char *message, size_t len)
{
	s->pending++;
	pipeline_refuse(ws_owner(s->link.ws), NULL, message, len, "the message is text but not valid UTF-8",
			&s->sender);
	lws_close_reason(s->link.wsi, LWS_CLOSE_STATUS_INVALID_PAYLOAD, (unsigned char *)"invalid UTF-8", 13);
	return -1;
}

static int on_message(struct ws_link *link, const char *message, size_t len, bool is_text)
{
	struct session *s = list_entry(link, struct session, link);

	s->sender.n = ++s->received;
	if (s->token)
		s->token->messages++;
	/* RFC 6455, section 8.1: invalid UTF-8 fails the connection. */
	if (is_text && !is_utf8(message, len))
		return refuse_text(s, message, len);
	if (s->ingest->profile) {
		read_by_profile(s, message, len);
		return 0;
	}
	s->pending++;
	pipeline_receive(ws_owner(link->ws), message, len, "ingest", &s->sender);
	if (s->credit.pauses)
		check_rest(s);
	return 0;
}

static const struct ws_reader reader = {on_message, NULL, NULL};

/* Handles bytes of a frame from libwebsockets. */
static int on_bytes(struct session *s, const char *bytes, size_t len)
{
	struct ws_piece piece = {
		.bytes = bytes,
		.len = len,
		.rest = lws_remaining_packet_payload(s->link.wsi),
		.is_final = lws_is_final_fragment(s->link.wsi),
		.is_text = !lws_frame_is_binary(s->link.wsi),
	};

	return ws_link_receive(&s->link, &piece);
}

/* Checks the peer's close frame, which libwebsockets would echo even if it is invalid. */
static int on_close_frame(struct session *s, const char *in, size_t len)
{
	unsigned int code = ws_judge_close(in, len);
	const char *reason = code == LWS_CLOSE_STATUS_PROTOCOL_ERR ? "bad close" : "invalid UTF-8";

	if (s->close_code)
		return -1; /* it answers ours, so no frames follow */
	ws_link_ignore(&s->link);
	if (!code)
		return 0;
	lws_close_reason(s->link.wsi, (enum lws_close_status)code, (unsigned char *)(uintptr_t)reason, strlen(reason));
	return -1;
}

/* --- who may connect --- */

/* Returns true if the client has an accepted certificate or a valid token, or if neither is required, and sets the
 * token of h. If no tokens are configured, TLS itself refuses clients without a certificate. */
static bool is_authorized(const struct ingest *i, struct lws *wsi, struct handshake *h)
{
	char header[1024], name[TOKEN_NAME_MAX + 1];

	if (i->config->ingest_client_ca && certificate_is_accepted(wsi, &i->certificates) &&
	    certificate_name(wsi, name, sizeof(name))) {
		h->token = tokens_certified(i->tokens, name);
		return true;
	}
	if (!tokens_are_demanded(i->tokens))
		return !i->config->ingest_client_ca;
	if (lws_hdr_copy(wsi, header, sizeof(header), WSI_TOKEN_HTTP_AUTHORIZATION) <= 0 ||
	    strncasecmp(header, "Bearer ", 7) != 0)
		return false;
	h->token = tokens_find(i->tokens, header + 7);
	return h->token != NULL;
}

bool ingest_allows_origin(const struct config *config, const char *origin)
{
	for (size_t i = 0; i < config->ingest_origins.count; i++)
		if (strcasecmp(origin, config->ingest_origins.items[i]) == 0)
			return true;
	return false;
}

static bool is_origin(const struct ingest *i, struct lws *wsi)
{
	char origin[300];

	return lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) <= 0 ||
	       (lws_hdr_copy(wsi, origin, sizeof(origin), WSI_TOKEN_ORIGIN) > 0 &&
		ingest_allows_origin(i->config, origin));
}

static bool is_path(struct lws *wsi)
{
	char path[64];

	return lws_hdr_copy(wsi, path, sizeof(path), WSI_TOKEN_GET_URI) > 0 && strcmp(path, "/events") == 0;
}

/* True if a comma-separated list such as Connection (RFC 9110, section 5.6.1) contains this word. */
static bool has_word(const char *list, const char *word)
{
	for (size_t len; *list; list += len + strspn(list + len, ", \t")) {
		len = strcspn(list, ", \t");
		if (len == strlen(word) && strncasecmp(list, word, len) == 0)
			return true;
	}
	return false;
}

/* libwebsockets may have freed the headers already and then reports none. */
static bool is_websocket(struct lws *wsi)
{
	char upgrade[16];

	return lws_hdr_copy(wsi, upgrade, sizeof(upgrade), WSI_TOKEN_UPGRADE) > 0 &&
	       strcasecmp(upgrade, "websocket") == 0;
}

/* Checks what libwebsockets does not (RFC 6455, section 4.2.1), and what it would refuse without a status. */
static unsigned int judge_handshake(struct lws *wsi)
{
	char text[128], key[64];

	if (lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_HTTP) <= 0 || strcmp(text, "HTTP/1.1") != 0)
		return UPGRADE_REQUIRED;
	if (!is_websocket(wsi) || lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_CONNECTION) <= 0 ||
	    !has_word(text, "upgrade"))
		return UPGRADE_REQUIRED;
	if (lws_hdr_total_length(wsi, WSI_TOKEN_HOST) <= 0)
		return HTTP_STATUS_BAD_REQUEST;
	if (lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_KEY) != KEY_CHARS ||
	    lws_b64_decode_string(text, key, sizeof(key)) != KEY_BYTES)
		return HTTP_STATUS_BAD_REQUEST;
	if (lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_VERSION) <= 0 || strcmp(text, "13") != 0)
		return UPGRADE_REQUIRED;
	return 0;
}

static void log_refusal(struct ingest *i, const struct address *address, struct refusal refusal)
{
	refusal.flag = "--ingest";
	refusal.peer = address_key(address);
	counters.ingest_refused++;
	refused_peers_log(&i->refusals, &refusal, (int64_t)uv_now(ws_loop(i->ws)));
}

/* Returns the token with the most connections, if it has more than a quarter of all places, and more than the newcomer
 * will have; else NULL. */
static const struct token *find_greedy(const struct ingest *i, const struct token *newcomer)
{
	uint64_t most = (uint64_t)i->config->ingest_connections / 4, own = newcomer ? newcomer->connections + 1 : 1;
	const struct token *greedy = NULL;

	most = most > own ? most : own;
	for (const struct token *t = tokens_first(i->tokens); t; t = t->next) {
		greedy = t->connections > most ? t : greedy;
		most = t->connections > most ? t->connections : most;
	}
	return greedy;
}

/* Ends the oldest connection of a greedy token. */
static void make_room(struct ingest *i, const struct token *newcomer)
{
	const struct token *greedy = find_greedy(i, newcomer);

	list_each(node, after, &i->sessions) {
		struct session *s = list_entry(node, struct session, open);

		if (!greedy || s->token != greedy)
			continue;
		list_remove(node);
		list_append(&i->sessions, node); /* the next one to end is another */
		ws_kill(i->ws, s->link.wsi);
		log_refusal(i, s->address,
			    (struct refusal){.reason = "it made room for another token", .token = greedy->name});
		return;
	}
}

/* Returns 0 if there is room for one more producer, else the HTTP status to refuse it with. */
static unsigned int judge_room(const struct ingest *i, const struct handshake *h)
{
	size_t most = (size_t)i->config->ingest_per_address;
	bool is_full = i->session_count >= (size_t)i->config->ingest_connections;

	if (h->token && producer_debt_is_over(h->token->debt_ms, 1, clock_of(i)))
		return TOO_MANY_REQUESTS;
	if (most && address_producers(h->address) >= most)
		return TOO_MANY_REQUESTS;
	return i->is_draining || (is_full && !find_greedy(i, h->token)) ? HTTP_STATUS_SERVICE_UNAVAILABLE : 0;
}

/* Returns 0 to accept the upgrade, or the HTTP status to refuse it with. */
static unsigned int judge_upgrade(const struct ingest *i, struct lws *wsi, struct handshake *h)
{
	unsigned int status;

	watch_end(&h->head.watch);
	if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) <= 0)
		return HTTP_STATUS_METHOD_NOT_ALLOWED;
	if (!is_path(wsi))
		return HTTP_STATUS_NOT_FOUND;
	if (lws_hdr_total_length(wsi, WSI_TOKEN_UPGRADE) > 0 && !is_websocket(wsi))
		return UPGRADE_REQUIRED;
	if (!is_origin(i, wsi))
		return HTTP_STATUS_FORBIDDEN;
	if (!is_authorized(i, wsi, h))
		return HTTP_STATUS_UNAUTHORIZED;
	status = judge_handshake(wsi);
	return status ? status : judge_room(i, h);
}

/* Headers for a status: RFC 6455, section 4.4; RFC 9110, sections 15.5.2, 15.5.6, 15.5.22; RFC
 * 6585, section 4. */
static const char *headers_of(unsigned int status)
{
	switch (status) {
	case UPGRADE_REQUIRED:
		return "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
	case HTTP_STATUS_UNAUTHORIZED:
		return "WWW-Authenticate: Bearer\r\n";
	case HTTP_STATUS_METHOD_NOT_ALLOWED:
		return "Allow: GET\r\n";
	case TOO_MANY_REQUESTS:
		return "Retry-After: 1\r\n";
	}
	return "";
}

static int refuse_upgrade(struct ingest *i, struct lws *wsi, unsigned int status)
{
	struct handshake *h = lws_get_opaque_user_data(wsi);
	struct refusal refusal = {.status = status, .token = h && h->token ? h->token->name : NULL};

	log_refusal(i, h ? h->address : NULL, refusal);
	if (h)
		h->is_told = true;
	return long_head_answer(wsi, status, headers_of(status));
}

/* Returns the handshake on this socket, or NULL if libwebsockets started TLS before it announced the socket. */
static const struct handshake *find_handshake(const struct ingest *i, int fd)
{
	for (struct list *node = i->handshakes.prev; node != &i->handshakes; node = node->prev) {
		const struct handshake *h = list_entry(node, struct handshake, link);

		if (lws_get_socket_fd(h->wsi) == fd)
			return h;
	}
	return NULL;
}

/* Counts a client without an accepted certificate like a wrong token. The address comes from the handshake, because a
 * reset socket no longer has one. */
static void on_refused(void *owner, int fd, const char *why, bool is_stranger)
{
	struct ingest *i = owner;
	const struct handshake *h = find_handshake(i, fd);
	struct address *address = h ? h->address : addresses_enter(i->addresses, port_peer_key(fd));

	if (is_stranger)
		addresses_blame(i->addresses, address, clock_of(i));
	log_refusal(i, address, (struct refusal){.reason = why});
	if (!h) {
		addresses_shaken(address);
		addresses_leave(i->addresses, address);
	}
}

/* Returns 0 and marks the handshake as judged if the upgrade is accepted, else -1. A plain request, which is never
 * accepted, gets the status that its upgrade would get, because browsers hide the status of an upgrade from scripts. */
static int answer_upgrade(struct ingest *i, struct lws *wsi)
{
	struct handshake *h = lws_get_opaque_user_data(wsi);
	unsigned int status = h ? judge_upgrade(i, wsi, h) : HTTP_STATUS_BAD_REQUEST;

	if (h && status == HTTP_STATUS_UNAUTHORIZED && addresses_blame(i->addresses, h->address, clock_of(i))) {
		counters.ingest_slowed++;
		status = TOO_MANY_REQUESTS;
	}
	if (status)
		return refuse_upgrade(i, wsi, status);
	h->is_judged = true;
	return 0;
}

/* Returns 0 if the upgrade was judged, else -1: libwebsockets has other ways to open a WebSocket, such as an HTTP/2
 * stream. */
static int check_judged(struct lws *wsi)
{
	const struct handshake *h = lws_get_opaque_user_data(wsi);

	if (h && h->is_judged && lws_get_socket_fd(wsi) >= 0)
		return 0;
	counters.ingest_refused++;
	return -1;
}

/* --- handshake deadlines --- */

static void on_handshake_timer(uv_timer_t *timer);

static void await_oldest(struct ingest *i)
{
	int64_t wait;

	if (list_is_empty(&i->handshakes) || uv_is_closing((uv_handle_t *)&i->handshake_timer))
		return;
	wait = list_entry(i->handshakes.next, struct handshake, link)->due_ms - (int64_t)uv_now(ws_loop(i->ws));
	uv_timer_start(&i->handshake_timer, on_handshake_timer, wait > 0 ? (uint64_t)wait : 0, 0);
}

/* Unlinks h. The caller takes over its address. */
static struct address *take_address(struct ingest *i, struct handshake *h)
{
	struct address *address = h->address;

	lws_set_opaque_user_data(h->wsi, NULL);
	watch_end(&h->head.watch);
	list_remove(&h->link);
	free(h);
	i->handshake_count--;
	addresses_shaken(address);
	return address;
}

/* libwebsockets refuses a request that it cannot read, or whose subprotocol it does not know, without notice. */
static void end_handshake(struct ingest *i, struct lws *wsi)
{
	struct handshake *h = lws_get_opaque_user_data(wsi);

	if (!h)
		return;
	if (h->head.is_whole && !h->is_told)
		log_refusal(i, h->address,
			    (struct refusal){
				    .reason = h->is_judged ? "unknown subprotocol, too long extensions, or it hung up"
							   : "malformed request"});
	addresses_leave(i->addresses, take_address(i, h));
}

/* The socket closes without having become a WebSocket. */
static void give_up_handshake(struct ingest *i, struct handshake *h, struct refusal refusal)
{
	ws_kill(i->ws, h->wsi);
	log_refusal(i, h->address, refusal);
	addresses_leave(i->addresses, take_address(i, h));
}

static void on_handshake_timer(uv_timer_t *timer)
{
	struct ingest *i = timer->data;
	int64_t now = (int64_t)uv_now(timer->loop);

	list_each(node, after, &i->handshakes) {
		struct handshake *h = list_entry(node, struct handshake, link);

		if (h->due_ms > now)
			break;
		give_up_handshake(i, h, (struct refusal){.reason = "no whole handshake within --handshake-timeout"});
	}
	await_oldest(i);
}

static void on_long_head(struct long_head *head)
{
	struct handshake *h = list_entry(head, struct handshake, head);
	struct ingest *i = lws_vhost_user(lws_get_vhost(h->wsi));

	long_head_refuse(head);
	give_up_handshake(i, h, (struct refusal){.status = long_head_status(head)});
}

/* libwebsockets' own timeout restarts with each byte, and inserting ten thousand timers into its one sorted list takes
 * seconds. Our deadlines are equally long, so a new one goes to the end of the list. */
static void start_handshake(struct ingest *i, struct handshake *h)
{
	h->due_ms = (int64_t)uv_now(ws_loop(i->ws)) + i->config->handshake_timeout_s * 1000;
	list_append(&i->handshakes, &h->link);
	if (!uv_is_active((uv_handle_t *)&i->handshake_timer))
		await_oldest(i);
}

/* Ends the oldest handshake to make room. If the new one's address has a quarter of all handshakes, ends the oldest of
 * that address, so that one address cannot displace the others. */
static void displace(struct ingest *i, const struct address *address)
{
	bool is_greedy = address_handshakes(address) > (size_t)i->config->ingest_handshakes / 4;

	list_each(node, after, &i->handshakes) {
		struct handshake *h = list_entry(node, struct handshake, link);

		if (is_greedy && h->address != address)
			continue;
		counters.ingest_displaced++;
		give_up_handshake(i, h, (struct refusal){.reason = "it made room: see --ingest-max-handshakes"});
		return;
	}
}

static void begin_handshake(struct ingest *i, struct lws *wsi)
{
	struct handshake *h = memory_calloc(1, sizeof(*h));

	h->wsi = wsi;
	h->address = addresses_enter(i->addresses, port_peer_key(lws_get_socket_fd(wsi)));
	if (i->handshake_count >= (size_t)i->config->ingest_handshakes)
		displace(i, h->address);
	lws_set_opaque_user_data(wsi, h);
	i->handshake_count++;
	start_handshake(i, h);
}

/* libwebsockets closes a socket that it does not take. */
static bool on_connection(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct ingest *i = owner;
	struct lws *wsi = i->is_draining ? NULL : lws_adopt_socket_vhost(i->vhost, fd);
	struct handshake *h = wsi ? lws_get_opaque_user_data(wsi) : NULL;

	(void)peer, (void)len;
	if (h)
		long_head_watch(&h->head, ws_loop(i->ws), wsi, on_long_head);
	if (i->is_draining) {
		log_refusal(i, NULL, (struct refusal){.reason = "the listener is stopping"});
		close(fd);
	}
	return true;
}

static void log_open(const struct session *s)
{
	char peer[64] = "";

	lws_get_peer_simple(s->link.wsi, peer, sizeof(peer));
	log_debug("producer connected", "peer=%s token=%s", peer, s->token ? s->token->name : NULL);
}

static void on_open(struct ingest *i, struct lws *wsi, struct session **at)
{
	struct handshake *h = lws_get_opaque_user_data(wsi);
	struct session *s = memory_calloc(1, sizeof(*s));
	bool is_told;
	int bytes = SEND_BYTES;

	s->sender.answer = answer;
	s->ingest = i;
	list_init(&s->talker);
	list_init(&s->rest);
	s->wants_acks = strcmp(lws_get_protocol(wsi)->name, ACK_PROTOCOL) == 0;
	is_told = i->profile && producer_profile_has_words(i->profile) && !s->wants_acks;
	setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	ws_link_open(i->ws, &s->link, wsi, lws_get_socket_fd(wsi), &reader);
	/* Not before: libwebsockets may have refused the upgrade. */
	if (i->session_count >= (size_t)i->config->ingest_connections)
		make_room(i, h->token);
	list_append(&i->sessions, &s->open);
	i->session_count++;
	counters.ingest_connects++;
	s->token = h->token;
	s->sender.resends = s->wants_acks;
	if (s->token) {
		s->token->connections++;
		s->sender.name = s->token->name;
	}
	s->address = take_address(i, h);
	if (i->profile && i->config->ingest_profile->max_message_bytes)
		ws_link_set_limit(&s->link, (size_t)i->config->ingest_profile->max_message_bytes);
	if (i->profile)
		producer_profile_enter(i->profile, &s->visitor, s->sender.name, is_told, s->wants_acks || is_told, s);
	log_open(s);
	*at = s;
}

static void on_closed(struct session *s)
{
	log_debug("producer disconnected", "token=%s", s->token ? s->token->name : NULL); /* its socket is closed */
	list_remove(&s->open);
	list_remove(&s->talker);
	list_remove(&s->rest);
	s->ingest->session_count--;
	if (s->token)
		s->token->connections--;
	addresses_leave(s->ingest->addresses, s->address);
	ws_link_close(&s->link);
	if (s->ingest->profile)
		producer_profile_leave(s->ingest->profile, &s->visitor);
	clear_acks(s);
	if (!s->pending)
		free(s);
}

/* Returns why a connected producer would be refused now, or NULL. */
static const char *find_objection(const struct ingest *i, const struct session *s)
{
	if (!s->token)
		return tokens_are_demanded(i->tokens) ? "a token is required now" : NULL;
	if (!s->token->is_valid)
		return "its token was removed";
	return s->token->is_certificate && !certificate_is_accepted(s->link.wsi, &i->certificates)
		       ? "its certificate is no longer accepted"
		       : NULL;
}

static void disconnect_strangers(struct ingest *i)
{
	size_t count = 0;

	list_each(node, after, &i->sessions) {
		struct session *s = list_entry(node, struct session, open);
		const char *why = find_objection(i, s);

		if (!why)
			continue;
		log_write(++count > STRANGERS_TOLD ? LOG_DEBUG : LOG_INFO,
			  "disconnecting a producer that the new settings refuse", "token=%s reason=%s",
			  s->token ? s->token->name : NULL, why);
		ws_kill(i->ws, s->link.wsi);
	}
	if (count > STRANGERS_TOLD)
		log_info("more clients refused", "setting=%s count=%zu", "--ingest", count - STRANGERS_TOLD);
}

static void on_tokens_timer(uv_timer_t *timer)
{
	struct ingest *i = timer->data;

	if (tokens_refresh(i->tokens))
		disconnect_strangers(i);
}

/* --- reload --- */

int ingest_read_again(struct ingest *i, const struct config *fresh, char *error, size_t size)
{
	i->fresh = producer_profile_read_tokens(i->profile, fresh, error, size);
	if (i->fresh && !(i->config->ingest_cert && certificate_read(&i->certificates, error, size)))
		return 0;
	ingest_leave(i);
	return -1;
}

void ingest_leave(struct ingest *i)
{
	tokens_free(i->fresh);
	i->fresh = NULL;
	certificate_leave(&i->certificates);
}

void ingest_take(struct ingest *i)
{
	tokens_replace(i->tokens, i->fresh);
	i->fresh = NULL;
	if (i->config->ingest_cert)
		certificate_take(&i->certificates);
	i->certificates.is_optional = tokens_are_demanded(i->tokens);
	disconnect_strangers(i);
}

/* --- libwebsockets --- */

static int on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct session **at = user;
	struct ingest *i = lws_get_vhost(wsi) ? lws_vhost_user(lws_get_vhost(wsi)) : NULL;
	bool is_open = at && *at;

	if (!i)
		return 0;
	/* Cast to int: only these of some 80 reasons matter. */
	switch ((int)reason) {
	case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS:
		return certificate_demand(user, &i->certificates);
	case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
		begin_handshake(i, wsi);
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		end_handshake(i, wsi);
		return 0;
	case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
	case LWS_CALLBACK_HTTP:
		return answer_upgrade(i, wsi);
	case LWS_CALLBACK_RAW_ADOPT: /* after CONNECT */
		return refuse_upgrade(i, wsi, HTTP_STATUS_METHOD_NOT_ALLOWED);
	case LWS_CALLBACK_RAW_RX:
		return -1;
	case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
		return check_judged(wsi);
	case LWS_CALLBACK_ESTABLISHED:
		if (check_judged(wsi) || !at)
			return -1;
		on_open(i, wsi, at);
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return is_open ? on_bytes(*at, in, len) : -1;
	case LWS_CALLBACK_RECEIVE_PONG:
		if (is_open)
			ws_link_heard(&(*at)->link);
		return 0;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return is_open ? on_writable(*at) : -1;
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		return is_open ? on_close_frame(*at, in, len) : 0;
	case LWS_CALLBACK_CLOSED:
		if (is_open)
			on_closed(*at);
		return 0;
	}
	return 0;
}

static struct lws_protocols make_protocol(const struct config *config, const char *name)
{
	return (struct lws_protocols){
		.name = name,
		.callback = on_lws,
		.per_session_data_size = sizeof(struct session *),
		.rx_buffer_size = config->ingest_cert ? RECORD_BYTES : RECEIVE_BYTES,
		.tx_packet_size = WRITE_BYTES,
	};
}

/* The first entry serves producers that offer no subprotocol; a profile may add others. An entry without a name ends
 * the list. */
static struct lws_protocols *make_protocols(const struct config *config)
{
	const struct profile *p = config->ingest_profile;
	const json_t *names = p ? p->accept_subprotocols : NULL;
	struct lws_protocols *all = memory_calloc(3 + json_array_size(names), sizeof(*all));
	size_t i, count = 0;
	json_t *name;

	all[count++] = make_protocol(config, "wsonce-ingest");
	all[count++] = make_protocol(config, ACK_PROTOCOL);
	json_array_foreach(names, i, name) if (strcmp(json_string_value(name), ACK_PROTOCOL) != 0) all[count++] =
		make_protocol(config, json_string_value(name));
	return all;
}

struct ingest *ingest_open(struct ws *ws, const struct config *config, char *error, size_t size)
{
	struct lws_context_creation_info info = {0};
	struct ingest *i = memory_calloc(1, sizeof(*i));

	i->addresses = addresses_new("--ingest");
	if (config->ingest_profile)
		i->profile = producer_profile_open(config->ingest_profile, ws_owner(ws), &producer_profile_owner);
	i->tokens = producer_profile_read_tokens(i->profile, config, error, size);
	if (!i->tokens)
		goto fail;
	i->acceptor = acceptor_open(ws_loop(ws), "--ingest", config->ingest, on_connection, i, error, size);
	if (!i->acceptor)
		goto fail;
	snprintf(error, size, "--ingest: libwebsockets cannot start%s",
		 config->ingest_cert ? ": --ingest-cert and --ingest-key do not match" : "");
	i->ws = ws;
	i->config = config;
	i->acks_limit = (size_t)config->inflight_bytes / ACKS_PART;
	list_init(&i->sessions);
	list_init(&i->talkers);
	list_init(&i->paused);
	list_init(&i->handshakes);
	uv_prepare_init(ws_loop(ws), &i->turn);
	i->turn.data = i;
	uv_prepare_start(&i->turn, on_turn);
	uv_timer_init(ws_loop(ws), &i->handshake_timer);
	uv_timer_init(ws_loop(ws), &i->tokens_timer);
	uv_timer_start(&i->tokens_timer, on_tokens_timer, TOKENS_MS, TOKENS_MS);
	uv_timer_init(ws_loop(ws), &i->rest_timer);
	i->handshake_timer.data = i->tokens_timer.data = i->rest_timer.data = i;
	i->certificates = (struct certificate_rules){.cert_file = config->ingest_cert,
						     .key_file = config->ingest_key,
						     .ca_file = config->ingest_client_ca,
						     .is_optional = tokens_are_demanded(i->tokens),
						     .on_refused = on_refused,
						     .owner = i};
	info.vhost_name = "ingest";
	info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
	info.user = i;
	info.protocols = i->protocols = make_protocols(config);
	info.retry_and_idle_policy = ws_no_keepalive(ws);
	/* libwebsockets' own limit, 10 s by default, must not end before ours. */
	info.timeout_secs_ah_idle = (unsigned int)config->handshake_timeout_s + 1;
	/* libwebsockets also supports HTTP/2 by ALPN and by Upgrade: h2c, with WebSockets in streams, CONNECT with raw
	 * bytes, and keep-alive. answer_upgrade() and check_judged() refuse what cannot be switched off here. */
	info.alpn = "http/1.1";
	info.ssl_options_set = (long)(SSL_OP_NO_SSLv3 | SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_RENEGOTIATION);
	if (config->ingest_cert) {
		info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
		info.ssl_cert_filepath = config->ingest_cert;
		info.ssl_private_key_filepath = config->ingest_key;
	}
	i->vhost = lws_create_vhost(ws_context(ws), &info);
	if (!i->vhost)
		goto fail;
	log_info("ingest is open", "address=%s port=%d tls=%d profile=%s", config->ingest, acceptor_port(i->acceptor),
		 config->ingest_cert != NULL, config->ingest_profile ? config->ingest_profile->name : NULL);
	return i;
fail:
	acceptor_close(i->acceptor);
	ingest_free(i);
	return NULL;
}

size_t ingest_connections(const struct ingest *i)
{
	return i->session_count;
}

const struct token *ingest_tokens(const struct ingest *i)
{
	return tokens_first(i->tokens);
}

struct tokens *ingest_token_list(struct ingest *i)
{
	return i->tokens;
}

void ingest_drain(struct ingest *i)
{
	i->is_draining = true;
	list_each(node, after, &i->sessions) {
		struct session *s = list_entry(node, struct session, open);

		if (s->wants_acks || s->visitor.is_told)
			ws_link_hold(&s->link, WS_HOLD_DRAIN, true);
	}
}

void ingest_close(struct ingest *i)
{
	uv_close((uv_handle_t *)&i->handshake_timer, NULL);
	uv_close((uv_handle_t *)&i->tokens_timer, NULL);
	uv_close((uv_handle_t *)&i->rest_timer, NULL);
	acceptor_close(i->acceptor);
	uv_close((uv_handle_t *)&i->turn, NULL);
	list_each(node, after, &i->sessions) {
		struct session *s = list_entry(node, struct session, open);

		s->close_code = LWS_CLOSE_STATUS_GOINGAWAY;
		ws_link_ignore(
			&s->link); /* the pipeline takes no more messages, not even data that came before a reset */
		ws_link_want_write(&s->link);
	}
}

bool ingest_is_closed(const struct ingest *i)
{
	return i->session_count == 0;
}

void ingest_free(struct ingest *i)
{
	if (!i)
		return;
	producer_profile_free(i->profile);
	free(i->protocols);
	tokens_free(i->tokens);
	certificate_clear(&i->certificates);
	addresses_free(i->addresses);
	free(i);
}
