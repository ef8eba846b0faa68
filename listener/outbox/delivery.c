/* delivery.c owns the requests to webhooks: one libcurl request per attempt (base/curl_loop.h). Callers decide what to
 * send and what an answer means.
 *
 * Nothing blocks: libcurl looks up names on a thread. Proxies come from the usual environment variables (http_proxy,
 * https_proxy, NO_PROXY). */
#include "outbox/delivery.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/curl_loop.h"
#include "base/ending.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/port.h"
#include "base/secret.h"
#include "outbox/signature.h"
#include "outbox/traceparent.h"
#include "base/text.h"
#include "base/url.h"
#include "config/webhook_headers.h"

#define HEAD_BYTES        1024  /* bytes of an answer's body that are recorded */
#define BODY_BYTES        65536 /* bytes of an answer's body that are read, so that the connection can be reused */
#define READ_BYTES        1024  /* most bytes per read; libcurl reads up to a hundred times per turn of the loop */
#define TURNS_MOST        64    /* turns for an answer's body */
#define BODY_MS           2000  /* how long reading the body may take */
#define LINES_BYTES       65536 /* limit of an answer's headers and trailers; the status counts even if they are longer */
#define SWEEP_MS          500
#define HEADERS           (7 + WEBHOOK_HEADERS_MAX + 1)
#define HEADER_BYTES      64    /* size of a header other than the signature */
#define RETRY_AFTER_MAX_S 21600 /* the limit of newer versions of libcurl (8.14) */

struct deliveries {
	uv_loop_t *loop;
	struct curl_loop *curl;
	uv_timer_t sweep; /* runs while `answered` has requests */
	struct list links;
	struct list answered; /* requests with a status but not yet a whole body */
	uint64_t changed_ms;  /* loop clock: certificates read before this are outdated; 0: none are */
	struct ending ending;
};

struct delivery {
	struct list node;    /* in answered */
	int64_t answered_ms; /* loop clock; 0: no status yet */
	const struct webhook *webhook;
	bool is_stale; /* the connection had bytes to read before the request */
	struct deliveries *all;
	CURL *easy;
	struct curl_slist headers[HEADERS];
	int header_count;
	delivery_cb *cb;
	void *arg;
	size_t head_len;
	size_t body_len;
	size_t lines_len; /* bytes of its headers and trailers so far */
	unsigned int turns;
	char id[HEADER_BYTES];
	char key[HEADER_BYTES];
	char timestamp[HEADER_BYTES];
	char trace[sizeof("traceparent: ") + TRACEPARENT_SIZE];
	char signature[HEADER_BYTES + SIGNATURE_SIZE];
	struct bytes own; /* the webhook's header lines, which may change while the request runs */
	char error[CURL_ERROR_SIZE];
	char head[HEAD_BYTES + 1];
};

/* An open socket of libcurl. */
struct link {
	struct list node;
	curl_socket_t socket;
	int local_port; /* 0: not known yet */
};

/* --- ending a request --- */

void delivery_cancel(struct delivery *d)
{
	list_remove(&d->node);
	curl_multi_remove_handle(curl_loop_multi(d->all->curl), d->easy);
	curl_easy_cleanup(d->easy);
	webhook_headers_clear(&d->own);
	free(d);
}

/* Masks the words of a header's value that are long enough to be secrets. */
static void mask_words(char *text, const char *value)
{
	char *copy = memory_strdup(value), *rest = copy;

	for (char *word; (word = strsep(&rest, " \t"));)
		if (strlen(word) >= SECRET_WORD)
			secret_mask(text, word);
	free(copy);
}

/* Makes the head safe for Postgres and logs: valid UTF-8 without NUL, and without the webhook's URL and the values of
 * its headers, which may be tokens. */
static void clean_head(struct delivery *d)
{
	size_t n = d->head_len;
	struct url url;

	d->head[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!d->head[i])
			d->head[i] = ' ';
	url_parse(&url, d->webhook->url); /* checked by config/webhook.c */
	secret_mask_url(d->head, &url);
	url_clear(&url);
	for (size_t i = 0; i < d->own.len; i += strlen(d->own.at + i) + 1)
		mask_words(d->head, strchr(d->own.at + i, ':') + 2);
	if (d->body_len > n) {
		while (n && ((unsigned char)d->head[n - 1] & 0xc0) == 0x80)
			n--;
		if (n && (unsigned char)d->head[n - 1] >= 0xc0)
			n--;
	}
	d->head[n] = '\0';
	if (!is_utf8(d->head, n))
		make_ascii(d->head);
}

