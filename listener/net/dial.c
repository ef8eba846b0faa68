/* dial.c owns one connection to a feed: name lookup, TCP, a proxy, TLS, the handshake with its redirects, and the
 * frames. The caller decides when to try again.
 *
 * Bytes pass through tls.c, upgrade.c and frame.c, in this order. */
#include "net/dial.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/tls.h"
#include "base/resolve.h"
#include "base/secret.h"
#include "net/frame.h"
#include "net/redirect.h"
#include "net/tunnel.h"

#define READ_BYTES     65536      /* most bytes per read from a socket */
#define RECORD_BYTES   16384      /* maximum of a TLS record, decrypted */
#define UNSENT_MOST    65536      /* limit for unsent TLS output */
#define UNREAD_STOP    (1 << 20)  /* unsent bytes at which reading stops */
#define UNREAD_MOST    (16 << 20) /* unsent bytes at which the connection ends */
#define UNREAD_MS      10000      /* or if the server reads nothing for this long */
#define LINGER_S       2          /* time for the server to close after our close frame */
#define REDIRECTS_MOST 5
#define NEXT_MS        250 /* time until the next address is tried in parallel */
#define TRIES_MOST     8
#define BOMB_TIMES     16 /* times --max-message: largest inflated message */

enum dial_state {
	DIAL_LOOKUP,     /* looking up the name */
	DIAL_CONNECTING, /* TCP, proxy, TLS, handshake */
	DIAL_OPEN,
	DIAL_LEAVING,   /* dial_leave was called; sending a close frame */
	DIAL_LINGERING, /* close frame sent: dropping data until the server closes */
	DIAL_DONE,      /* freed when its timer is closed */
};

/* A TCP connection. Freed once its handle is closed. */
struct conn {
	uv_tcp_t tcp;
	uv_connect_t connect;
	uv_write_t write;
	bool is_writing; /* a uv_write of bytes that the socket did not take at once */
	char rest[FRAMES_ROOM];
	struct dial *d; /* NULL: closed */
};

struct dial {
	struct list node; /* in a list of struct dialler */
	struct list due;  /* in a list of struct dialler, if there may be data to write */
	struct ws_link link;
	struct dialler *all;
	enum dial_state state;
	const struct dial_owner *owner;
	void *arg;
	const struct upgrade_offer *offer;
	struct url url;
	struct url first; /* what url was before a redirect; text is NULL: there was none */
	unsigned int nth;
	unsigned int redirects;
	struct resolve *resolve;
	char *addresses;                /* from the lookup */
	char *rest;                     /* next address to try; NULL: none */
	struct conn *tries[TRIES_MOST]; /* attempts in progress, or NULL */
	struct conn *conn;              /* the established one */
	struct tunnel *tunnel;          /* through the proxy, until it answers; else NULL */
	struct tls *tls;                /* NULL: ws:// */
	struct upgrade *upgrade;        /* NULL after the handshake */
	struct frames *frames;          /* after the handshake */
	uv_timer_t deadline;
	int64_t until_ms;  /* loop clock, deadline of the handshake */
	int64_t heard_ms;  /* loop clock, last data received */
	const char *fault; /* reason to end it from the timer; NULL: none */
	bool is_lost;      /* the network has given it up */
	char reason[400];
};

struct dialler {
	struct ws *ws;
	const struct config *config;
	struct tls_trust *trust;   /* NULL: not needed yet */
	struct url proxy;          /* text is NULL if there is none */
	struct curl_loop *tunnels; /* NULL: no proxy */
	struct list dials;
	struct list due;
	uv_idle_t flush; /* active while data is due; batches the writes of one turn of the loop */
	char room[READ_BYTES];
};

static int64_t now_ms(const struct dial *d)
{
	return (int64_t)uv_now(ws_loop(d->all->ws));
}

/* --- ending --- */

static void on_conn_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* Closes *at, which may be NULL, and sets it to NULL. */
static void conn_close(struct conn **at)
{
	struct conn *c = *at;

	*at = NULL;
	if (!c)
		return;
	c->d = NULL;
	uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
}

static void stop_trying(struct dial *d)
{
	for (size_t i = 0; i < TRIES_MOST; i++)
		conn_close(&d->tries[i]);
	free(d->addresses);
	d->addresses = d->rest = NULL;
}

