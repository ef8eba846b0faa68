/* long_head.c owns the answer to a handshake whose head is too long. libwebsockets closes such a connection without
 * one, and tells nobody before. So the bytes of a head are counted before libwebsockets reads them: its poll handle
 * gets our callback in front of its own, which it puts back whenever it waits for something else. */
#include "net/long_head.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "net/http_policy.h"
#include "net/watch.h"

#define TAKEN_MOST 64 /* times 4 KiB, of a head that is refused */

static struct long_head **by_fd;
static size_t room; /* in it */
static uv_poll_cb original;

static struct long_head *find(const uv_poll_t *handle)
{
	uv_os_fd_t fd;

	return uv_fileno((const uv_handle_t *)handle, &fd) == 0 && (size_t)fd < room ? by_fd[fd] : NULL;
}

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

/* Of TLS, a record at a time is seen, and read. */
static bool is_too_long(struct long_head *head)
{
	SSL *ssl = lws_get_ssl(head->wsi);
	char bytes[LONG_HEAD_BYTES + 1];
	ssize_t n = -1;

	if (!ssl)
		n = recv(head->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	else if (SSL_is_init_finished(ssl))
		n = SSL_peek(ssl, bytes, sizeof(bytes));
	if (n > 0)
		count(head, bytes, (size_t)n);
	return head->len > LONG_HEAD_BYTES;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct long_head *head = find(handle);

	watch_replace(handle, original);
	if (head && events & UV_READABLE && is_too_long(head)) {
		head->on_long(head);
		return;
	}
	original(handle, status, events);
	if (head && !uv_is_closing((uv_handle_t *)handle) && find(handle) == head && !head->is_whole)
		watch_replace(handle, on_poll);
}

static void make_room(size_t fd)
{
	size_t more = fd + 1 > room ? 2 * (fd + 1) : room;

	if (more == room)
		return;
	by_fd = memory_realloc(by_fd, more * sizeof(struct long_head *));
	memset(by_fd + room, 0, (more - room) * sizeof(struct long_head *));
	room = more;
}

int long_head_watch(struct long_head *head, uv_loop_t *loop, struct lws *wsi, void (*on_long)(struct long_head *head))
{
	int fd = lws_get_socket_fd(wsi);
	uv_poll_t *handle = watch_find(loop, fd);

	if (!handle)
		return -1;
	make_room((size_t)fd);
	head->is_watched = true;
	head->fd = fd;
	head->wsi = wsi;
	head->on_long = on_long;
	by_fd[fd] = head;
	original = watch_replace(handle, on_poll);
	return 0;
}

/* Its handle may be gone, and its socket be another one's. */
void long_head_leave(struct long_head *head)
{
	if (head->is_watched && by_fd[head->fd] == head)
		by_fd[head->fd] = NULL;
}

void long_head_refuse(struct long_head *head)
{
	char bytes[LONG_HEAD_BYTES];

	http_policy_refuse(head->wsi, 431, "");
	for (int i = 0; i < TAKEN_MOST && recv(head->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
		;
}

void long_head_end(void)
{
	free(by_fd);
	by_fd = NULL;
	room = 0;
}