/* True if this host cannot make any request. libcurl does not say if socket() failed or the connection was refused, so
 * try to open a file, one that each chroot has; if that fails, its error is the reason. */
static bool is_local_fault(struct delivery *d, CURLcode result)
{
	int fd;

	if (result == CURLE_OUT_OF_MEMORY || result == CURLE_FAILED_INIT || result == CURLE_SSL_CACERT_BADFILE ||
	    result == CURLE_SSL_CERTPROBLEM)
		return true;
	if (result != CURLE_COULDNT_CONNECT && result != CURLE_COULDNT_RESOLVE_HOST)
		return false;
	fd = open("/", O_PATH | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	else
		d->head_len = (size_t)snprintf(d->head, sizeof(d->head), "%s", strerror(errno));
	return fd < 0;
}

/* Returns why there is no status. */
static const char *reason_of(const struct delivery *d, CURLcode result)
{
	if (d->lines_len > LINES_BYTES)
		return "the headers of the answer are too long";
	if (*d->error)
		return d->error;
	return result ? curl_easy_strerror(result) : "the answer has no status";
}

/* Replaces the body of a redirect with its target, without path and query, which may be secret. */
static void tell_redirect(struct delivery *d)
{
	const char *where = NULL;
	char *redacted;

	curl_easy_getinfo(d->easy, CURLINFO_REDIRECT_URL, &where);
	if (!where)
		return;
	redacted = url_redact(where);
	d->head_len = (size_t)snprintf(d->head, sizeof(d->head),
				       "redirects are not followed: set the webhook's url to where this one leads, "
				       "%.300s",
				       redacted);
	d->body_len = d->head_len;
	free(redacted);
}

/* A status counts even if we, the receiver or the timeout cut off the rest of the answer. Checks its range because
 * libcurl reads the status 2001 from "HTTP/22001". */
static void finish(struct delivery *d, CURLcode result)
{
	struct target_answer answer = {.reason = d->head};
	curl_off_t retry_after = 0;
	long status = 0;

	curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(d->easy, CURLINFO_RETRY_AFTER, &retry_after);
	if (status >= 200 && status <= 999) {
		answer.status = (int)status;
		if (retry_after > RETRY_AFTER_MAX_S)
			retry_after = RETRY_AFTER_MAX_S;
		answer.retry_after_ms = retry_after > 0 ? (int64_t)retry_after * 1000 : 0;
		tell_redirect(d);
	} else {
		d->head_len = (size_t)snprintf(d->head, sizeof(d->head), "%s", reason_of(d, result));
		answer.is_local = is_local_fault(d, result);
		d->body_len = d->head_len;
	}
	clean_head(d);
	d->cb(d->arg, &answer);
	delivery_cancel(d);
}

/* Sends the request again on a new connection: nothing was sent on the stale one. Returns -1 if libcurl refuses. */
static int send_again(struct delivery *d)
{
	d->is_stale = false;
	curl_multi_remove_handle(curl_loop_multi(d->all->curl), d->easy);
	return curl_easy_setopt(d->easy, CURLOPT_FRESH_CONNECT, 1L) ||
			       curl_multi_add_handle(curl_loop_multi(d->all->curl), d->easy)
		       ? -1
		       : 0;
}

static void on_done(CURL *easy, CURLcode result)
{
	struct delivery *d = NULL;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&d);
	if (!d->is_stale || send_again(d))
		finish(d, result);
}

/* --- limits of answers --- */

static void on_sweep(uv_timer_t *timer)
{
	struct deliveries *all = timer->data;

	list_each(node, after, &all->answered) {
		struct delivery *d = list_entry(node, struct delivery, node);

		if ((int64_t)uv_now(all->loop) - d->answered_ms > BODY_MS)
			finish(d, CURLE_OPERATION_TIMEDOUT);
	}
	if (list_is_empty(&all->answered))
		uv_timer_stop(timer);
}

/* libcurl calls this for each header line, including the empty line at the end, and for each trailer. It stores all of
 * them, so limit them here. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcurl's */