static void forget_parts(struct dial *d)
{
	ws_link_close(&d->link);
	tls_free(d->tls);
	upgrade_free(d->upgrade);
	frames_free(d->frames);
	d->tls = NULL;
	d->upgrade = NULL;
	d->frames = NULL;
}

static void on_timer_closed(uv_handle_t *timer)
{
	struct dial *d = timer->data;

	list_remove(&d->node);
	url_clear(&d->url);
	url_clear(&d->first);
	free(d);
}

/* If why is NULL, d->reason has the reason. */
static void end_dial(struct dial *d, const char *why, enum dial_state state)
{
	enum dial_state before = d->state;
	struct dial_end end = {.reason = d->reason, .was_open = before == DIAL_OPEN};

	if (d->fault || why)
		snprintf(d->reason, sizeof(d->reason), "%s", d->fault ? d->fault : why);
	stop_trying(d);
	secret_mask_url(d->reason, &d->url);
	secret_mask_url(d->reason, &d->first);
	end.close_code = d->frames ? frames_close_code(d->frames) : 0;
	end.status = d->upgrade ? upgrade_answer(d->upgrade)->status : 0;
	end.wait_ms = d->upgrade ? upgrade_answer(d->upgrade)->wait_s * 1000 : 0;
	end.is_unanswered = d->fault && d->link.pinged_ms;
	if (d->is_lost || end.is_unanswered)
		end.unheard_ms = now_ms(d) - d->heard_ms;
	list_remove(&d->due);
	forget_parts(d);
	d->state = state;
	if (state == DIAL_DONE) {
		conn_close(&d->conn);
		uv_close((uv_handle_t *)&d->deadline, on_timer_closed);
	}
	if (before < DIAL_LEAVING)
		d->owner->on_end(d->arg, &end);
}

static void finish(struct dial *d, const char *why)
{
	if (d->state != DIAL_DONE)
		end_dial(d, why, DIAL_DONE);
}

static int give_up(struct dial *d, const char *why)
{
	finish(d, why);
	return -1;
}

/* --- messages --- */

static void on_deadline(uv_timer_t *timer);
static void on_flush(uv_idle_t *flush);
static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static int on_message(struct ws_link *link, const char *message, size_t len, bool is_text)
{
	struct dial *d = list_entry(link, struct dial, link);

	d->owner->on_message(d->arg, message, len, is_text);
	return 0;
}

static void on_too_long(struct ws_link *link, const char *head, size_t len, const uint8_t *digest, uint64_t total)
{
	struct dial *d = list_entry(link, struct dial, link);

	d->owner->on_too_long(d->arg, head, len, digest, total);
}

/* Ends the connection from the timer, not in this call. reason must live until then. */
static void fail(struct dial *d, const char *reason)
{
	if (d->state != DIAL_OPEN || d->fault)
		return;
	d->fault = reason;
	uv_timer_start(&d->deadline, on_deadline, 0, 0);
}

static void want_write(struct dial *d)
{
	list_remove(&d->due);
	list_append(&d->all->due, &d->due);
	uv_idle_start(&d->all->flush, on_flush);
}

static void on_want_write(struct ws_link *link)
{
	want_write(list_entry(link, struct dial, link));
}

static void on_kill(struct ws_link *link)
{
	fail(list_entry(link, struct dial, link), link->fault);
}

static void set_reading(struct ws_link *link, bool is_reading)
{
	struct dial *d = list_entry(link, struct dial, link);
	uv_stream_t *stream = (uv_stream_t *)&d->conn->tcp;

	if (is_reading && frames_are_kept(d->frames))
		want_write(d); /* kept data first */
	else if (is_reading)
		uv_read_start(stream, on_room, on_read);
	else
		uv_read_stop(stream);
}

static const struct ws_feed feed = {set_reading, on_want_write, on_kill};
static const struct ws_reader reader = {on_message, on_too_long, &feed};

static void on_piece(void *arg, const struct ws_piece *piece)
{
	struct dial *d = arg;

	ws_link_receive(&d->link, piece);
}

static void on_pong(void *arg)
{
	struct dial *d = arg;

	ws_link_heard(&d->link);
}

static bool is_held(void *arg)
{
	return dial_is_held(arg);
}

static const struct frames_reader frames_reader = {on_piece, on_pong, is_held};

/* --- sending --- */

