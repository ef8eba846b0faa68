/* long_head.c answers handshakes whose head is too long. libwebsockets closes such a connection without an answer and
 * without notice. So this counts the bytes of a head before libwebsockets reads them. */
#include "net/long_head.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/list.h"
#include "net/http_policy.h"

#define TAKEN_MOST 64 /* reads of 4 KiB, to drain a refused head */

/* RFC 9112, section 2.2: empty lines may come before the first one, and the empty line after it ends the head. */
static void count(struct long_head *head, const char *bytes, size_t len)
{
	head->len += len;
	for (size_t i = 0; i < len && !head->is_whole; i++) {
		if (bytes[i] == '\n') {
			head->is_whole = head->has_line && !head->line;
			head->line = 0;
		} else if (bytes[i] != '\r') {
			head->has_line = true;
			head->line++;
		}
		head->len -= head->is_whole ? len - i - 1 : 0;
	}
}

/* With TLS, each event shows one record. */
static bool is_too_long(struct long_head *head)
{
	SSL *ssl = lws_get_ssl(head->wsi);
	char bytes[LONG_HEAD_BYTES + 1];
	ssize_t n = -1;

	if (!ssl)
		n = recv(head->watch.fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	else if (SSL_is_init_finished(ssl))
		n = SSL_peek(ssl, bytes, sizeof(bytes));
	if (n > 0)
		count(head, bytes, (size_t)n);
	return head->len > LONG_HEAD_BYTES;
}

static bool on_poll(struct watch *w, int *status, int *events) /* NOLINT(readability-non-const-parameter): its type */
{
	struct long_head *head = list_entry(w, struct long_head, watch);

	(void)status;
	if (head->is_whole || !(*events & UV_READABLE) || !is_too_long(head))
		return true;
	head->on_long(head);
	return false;
}

void long_head_watch(struct long_head *head, uv_loop_t *loop, struct lws *wsi, void (*on_long)(struct long_head *head))
{
	head->wsi = wsi;
	head->on_long = on_long;
	watch_begin(&head->watch, loop, lws_get_socket_fd(wsi), on_poll);
}

void long_head_refuse(struct long_head *head)
{
	char bytes[LONG_HEAD_BYTES];

	http_policy_refuse(head->wsi, 431, "");
	for (int i = 0; i < TAKEN_MOST && recv(head->watch.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
		;
}
