/* delivery.c owns HTTP: one request of libcurl's multi interface for each attempt, on the uv loop. What is
 * sent, and what an answer means, is its callers' business.
 *
 * libcurl does not block: names are looked up by a thread of its own. Proxies are taken from the environment,
 * as other programs do (http_proxy, https_proxy, NO_PROXY). */
#include "outbox/delivery.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "outbox/signature.h"
#include "base/utf8.h"

#define HEAD_BYTES 1024  /* of an answer's body, kept */
#define BODY_BYTES 65536 /* of an answer's body, read, so that the connection can be used again */

struct deliveries {
	uv_loop_t *loop;
	CURLM *multi;
	uv_timer_t timer; /* libcurl's */
	void (*done)(void *arg);
	void *done_arg;
};

struct delivery {
	struct deliveries *all;
	CURL *easy;
	struct curl_slist *headers;
	delivery_cb *cb;
	void *arg;
	size_t head_len;
	size_t body_len;
	char error[CURL_ERROR_SIZE];
	char head[HEAD_BYTES + 1];
};

/* A socket of libcurl's. */
struct watch {
	uv_poll_t poll;
	struct deliveries *all; /* NULL: only to be closed */
	curl_socket_t socket;
	int events;
};

/* --- the end of a request --- */

static void delivery_free(struct delivery *d)
{
	if (d->easy) {
		curl_multi_remove_handle(d->all->multi, d->easy);
		curl_easy_cleanup(d->easy);
	}
	curl_slist_free_all(d->headers);
	free(d);
}

void delivery_cancel(struct delivery *d)
{
	delivery_free(d);
}

/* Text that Postgres takes: without the last character if the limit may have cut it, without NUL, in UTF-8. */
static void clean_head(struct delivery *d)
{
	size_t n = d->head_len;

	if (d->body_len > n) {
		while (n && ((unsigned char)d->head[n - 1] & 0xc0) == 0x80)
			n--;
		if (n && (unsigned char)d->head[n - 1] >= 0xc0)
			n--;
	}
	d->head[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!d->head[i])
			d->head[i] = ' ';
	if (!is_utf8(d->head, n))
		make_ascii(d->head);
}

/* A status counts however the rest of the answer ended: cut off by us, by the receiver, or by the timeout. */
static void finish(struct delivery *d, CURLcode result)
{
	struct target_answer answer = {.reason = d->head};
	curl_off_t retry_after = 0;
	long status = 0;

	curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(d->easy, CURLINFO_RETRY_AFTER, &retry_after);
	if (status >= 200) {
		answer.status = (int)status;
		answer.retry_after_ms = retry_after > 0 && retry_after < INT32_MAX ? (int64_t)retry_after * 1000 : 0;
	} else {
		d->head_len = (size_t)snprintf(d->head, sizeof(d->head), "%s",
					       *d->error ? d->error : curl_easy_strerror(result));
		d->body_len = d->head_len;
	}
	clean_head(d);
	d->cb(d->arg, &answer);
	delivery_free(d);
}

static void finish_all(struct deliveries *all)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(all->multi, &left))) {
		struct delivery *d = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&d);
		finish(d, message->data.result);
	}
}

/* --- libcurl on the loop --- */

static void on_timer(uv_timer_t *timer)
{
	struct deliveries *all = timer->data;
	int running;

	curl_multi_socket_action(all->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	finish_all(all);
}

/* Called by libcurl, which must not be called from here: even 0 goes by the loop. */
static int on_timeout_wanted(CURLM *multi, long timeout_ms, void *arg)
{
	struct deliveries *all = arg;

	(void)multi;
	if (timeout_ms < 0) {
		uv_timer_stop(&all->timer);
		return 0;
	}
	uv_update_time(all->loop); /* the loop may have been at work for longer than the timeout */
	uv_timer_start(&all->timer, on_timer, (uint64_t)timeout_ms, 0);
	return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct watch *w = poll->data;
	struct deliveries *all = w->all;
	int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;

	if (!all)
		return;
	if (events & UV_READABLE)
		flags |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		flags |= CURL_CSELECT_OUT;
	curl_multi_socket_action(all->multi, w->socket, flags, &running);
	finish_all(all);
	/* libuv stops a handle that had an error; libcurl finds out by itself what is wrong. */
	if (status < 0 && w->all)
		uv_poll_start(&w->poll, w->events, on_poll);
}

static void on_watch_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static struct watch *watch(struct deliveries *all, curl_socket_t socket)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	if (uv_poll_init_socket(all->loop, &w->poll, socket)) {
		free(w);
		return NULL;
	}
	w->poll.data = w;
	w->all = all;
	w->socket = socket;
	curl_multi_assign(all->multi, socket, w);
	return w;
}