static size_t take_plain(struct dial *d, char *room)
{
	if (d->frames)
		return frames_take(d->frames, room);
	return d->upgrade ? upgrade_take(d->upgrade, room, FRAMES_ROOM) : 0;
}

static size_t take(struct dial *d, char *room)
{
	char plain[FRAMES_ROOM];
	size_t n;

	n = d->tls ? tls_take(d->tls, room, FRAMES_ROOM) : take_plain(d, room);
	if (n || !d->tls || !tls_is_ready(d->tls))
		return n;
	n = take_plain(d, plain);
	if (!n || tls_write(d->tls, plain, n))
		return 0;
	return tls_take(d->tls, room, FRAMES_ROOM);
}

static const char is_deaf[] = "the server does not read what is sent to it";

static void on_deaf(uv_timer_t *timer)
{
	fail(timer->data, is_deaf);
}

/* Stops reading while too many bytes are unsent, until half of them are gone. A settled batch queues thousands of acks
 * in one turn of the loop, so unsent bytes alone do not mean that the server is stuck. */
static void check_unsent(struct dial *d, bool is_read)
{
	size_t unsent = d->frames ? frames_unsent(d->frames) : 0;

	if (d->state != DIAL_OPEN || d->fault)
		return;
	if (unsent > UNREAD_MOST) {
		fail(d, is_deaf);
	} else if (unsent > UNREAD_STOP || (uv_is_active((uv_handle_t *)&d->deadline) && unsent > UNREAD_STOP / 2)) {
		ws_link_hold(&d->link, WS_HOLD_UNSENT, true);
		if (is_read || !uv_is_active((uv_handle_t *)&d->deadline))
			uv_timer_start(&d->deadline, on_deaf, UNREAD_MS, 0);
	} else if (uv_is_active((uv_handle_t *)&d->deadline)) {
		ws_link_hold(&d->link, WS_HOLD_UNSENT, false);
		uv_timer_stop(&d->deadline);
	}
}

static void on_writable(struct dial *d);

static void on_written(uv_write_t *write, int status)
{
	struct conn *c = write->data;

	c->is_writing = false;
	if (c->d && status == 0)
		on_writable(c->d);
}

/* Returns 1 if the socket did not take all bytes, -1 if the connection is broken. */
static int write_some(struct conn *c, const char *bytes, size_t len)
{
	uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned int)len);
	int n = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);

	if (n < 0 && n != UV_EAGAIN)
		return -1;
	if (n < 0)
		n = 0;
	if ((size_t)n == len)
		return 0;
	memcpy(c->rest, bytes + n, len - (size_t)n);
	buf = uv_buf_init(c->rest, (unsigned int)(len - (size_t)n));
	c->is_writing = uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written) == 0;
	return c->is_writing ? 1 : -1;
}

/* Writes as much as the socket takes. Returns 1 if data is left, -1 if the connection is broken. */
static int send_due(struct dial *d)
{
	char room[FRAMES_ROOM];
	int result = d->conn->is_writing;

	while (!result) {
		size_t n = take(d, room);

		if (!n)
			return 0;
		result = write_some(d->conn, room, n);
		check_unsent(d, true);
	}
	return result;
}

/* Waits for the server to close after the close frame (RFC 6455, section 7.1.1) and drops what it still sends. The
 * owner is told at once, so that it can reconnect: a feed has no replay. */
static void linger(struct dial *d, const char *why)
{
	if (send_due(d) < 0) {
		finish(d, why);
		return;
	}
	uv_read_start((uv_stream_t *)&d->conn->tcp, on_room, on_read);
	uv_timer_start(&d->deadline, on_deadline, (uint64_t)LINGER_S * 1000, 0);
	end_dial(d, why, DIAL_LINGERING);
}

/* A failed write does not end the connection: data from before the failure must be read first. */
static void on_writable(struct dial *d)
{
	int left;

	if (d->state == DIAL_LINGERING)
		return;
	if (d->link.ws && ws_link_take_ping(&d->link))
		frames_ping(d->frames);
	left = send_due(d);
	if (d->state == DIAL_LEAVING && left < 0)
		finish(d, "left");
	else if (d->state == DIAL_LEAVING && !left)
		linger(d, "left");
}

static void take_kept(struct dial *d);

