/* request.c makes the HTTP calls of profiles, such as for a feed's address or a ticket. Calls are rare, so each has its
 * own connection. */
#include "net/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/curl_loop.h"
#include "base/memory.h"
#include "net/tunnel.h"

#define BODY_BYTES (1 << 20) /* maximum of an answer */
#define WAIT_CAP_S 3600
#define BUSY_MS    1000 /* wait after 429 or 503 without Retry-After */

struct requests {
	const struct config *config;
	struct url proxy; /* text is NULL if there is none */
	struct curl_loop *curl;
};

struct request {
	struct requests *all;
	CURL *easy;
	struct curl_slist *headers;
	char *sent; /* the body */
	request_cb *cb;
	void *arg;
	struct bytes body;
	bool is_too_long;
	char error[CURL_ERROR_SIZE];
};

void request_cancel(struct request *r)
{
	curl_multi_remove_handle(curl_loop_multi(r->all->curl), r->easy);
	curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->headers);
	free(r->sent);
	bytes_free(&r->body);
	free(r);
}

static const char *reason_of(const struct request *r, CURLcode result)
{
	if (r->is_too_long)
		return "the answer is longer than 1 MiB";
	if (result == CURLE_OUT_OF_MEMORY) /* libcurl's error for a head over 300 kB */
		return "the answer's head is too long";
	if (*r->error)
		return r->error;
	return result ? curl_easy_strerror(result) : "the answer has no status";
}

/* Completes a call. The status is 0 if the answer is missing or incomplete. */
static void on_done(CURL *easy, CURLcode result)
{
	struct request *r = NULL;
	struct request_answer answer = {0};
	curl_off_t retry_after = 0;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&r);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
	if (!result && status >= 200 && status <= 999)
		answer.status = (int)status;
	if (answer.status == 429 || answer.status == 503)
		answer.wait_ms = BUSY_MS;
	if (retry_after > 0)
		answer.wait_ms = 1000 * (int64_t)(retry_after < WAIT_CAP_S ? retry_after : WAIT_CAP_S);
	answer.reason = reason_of(r, result);
	answer.body = bytes_text(&r->body);
	answer.len = r->body.len;
	r->cb(r->arg, &answer);
	request_cancel(r);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct request *r = arg;

	(void)size;
	r->is_too_long = r->body.len + n > BODY_BYTES;
	if (r->is_too_long)
		return 0;
	bytes_add(&r->body, bytes, n);
	return n;
}

static bool has_type(const struct request_call *call)
{
	for (size_t i = 0; call->headers && call->headers[i]; i++)
		if (strncasecmp(call->headers[i], "Content-Type:", 13) == 0)
			return true;
	return false;
}

static void set_headers(struct request *r, const struct request_call *call)
{
	r->headers = memory_given(curl_slist_append(NULL, "Expect:"), "libcurl");
	if (call->body && !has_type(call))
		r->headers = memory_given(curl_slist_append(r->headers, "Content-Type: application/json"), "libcurl");
	for (size_t i = 0; call->headers && call->headers[i]; i++)
		r->headers = memory_given(curl_slist_append(r->headers, call->headers[i]), "libcurl");
}

static int set_way(CURL *e, const struct requests *all)
{
	const struct config *c = all->config;
	int failed = tunnel_use(e, &all->proxy);

	failed |= (int)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	failed |= (int)curl_easy_setopt(e, CURLOPT_CAINFO, c->source_ca);
	failed |= (int)curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	if (c->source_cert) {
		failed |= (int)curl_easy_setopt(e, CURLOPT_SSLCERT, c->source_cert);
		failed |= (int)curl_easy_setopt(e, CURLOPT_SSLKEY, c->source_key);
	}
	return failed;
}

static int set_options(struct request *r, const struct request_call *call)
{
	CURL *e = r->easy;
	int failed = curl_easy_setopt(e, CURLOPT_URL, call->url);

	if (call->body) {
		failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
		failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->sent);
	} else if (strcmp(call->method, "POST") == 0) {
		failed |= (int)curl_easy_setopt(e, CURLOPT_POSTFIELDS, "");
	}
	failed |= (int)curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, call->method);
	failed |= (int)curl_easy_setopt(e, CURLOPT_HTTPHEADER, r->headers);
	failed |= (int)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)r->all->config->handshake_timeout_s * 1000);
	failed |= (int)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	failed |= (int)curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
	return failed | set_way(e, r->all);
}

struct requests *requests_open(uv_loop_t *loop, const struct config *config)
{
	struct requests *all = memory_calloc(1, sizeof(*all));

	all->config = config;
	if (config->source_proxy)
		url_parse(&all->proxy, config->source_proxy); /* validated by config.c */
	all->curl = curl_loop_open(loop, 1, on_done);
	return all;
}

struct request *request_send(struct requests *all, const struct request_call *call, request_cb *cb, void *arg)
{
	struct request *r = memory_calloc(1, sizeof(*r));

	r->all = all;
	r->cb = cb;
	r->arg = arg;
	r->easy = curl_loop_request(r, r->error);
	r->sent = call->body ? memory_strndup(call->body, call->body_len) : NULL;
	set_headers(r, call);
	if (set_options(r, call) || curl_multi_add_handle(curl_loop_multi(all->curl), r->easy)) {
		request_cancel(r);
		return NULL;
	}
	return r;
}

static void on_closed(void *arg)
{
	struct requests *all = arg;

	url_clear(&all->proxy);
	free(all);
}

void requests_close(struct requests *all)
{
	curl_loop_close(all->curl, on_closed, all);
}