static void unwatch(struct watch *w)
{
	curl_multi_assign(w->all->multi, w->socket, NULL);
	w->all = NULL;
	uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

/* Called by libcurl. An error from here would end every request there is; a socket that cannot be watched
 * ends its own, by its timeout. */
static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *arg, void *known)
{
	struct watch *w = known;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (w)
			unwatch(w);
		return 0;
	}
	if (!w)
		w = watch(arg, socket);
	if (!w)
		return 0;
	w->events = ((what & CURL_POLL_IN) ? UV_READABLE : 0) | ((what & CURL_POLL_OUT) ? UV_WRITABLE : 0);
	uv_poll_start(&w->poll, w->events, on_poll);
	return 0;
}

/* --- the beginning of a request --- */

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct delivery *d = arg;
	size_t room = HEAD_BYTES - d->head_len, kept = n < room ? n : room;

	(void)size;
	memcpy(d->head + d->head_len, bytes, kept);
	d->head_len += kept;
	d->body_len += n;
	return d->body_len <= BODY_BYTES ? n : 0;
}

static int add_header(struct delivery *d, const char *name, const char *value)
{
	char line[40 + SIGNATURE_SIZE];
	struct curl_slist *longer;

	snprintf(line, sizeof(line), "%s:%s%s", name, *value ? " " : "", value);
	longer = curl_slist_append(d->headers, line);
	if (!longer)
		return -1;
	d->headers = longer;
	return 0;
}

/* Expect is left out: to wait for "100 Continue" costs each request a round trip. */
static int add_headers(struct delivery *d, const struct delivery_request *r)
{
	char signature[SIGNATURE_SIZE];
	int failed = signature_write(signature, r->webhook, r->id, r->timestamp, r->body, r->len);

	failed = failed || add_header(d, "content-type", "application/json");
	failed = failed || add_header(d, "webhook-id", r->id);
	failed = failed || add_header(d, "webhook-timestamp", r->timestamp);
	failed = failed || add_header(d, "webhook-signature", signature);
	failed = failed || add_header(d, "idempotency-key", r->id);
	return failed || add_header(d, "expect", "");
}

/* QUICK_EXIT: a request that ends while its name is looked up must not wait for the thread that does it. */
static int set_options(struct delivery *d, const struct delivery_request *r)
{
	CURL *e = d->easy;
	int failed = curl_easy_setopt(e, CURLOPT_URL, r->webhook->url);

	failed |= (int)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	failed |= (int)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	failed |= (int)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_POST, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body);
	failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->len);
	failed |= (int)curl_easy_setopt(e, CURLOPT_HTTPHEADER, d->headers);
	failed |= (int)curl_easy_setopt(e, CURLOPT_USERAGENT, "wsonce/" WSONCE_VERSION);
	failed |= (int)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)r->webhook->timeout_ms);
	failed |= (int)curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, d->error);
	failed |= (int)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	failed |= (int)curl_easy_setopt(e, CURLOPT_WRITEDATA, d);
	failed |= (int)curl_easy_setopt(e, CURLOPT_PRIVATE, d);
	if (r->webhook->ca)
		failed |= (int)curl_easy_setopt(e, CURLOPT_CAINFO, r->webhook->ca);
	return failed;
}

struct delivery *delivery_send(struct deliveries *all, const struct delivery_request *request, delivery_cb *cb,
			       void *arg)
{
	struct delivery *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->all = all;
	d->cb = cb;
	d->arg = arg;
	d->easy = curl_easy_init();
	if (!d->easy || add_headers(d, request) || set_options(d, request) ||
	    curl_multi_add_handle(all->multi, d->easy)) {
		delivery_free(d);
		return NULL;
	}
	return d;
}

/* --- life --- */

struct deliveries *deliveries_open(uv_loop_t *loop, size_t connections)
{
	struct deliveries *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(all->multi = curl_multi_init())) {
		free(all);
		return NULL;
	}
	all->loop = loop;
	uv_timer_init(loop, &all->timer);
	all->timer.data = all;
	curl_multi_setopt(all->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
	curl_multi_setopt(all->multi, CURLMOPT_SOCKETDATA, all);
	curl_multi_setopt(all->multi, CURLMOPT_TIMERFUNCTION, on_timeout_wanted);
	curl_multi_setopt(all->multi, CURLMOPT_TIMERDATA, all);
	curl_multi_setopt(all->multi, CURLMOPT_MAXCONNECTS, (long)connections);
	return all;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct deliveries *all = handle->data;

	all->done(all->done_arg);
	free(all);
}

void deliveries_close(struct deliveries *all, void (*done)(void *arg), void *arg)
{
	all->done = done;
	all->done_arg = arg;
	curl_multi_cleanup(all->multi);
	uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}