static void on_flush(uv_idle_t *flush)
{
	struct dialler *all = flush->data;
	struct list end; /* of what is due in this turn: a message may end any other connection */

	list_append(&all->due, &end);
	while (all->due.next != &end) {
		struct dial *d = list_entry(all->due.next, struct dial, due);

		list_remove(&d->due);
		if (d->frames && frames_are_kept(d->frames) && !is_held(d))
			take_kept(d);
		if (d->conn)
			on_writable(d);
	}
	list_remove(&end);
	if (list_is_empty(&all->due))
		uv_idle_stop(flush);
}

/* --- receiving --- */

static void open_link(struct dial *d)
{
	struct deflate_terms terms = upgrade_answer(d->upgrade)->terms;
	uv_os_fd_t fd = -1;
	size_t own = d->offer->max_message, most = own ? own : (size_t)d->all->config->message_bytes;

	d->frames = frames_new(&frames_reader, d);
	if (terms.is_agreed)
		frames_inflate(d->frames, &terms, most * BOMB_TIMES);
	upgrade_free(d->upgrade);
	d->upgrade = NULL;
	uv_timer_stop(&d->deadline);
	d->state = DIAL_OPEN;
	uv_fileno((uv_handle_t *)&d->conn->tcp, &fd);
	ws_link_open(d->all->ws, &d->link, NULL, fd, &reader);
	ws_link_set_limit(&d->link, most);
	ws_link_set_resends(&d->link, d->offer->resends);
	d->owner->on_open(d->arg);
}

static int look_up(struct dial *d);

/* Closes the connection and opens another one within the same deadline. */
static int redirect(struct dial *d)
{
	const char *why = "it redirects too often";
	char reason[400];
	AUTO_FREE char *text = d->redirects++ < REDIRECTS_MOST
				       ? redirect_follow(&d->url, upgrade_answer(d->upgrade)->location, &why)
				       : NULL;

	if (!text) {
		snprintf(reason, sizeof(reason), "%s: %s", why, upgrade_answer(d->upgrade)->reason);
		return give_up(d, reason);
	}
	conn_close(&d->conn);
	forget_parts(d);
	if (d->first.text)
		url_clear(&d->url);
	else
		d->first = d->url;
	url_parse(&d->url, text);
	if (look_up(d))
		finish(d, "the name lookup cannot start");
	return -1;
}

static int on_frames(struct dial *d, const char *bytes, size_t len)
{
	if (frames_receive(d->frames, bytes, len) == FRAMES_END)
		linger(d, frames_reason(d->frames));
	else if (d->state == DIAL_OPEN && frames_are_kept(d->frames) && !is_held(d)) {
		uv_read_stop((uv_stream_t *)&d->conn->tcp);
		want_write(d); /* the rest in the next turn */
	}
	return d->state == DIAL_DONE ? -1 : 0;
}

static int on_plain(struct dial *d, const char *bytes, size_t len)
{
	size_t used;

	if (d->frames)
		return on_frames(d, bytes, len);
	switch (upgrade_receive(d->upgrade, bytes, len, &used)) {
	case UPGRADE_MORE:
		return 0;
	case UPGRADE_REFUSED:
		return give_up(d, upgrade_answer(d->upgrade)->reason);
	case UPGRADE_MOVED:
		return redirect(d);
	case UPGRADE_DONE:
		break;
	}
	open_link(d);
	return on_frames(d, bytes + used, len - used);
}

static int on_encrypted(struct dial *d, const char *bytes, size_t len)
{
	char plain[RECORD_BYTES];
	ssize_t n;

	tls_receive(d->tls, bytes, len);
	while ((n = tls_read(d->tls, plain, sizeof(plain))) > 0)
		if (on_plain(d, plain, (size_t)n))
			return -1;
		else if (!d->tls ||
			 (d->frames && frames_are_kept(d->frames))) /* dial_leave was called, or reading is stopped */
			return 0;
	if (!n && tls_due(d->tls) < UNSENT_MOST)
		return 0;
	send_due(d); /* sends the TLS alert */
	return give_up(d, n ? tls_reason(d->tls) : "the server sends pings and does not read the answers");
}

/* Reading may be stopped on the way: see frames_receive(). */
static void on_received(struct dial *d, const char *bytes, size_t len)
{
	d->heard_ms = now_ms(d);
	if (d->tls ? on_encrypted(d, bytes, len) : len ? on_plain(d, bytes, len) : 0)
		return;
	if (d->state < DIAL_LINGERING && (!d->frames || frames_is_due(d->frames) || (d->tls && tls_due(d->tls))))
		want_write(d);
}

