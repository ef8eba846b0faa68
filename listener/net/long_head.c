/* long_head.c answers handshakes whose head is too long or malformed. libwebsockets closes such a connection without an
 * answer and without notice, or waits forever for the end of the head. So this reads a head before libwebsockets does.
 */
#include "net/long_head.h"

#include <ctype.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/list.h"
#include "net/http_head.h"

#define TAKEN_MOST 64 /* reads of 4 KiB, to drain a refused head */

static const char host[] = "host:";

/* RFC 9112, sections 2.2, 3.2 and 5: a line ends with CR LF, has no other CR and no NUL, and each but the first has a
 * name that is a token and a colon. Folded lines are refused. There is at most one Host. */
static void judge(struct long_head *head, char byte)
{
	bool is_end = byte == '\n' && head->line;
	bool is_name = head->has_request_line && !head->has_colon && byte != '\r' && byte != '\n';

	head->is_malformed |= !byte || head->has_cr != (byte == '\n');
	head->is_malformed |= is_end && head->has_request_line && !head->has_colon;
	head->is_malformed |= is_name && (byte != ':' || !head->line) && !http_is_token(byte);
	head->has_cr = byte == '\r';
	head->has_request_line |= is_end;
	head->has_colon = byte != '\n' && (head->has_colon || (head->line ? byte == ':' : byte == ' ' || byte == '\t'));
	if (byte && head->host == head->line && tolower((unsigned char)byte) == host[head->line])
		head->is_malformed |= ++head->host == sizeof(host) - 1 && head->hosts++;
	if (byte == '\n')
		head->host = 0;
}

/* RFC 9112, section 2.2: empty lines may come before the first one, and the empty line after it ends the head. */
static void count(struct long_head *head, const char *bytes, size_t len)
{
	head->len += len;
	for (size_t i = 0; i < len && !head->is_whole; i++) {
		judge(head, bytes[i]);
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
static bool is_refused(struct long_head *head)
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
	return head->len > LONG_HEAD_BYTES || head->is_malformed;
}

static bool on_poll(struct watch *w, int *status, int *events) /* NOLINT(readability-non-const-parameter): its type */
{
	struct long_head *head = list_entry(w, struct long_head, watch);

	(void)status;
	if (head->is_whole || !(*events & UV_READABLE) || !is_refused(head))
		return true;
	head->on_long(head);
	return false;
}

/* After a header name that is a prefix of one that it knows, such as "X", libwebsockets looks for a second colon, so it
 * may miss the end of the head. */
static void on_served(struct watch *w)
{
	struct long_head *head = list_entry(w, struct long_head, watch);
	SSL *ssl = lws_get_ssl(head->wsi);
	int unread = 0;

	if (!head->is_whole || (ssl && SSL_pending(ssl)) || ioctl(w->fd, FIONREAD, &unread) || unread)
		return;
	head->is_malformed = true;
	head->on_long(head);
}

void long_head_watch(struct long_head *head, uv_loop_t *loop, struct lws *wsi, void (*on_long)(struct long_head *head))
{
	head->wsi = wsi;
	head->on_long = on_long;
	watch_begin(&head->watch, loop, lws_get_socket_fd(wsi), on_poll);
	head->watch.on_served = on_served;
}

unsigned int long_head_status(const struct long_head *head)
{
	return head->is_malformed ? 400 : 431;
}

/* Writes the answer itself: libwebsockets would send HTTP/1.0, and some clients do not report the status then. */
int long_head_answer(struct lws *wsi, unsigned int status, const char *extra)
{
	char room[LWS_PRE + 512];
	int n = snprintf(room + LWS_PRE, sizeof(room) - LWS_PRE,
			 "HTTP/1.1 %u %s\r\nContent-Length: 0\r\n%sConnection: close\r\n\r\n", status,
			 MHD_get_reason_phrase_for(status), extra);

	if (n > 0 && (size_t)n < sizeof(room) - LWS_PRE)
		lws_write(wsi, (unsigned char *)room + LWS_PRE, (size_t)n, LWS_WRITE_RAW);
	return -1;
}

void long_head_refuse(struct long_head *head)
{
	char bytes[LONG_HEAD_BYTES];

	long_head_answer(head->wsi, long_head_status(head), "");
	for (int i = 0; i < TAKEN_MOST && recv(head->watch.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
		;
}