static size_t on_head(char *line, size_t size, size_t n, void *arg)
{
	struct delivery *d = arg;
	long status = 0;

	(void)size;
	d->lines_len += n;
	if (d->lines_len > LINES_BYTES)
		return 0;
	curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
	if ((*line != '\r' && *line != '\n') || status < 200 || d->answered_ms)
		return n;
	/* A failing receiver may answer twice: the second answer would be taken for that of the next request. */
	if (status >= 300)
		curl_easy_setopt(d->easy, CURLOPT_FORBID_REUSE, 1L);
	d->answered_ms = (int64_t)uv_now(d->all->loop);
	list_append(&d->all->answered, &d->node);
	if (!uv_is_active((uv_handle_t *)&d->all->sweep))
		uv_timer_start(&d->all->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
	return n;
}

/* --- beginning a request --- */

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct deliveries *all = arg;
	struct link *l = memory_calloc(1, sizeof(*l));

	(void)purpose;
	l->socket = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (l->socket < 0) {
		free(l);
		return CURL_SOCKET_BAD;
	}
	list_append(&all->links, &l->node);
	return l->socket;
}

static int on_close(void *arg, curl_socket_t socket)
{
	struct deliveries *all = arg;

	list_each(node, after, &all->links) {
		struct link *l = list_entry(node, struct link, node);

		if (l->socket != socket)
			continue;
		list_remove(node);
		free(l);
		break;
	}
	return close(socket);
}

/* True if this is the connection with these ports: libcurl gives us the ports of the connection that it will use, not
 * the socket. A socket keeps the local port that it gets when it connects. */
static bool has_ports(struct link *l, int local_port, int remote_port)
{
	struct sockaddr_storage remote = {0};
	socklen_t len = sizeof(remote);

	if (l->local_port <= 0)
		l->local_port = port_of_socket(l->socket);
	return l->local_port == local_port && getpeername(l->socket, (struct sockaddr *)&remote, &len) == 0 &&
	       port_of(&remote) == remote_port;
}

/* True if OpenSSL has bytes that libcurl has not read: the rest of a TLS record that is no longer in the socket. */
static bool has_rest(CURL *easy)
{
	struct curl_tlssessioninfo *tls = NULL;

	curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &tls);
	return tls && tls->backend == CURLSSLBACKEND_OPENSSL && tls->internals && SSL_has_pending(tls->internals);
}