/* Call when reading is allowed again: takes what was received before. */
static void take_kept(struct dial *d)
{
	if (on_frames(d, "", 0) || !d->frames)
		return;
	if (d->tls && !frames_are_kept(d->frames))
		on_received(d, "", 0);
	if (d->frames && !frames_are_kept(d->frames))
		set_reading(&d->link, true);
}

/* --- TCP --- */

/* Sets the timer to ms, but not past the handshake deadline. */
static void look_after(struct dial *d, int64_t ms)
{
	int64_t left = d->until_ms - now_ms(d);

	uv_timer_start(&d->deadline, on_deadline, (uint64_t)(ms < left ? ms : left > 0 ? left : 0), 0);
}

static const char cut_off[] = "the connection ended during the handshake";

/* Returns why, or a better reason: a refusal whose announced body never came. */
static const char *handshake_end(const struct dial *d, const char *why)
{
	return d->upgrade && upgrade_answer(d->upgrade)->status ? upgrade_answer(d->upgrade)->reason : why;
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	struct conn *c = handle->data;

	(void)size;
	*buf = uv_buf_init(c->d->all->room, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct dial *d = ((struct conn *)stream->data)->d;

	d->is_lost = d->frames && n < 0 && n != UV_EOF && n != UV_ECONNRESET;
	if (n < 0 && n != UV_EOF)
		finish(d, handshake_end(d, uv_strerror((int)n)));
	else if (n < 0)
		finish(d, d->frames ? "the connection ended without a close frame" : handshake_end(d, cut_off));
	else if (n && d->state != DIAL_LINGERING)
		on_received(d, buf->base, (size_t)n);
}

/* The first attempt that connects is kept. */
static void on_connected(struct dial *d, struct conn *c)
{
	stop_trying(d);
	if (d->state == DIAL_CONNECTING)
		look_after(d, INT64_MAX);
	d->conn = c;
	/* TLS: the client speaks first. */
	if (d->tls && tls_read(d->tls, NULL, 0) < 0) {
		finish(d, cut_off);
		return;
	}
	uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read);
	want_write(d);
}

/* Call when an attempt has failed; tries the next address. */
static void fail_try(struct dial *d, struct conn *c, int error)
{
	snprintf(d->reason, sizeof(d->reason), "the connection failed: %s", uv_strerror(error));
	conn_close(&c);
	look_after(d, 0);
}

static void on_connect(uv_connect_t *connect, int status)
{
	struct conn *c = connect->data;
	struct dial *d = c->d;

	if (!d)
		return;
	for (size_t i = 0; i < TRIES_MOST; i++)
		if (d->tries[i] == c)
			d->tries[i] = NULL;
	if (status)
		fail_try(d, c, status);
	else
		on_connected(d, c);
}

static struct conn *conn_new(struct dial *d)
{
	struct conn *c = memory_calloc(1, sizeof(*c));

	uv_tcp_init(ws_loop(d->all->ws), &c->tcp);
	uv_tcp_nodelay(&c->tcp, 1);
	c->tcp.data = c->connect.data = c->write.data = c;
	c->d = d;
	return c;
}

/* --- connecting --- */

static bool is_secure(const struct dial *d)
{
	return strcmp(d->url.scheme, "wss") == 0;
}

/* Loads the certificates of the settings. Sets error to a sentence if they cannot be used, else to "". */
static void load_trust(struct dialler *all, char *error, size_t size)
{
	const struct config *c = all->config;

	*error = '\0';
	if (access(c->source_ca, R_OK)) {
		snprintf(error, size, "--source-ca: %s cannot be read, and wss:// sources are verified against it",
			 c->source_ca);
		return;
	}
	all->trust = tls_trust_new(c->source_ca);
	if (!all->trust) {
		snprintf(error, size, "--source-ca: %s holds no certificates", c->source_ca);
	} else if (c->source_cert && tls_trust_identify(all->trust, c->source_cert, c->source_key)) {
		snprintf(error, size, "--source-cert, --source-key: %s and %s are not a certificate and its key (PEM)",
			 c->source_cert, c->source_key);
		tls_trust_free(all->trust);
		all->trust = NULL;
	}
}

