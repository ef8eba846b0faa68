/* curl_loop.c watches libcurl's sockets and timeouts on the uv loop. Its callers make requests and read the answers.
 * libcurl does not block: it looks up names in a thread of its own. */
#include "base/curl_loop.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>

#include "base/memory.h"
#include "base/poll.h"

struct curl_loop {
	uv_loop_t *loop;
	CURLM *multi;
	uv_timer_t timer;
	curl_loop_cb *cb;
	void (*done)(void *arg);
	void *done_arg;
};

static void finish_all(struct curl_loop *c)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(c->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			c->cb(message->easy_handle, message->data.result);
}

static void on_timer(uv_timer_t *timer)
{
	struct curl_loop *c = timer->data;
	int running;

	curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	finish_all(c);
}

/* libcurl calls this, and must not be called from here, so even a timeout of 0 goes through the loop. */
static int on_timeout_wanted(CURLM *multi, long timeout_ms, void *arg)
{
	struct curl_loop *c = arg;

	(void)multi;
	if (timeout_ms < 0) {
		uv_timer_stop(&c->timer);
		return 0;
	}
	uv_update_time(c->loop); /* the loop may have been busy for longer than the timeout */
	uv_timer_start(&c->timer, on_timer, (uint64_t)timeout_ms, 0);
	return 0;
}

/* After an error libcurl must read: there may be an answer before a reset. With CURL_CSELECT_ERR it would not. */
static void on_socket(void *arg, int fd, int status, int events)
{
	struct curl_loop *c = arg;
	int flags = 0, running;

	if (status < 0 || (events & UV_READABLE))
		flags |= CURL_CSELECT_IN;
	if (status < 0 || (events & UV_WRITABLE))
		flags |= CURL_CSELECT_OUT;
	curl_multi_socket_action(c->multi, fd, flags, &running);
	finish_all(c);
}

/* libcurl calls this. An error returned from here would end every request. A request whose socket cannot be watched
 * ends by its own timeout. */
static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *arg, void *known)
{
	struct curl_loop *c = arg;
	struct poll *p = known;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		poll_close(p);
		curl_multi_assign(c->multi, socket, NULL);
		return 0;
	}
	if (!p) {
		p = poll_open(c->loop, socket, on_socket, c);
		curl_multi_assign(c->multi, socket, p);
	}
	if (p)
		poll_for(p, ((what & CURL_POLL_IN) ? UV_READABLE : 0) | ((what & CURL_POLL_OUT) ? UV_WRITABLE : 0));
	return 0;
}

/* --- requests --- */

/* True if the certificate names a host, other than by its common name. */
static bool names_host(const X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool is_found = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		int type = sk_GENERAL_NAME_value(names, i)->type;

		is_found |= type == GEN_DNS || type == GEN_IPADD;
	}
	GENERAL_NAMES_free(names);
	return is_found;
}

/* If a certificate has no host names, libcurl accepts its common name as one. We do not, as in tls.c (RFC 9525, section
 * 6.3). */
static int on_certificate(int is_good, X509_STORE_CTX *chain)
{
	if (!is_good || X509_STORE_CTX_get_error_depth(chain) || names_host(X509_STORE_CTX_get_current_cert(chain)))
		return is_good;
	X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
	return 0;
}

static CURLcode on_context(CURL *easy, void *context, void *arg)
{
	(void)easy, (void)arg;
	SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY); /* or one read goes on for as long as KeyUpdates arrive */
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, on_certificate);
	return CURLE_OK;
}

/* Sets QUICK_EXIT: a request that ends during the name lookup must not wait for the thread. */
CURL *curl_loop_request(void *owner, char *error)
{
	CURL *e = memory_given(curl_easy_init(), "libcurl");
	int failed = (int)curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_context);

	failed |= (int)curl_easy_setopt(e, CURLOPT_USERAGENT, "wsonce/" WSONCE_VERSION);
	failed |= (int)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	failed |= (int)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, error);
	failed |= (int)curl_easy_setopt(e, CURLOPT_PRIVATE, owner);
	if (failed)
		memory_exhausted("libcurl", 0);
	return e;
}

/* --- life --- */

struct curl_loop *curl_loop_open(uv_loop_t *loop, size_t connections, curl_loop_cb *cb)
{
	struct curl_loop *c = memory_calloc(1, sizeof(*c));

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		memory_exhausted("libcurl", 0);
	c->multi = memory_given(curl_multi_init(), "libcurl");
	c->loop = loop;
	c->cb = cb;
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timeout_wanted);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)connections);
	return c;
}

CURLM *curl_loop_multi(const struct curl_loop *c)
{
	return c->multi;
}

static void on_timer_closed(uv_handle_t *timer)
{
	struct curl_loop *c = timer->data;

	if (c->done)
		c->done(c->done_arg);
	free(c);
}

void curl_loop_close(struct curl_loop *c, void (*done)(void *arg), void *arg)
{
	c->done = done;
	c->done_arg = arg;
	curl_multi_cleanup(c->multi);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