/* True if the connection has bytes, an end of file or an error to read. */
static bool has_news(CURL *easy, curl_socket_t socket)
{
	char byte;

	return has_rest(easy) || recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* libcurl calls this before it writes the request. Bytes that can be read now would be taken for its answer, so don't
 * use such a connection, unless it is a new TLS connection, which may have session tickets to read. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcurl's */
static int on_connection(void *arg, char *remote, char *local, int remote_port, int local_port)
{
	struct delivery *d = arg;
	long fresh = 0;

	(void)remote, (void)local;
	curl_easy_getinfo(d->easy, CURLINFO_NUM_CONNECTS, &fresh);
	if (fresh && strncmp(d->webhook->url, "https:", 6) == 0)
		return CURL_PREREQFUNC_OK;
	list_each(node, after, &d->all->links) {
		struct link *l = list_entry(node, struct link, node);

		if (!has_ports(l, local_port, remote_port) || !has_news(d->easy, l->socket))
			continue;
		d->is_stale = !fresh;
		return CURL_PREREQFUNC_ABORT;
	}
	return CURL_PREREQFUNC_OK;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct delivery *d = arg;
	size_t room = sizeof(d->head) - 1 - d->head_len, kept = n < room ? n : room;

	(void)size;
	memcpy(d->head + d->head_len, bytes, kept);
	d->head_len += kept;
	d->body_len += n;
	return d->body_len <= BODY_BYTES ? n : 0;
}

/* libcurl calls this in each turn. A chunk's extension may have no end, and reaches neither on_head nor on_body. */
static int on_turn(void *arg, curl_off_t of_body, curl_off_t body, curl_off_t of_request, curl_off_t request)
{
	struct delivery *d = arg;

	(void)of_body, (void)body, (void)of_request, (void)request;
	return d->answered_ms && ++d->turns > TURNS_MOST;
}

/* libcurl uses the headers until the request has ended. */
static void add_header(struct delivery *d, const char *line)
{
	struct curl_slist *h = &d->headers[d->header_count++];

	h->data = (char *)line;
	h->next = NULL;
	if (h != d->headers)
		h[-1].next = h;
}

static void add_own_headers(struct delivery *d, const struct bytes *lines)
{
	bytes_add(&d->own, lines->at, lines->len);
	for (size_t i = 0; i < lines->len; i += strlen(d->own.at + i) + 1)
		add_header(d, d->own.at + i);
}

static const char *content_type(const struct webhook *w)
{
	if (w->format == WEBHOOK_JSON)
		return "content-type: application/json";
	return w->batch ? "content-type: application/cloudevents-batch+json"
			: "content-type: application/cloudevents+json";
}

/* Adds an empty Expect, because waiting for "100 Continue" costs a round trip. */
static void add_headers(struct delivery *d, const struct delivery_request *r)
{
	int n = snprintf(d->signature, sizeof(d->signature), "webhook-signature: ");

	signature_write(d->signature + n, r->webhook, &(struct webhook_signed){r->id, r->timestamp, {r->body, r->len}});
	snprintf(d->id, sizeof(d->id), "webhook-id: %s", r->id);
	snprintf(d->key, sizeof(d->key), "idempotency-key: %s", r->id);
	snprintf(d->timestamp, sizeof(d->timestamp), "webhook-timestamp: %s", r->timestamp);
	d->header_count = 0;
	add_header(d, content_type(r->webhook));
	add_header(d, d->id);
	add_header(d, d->timestamp);
	add_header(d, d->signature);
	add_header(d, d->key);
	if (r->trace) {
		snprintf(d->trace, sizeof(d->trace), "traceparent: %s", r->trace);
		add_header(d, d->trace);
	}
	add_own_headers(d, &r->webhook->header_lines);
	add_header(d, "expect:");
}

static int set_options(struct delivery *d, const struct delivery_request *r)
{
	const struct webhook *w = r->webhook;
	CURL *e = d->easy;
	int failed = curl_easy_setopt(e, CURLOPT_URL, w->url);

	failed |= (int)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	failed |= (int)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	failed |= (int)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_POST, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)w->timeout_ms);
	failed |= (int)curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
	failed |= (int)curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_turn);
	failed |= (int)curl_easy_setopt(e, CURLOPT_XFERINFODATA, d);
	failed |= (int)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	failed |= (int)curl_easy_setopt(e, CURLOPT_WRITEDATA, d);
	failed |= (int)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
	failed |= (int)curl_easy_setopt(e, CURLOPT_HEADERDATA, d);
	failed |= (int)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	failed |= (int)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, d->all);
	failed |= (int)curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	failed |= (int)curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, d->all);
	failed |= (int)curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_connection);
	failed |= (int)curl_easy_setopt(e, CURLOPT_PREREQDATA, d);
	if (w->ca)
		failed |= (int)curl_easy_setopt(e, CURLOPT_CAINFO, w->ca);
	if (w->cert) {
		failed |= (int)curl_easy_setopt(e, CURLOPT_SSLCERT, w->cert);
		failed |= (int)curl_easy_setopt(e, CURLOPT_SSLKEY, w->key ? w->key : w->cert);
		failed |= (int)curl_easy_setopt(e, CURLOPT_KEYPASSWD, ""); /* or OpenSSL asks the terminal, and waits */
	}
	failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body);
	failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->len);
	failed |= (int)curl_easy_setopt(e, CURLOPT_HTTPHEADER, d->headers);
	if (d->all->changed_ms) /* libcurl caches certificates for a day */
		failed |= (int)curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT,
						(long)((uv_now(d->all->loop) - d->all->changed_ms) / 1000));
	return failed;
}

struct delivery *delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
			       void *arg)
{
	struct delivery *d = memory_calloc(1, sizeof(*d));

	list_init(&d->node);
	d->all = all;
	d->webhook = request->webhook;
	d->easy = curl_loop_request(d, d->error);
	d->cb = cb;
	d->arg = arg;
	add_headers(d, request);
	if (set_options(d, request) || curl_multi_add_handle(curl_loop_multi(all->curl), d->easy)) {
		delivery_cancel(d);
		return NULL;
	}
	return d;
}

/* --- life --- */

struct deliveries *deliveries_open(uv_loop_t *loop, size_t connections)
{
	struct deliveries *all = memory_calloc(1, sizeof(*all));

	all->curl = curl_loop_open(loop, connections, on_done);
	all->loop = loop;
	uv_timer_init(loop, &all->sweep);
	all->sweep.data = all;
	list_init(&all->answered);
	list_init(&all->links);
	return all;
}

void deliveries_change(struct deliveries *all, size_t connections)
{
	all->changed_ms = uv_now(all->loop);
	curl_multi_setopt(curl_loop_multi(all->curl), CURLMOPT_MAXCONNECTS, (long)connections);
}

void deliveries_close(struct deliveries *all, void (*done)(void *arg), void *arg)
{
	ending_begin(&all->ending, 2, free, all, done, arg);
	ending_close(&all->ending, &all->sweep);
	curl_loop_close(all->curl, ending_part, &all->ending);
}