/* Creates the protocol layers of the connection. */
static int prepare(struct dial *d)
{
	struct dialler *all = d->all;
	char error[300];

	if (is_secure(d) && !all->trust) /* first wss:// URL, after a redirect */
		load_trust(all, error, sizeof(error));
	d->upgrade = upgrade_new(&d->url, d->offer);
	d->tls = is_secure(d) && all->trust ? tls_new(all->trust, d->url.host, "\x08http/1.1") : NULL;
	return d->upgrade && (d->tls || !is_secure(d)) ? 0 : -1;
}

/* Tries the next address in parallel with those that have not answered (RFC 8305, section 5). */
static void try_next(struct dial *d)
{
	const char *address = strsep(&d->rest, " ");
	struct conn *c = conn_new(d);
	struct sockaddr_storage to;
	size_t i = 0;
	int port = url_port(&d->url);
	int error = uv_ip4_addr(address, port, (struct sockaddr_in *)&to);

	if (error)
		error = uv_ip6_addr(address, port, (struct sockaddr_in6 *)&to);
	if (!error)
		error = uv_tcp_connect(&c->connect, &c->tcp, (struct sockaddr *)&to, on_connect);
	if (error) {
		fail_try(d, c, error);
		return;
	}
	snprintf(d->reason, sizeof(d->reason), "the connection failed");
	while (d->tries[i])
		i++;
	d->tries[i] = c;
	look_after(d, d->rest ? NEXT_MS : INT64_MAX);
}

static void on_addresses(void *arg, const char *addresses, const char *error)
{
	struct dial *d = arg;

	d->resolve = NULL;
	if (!addresses) {
		finish(d, error);
		return;
	}
	d->state = DIAL_CONNECTING;
	d->addresses = d->rest = memory_strdup(addresses);
	if (prepare(d))
		finish(d, "the connection cannot be prepared");
	else
		try_next(d);
}

/* The proxy has connected to the server, or not. */
static void on_tunnel(void *arg, int fd, const char *why)
{
	struct dial *d = arg;
	struct conn *c;

	d->tunnel = NULL;
	if (fd < 0 || prepare(d)) {
		finish(d, fd < 0 ? why : "the connection cannot be prepared");
		return;
	}
	d->state = DIAL_CONNECTING;
	c = conn_new(d);
	uv_tcp_open(&c->tcp, fd);
	on_connected(d, c);
}

static int look_up(struct dial *d)
{
	const struct dialler *all = d->all;

	d->state = DIAL_LOOKUP;
	if (all->tunnels)
		d->tunnel = tunnel_start(all->tunnels, &all->proxy, d->url.host, url_port(&d->url), on_tunnel, d);
	else
		d->resolve = resolve_start(ws_loop(all->ws), d->url.host, d->nth, on_addresses, d);
	return d->resolve || d->tunnel ? 0 : -1;
}

static void stop_connecting(struct dial *d)
{
	if (d->resolve)
		resolve_cancel(d->resolve);
	tunnel_cancel(d->tunnel);
	d->tunnel = NULL;
	d->resolve = NULL;
	stop_trying(d);
}

static bool is_trying(const struct dial *d)
{
	for (size_t i = 0; i < TRIES_MOST; i++)
		if (d->tries[i])
			return true;
	return false;
}

/* The handshake has timed out, or it is time for the next address. */
static void on_deadline(uv_timer_t *timer)
{
	struct dial *d = timer->data;
	bool may_go_on = d->state == DIAL_CONNECTING && !d->conn && now_ms(d) < d->until_ms;

	if (may_go_on && d->rest) {
		try_next(d);
		return;
	}
	if (may_go_on && is_trying(d)) {
		look_after(d, INT64_MAX);
		return;
	}
	if (!may_go_on && d->tunnel)
		tunnel_describe(&d->all->proxy, "did not answer in time", d->reason, sizeof(d->reason));
	else if (!may_go_on)
		snprintf(d->reason, sizeof(d->reason), "%s",
			 handshake_end(d, "the handshake was not answered in time"));
	stop_connecting(d);
	finish(d, NULL);
}

struct dial *dial_start(struct dialler *all, const char *url, const struct upgrade_offer *offer, unsigned int nth,
			const struct dial_owner *owner, void *arg)
{
	struct dial *d = memory_calloc(1, sizeof(*d));

	d->all = all;
	d->owner = owner;
	d->arg = arg;
	d->offer = offer;
	d->nth = nth;
	list_append(&all->dials, &d->node);
	list_init(&d->due);
	list_init(&d->link.link);
	uv_timer_init(ws_loop(all->ws), &d->deadline);
	d->deadline.data = d;
	if (url_parse(&d->url, url) || !url_has_scheme(&d->url, "ws wss") || !d->url.host[0])
		d->fault = "its URL is not a ws:// or wss:// URL with a host";
	else if (look_up(d))
		d->fault = "the name lookup cannot start";
	d->until_ms = now_ms(d) + all->config->handshake_timeout_s * 1000;
	look_after(d, d->fault ? 0 : INT64_MAX);
	return d;
}

/* --- for the owner --- */

void dial_send(struct dial *d, const char *text, size_t len)
{
	if (d->state != DIAL_OPEN)
		return;
	frames_send(d->frames, text, len);
	want_write(d);
	check_unsent(d, false);
}

void dial_set_ping(struct dial *d, int64_t interval_ms)
{
	ws_link_set_ping(&d->link, interval_ms);
}

void dial_hold(struct dial *d, bool is_held)
{
	if (d->state == DIAL_OPEN)
		ws_link_hold(&d->link, WS_HOLD_OWED, is_held);
}

bool dial_is_held(const struct dial *d)
{
	return d->state == DIAL_OPEN && d->link.unread_ms;
}

bool dial_has_unread(const struct dial *d)
{
	return d->state == DIAL_OPEN && (frames_are_kept(d->frames) || ws_link_has_unread(&d->link));
}

/* While reading is stopped or data is unread, the server counts as heard now. */
static int64_t heard_at(const struct dial *d, int64_t last_ms, int64_t now)
{
	return dial_is_held(d) || dial_has_unread(d) ? now : last_ms;
}

int64_t dial_heard_ms(const struct dial *d, int64_t now)
{
	return heard_at(d, d->heard_ms > d->link.last_message_ms ? d->heard_ms : d->link.last_message_ms, now);
}

int64_t dial_message_ms(const struct dial *d, int64_t now)
{
	return heard_at(d, d->link.last_message_ms, now);
}

void dial_leave(struct dial *d, unsigned int code)
{
	if (d->state >= DIAL_LEAVING)
		return;
	if (d->state != DIAL_OPEN) {
		d->state = DIAL_LEAVING;
		stop_connecting(d);
		finish(d, "left");
		return;
	}
	d->state = DIAL_LEAVING;
	ws_link_leave(&d->link);
	frames_close(d->frames, code);
	uv_timer_start(&d->deadline, on_deadline, (uint64_t)LINGER_S * 1000, 0);
	want_write(d);
}

void dial_cut(struct dial *d)
{
	if (d->state >= DIAL_LEAVING)
		return;
	d->state = DIAL_LEAVING;
	if (d->link.ws)
		ws_link_leave(&d->link);
	/* not in this call, which may come from the connection's own callback */
	d->fault = "cut";
	uv_timer_start(&d->deadline, on_deadline, 0, 0);
}

/* --- the dialler --- */

static void on_close(void *arg)
{
	struct dialler *all = arg;

	list_each(node, after, &all->dials) {
		struct dial *d = list_entry(node, struct dial, node);

		stop_connecting(d);
		finish(d, "the listener ends");
	}
	if (all->tunnels)
		curl_loop_close(all->tunnels, NULL, NULL);
	uv_close((uv_handle_t *)&all->flush, NULL);
}

struct dialler *dialler_open(struct ws *ws, const struct config *config, bool has_tls, char *error, size_t size)
{
	struct dialler *all = memory_calloc(1, sizeof(*all));

	*error = '\0';
	all->ws = ws;
	all->config = config;
	list_init(&all->dials);
	if (config->source_proxy)
		url_parse(&all->proxy, config->source_proxy); /* validated by config.c */
	if (has_tls)
		load_trust(all, error, size);
	if (*error) {
		dialler_free(all);
		return NULL;
	}
	if (all->proxy.text)
		all->tunnels = tunnels_open(ws_loop(ws));
	list_init(&all->due);
	uv_idle_init(ws_loop(ws), &all->flush);
	all->flush.data = all;
	ws_on_close(ws, on_close, all);
	return all;
}

void dialler_free(struct dialler *all)
{
	if (!all)
		return;
	tls_trust_free(all->trust);
	url_clear(&all->proxy);
	free(all);
}
