/* One HTTP request and its answer, with lengths and chunks decoded. */
#include "http.h"
#include "buffer.h"
#include "support.h"

/* Read once. Returns 1 when bytes came, 0 at the end, -1 on an error or a late answer. */
static int read_some(int fd, struct buffer *in, int64_t end_ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	if (poll(&pfd, 1, wait_left_ms(end_ms)) < 1)
		return -1;
	ssize_t n = recv(fd, buffer_reserve(in, 65536), 65536, 0);
	if (n > 0)
		buffer_grow(in, (size_t)n);
	return n > 0 ? 1 : (int)n;
}

/* Copy the chunks at text to body. Returns whether the last one is there. */
static bool has_all_chunks(const char *text, size_t len, struct buffer *body)
{
	const char *limit = text + len;

	body->len = 0;
	for (;;) {
		char *rest;
		size_t size = strtoul(text, &rest, 16);
		const char *start = strstr(rest, "\r\n");

		if (!start)
			return false;
		if (size == 0)
			return true;
		if ((size_t)(limit - start) < size + 4)
			return false;
		buffer_append(body, start + 2, size);
		text = start + 2 + size + 2;
	}
}

/* Is the answer complete? If so, copies its body. at_end: the server has closed. */
static bool is_complete(const struct buffer *in, bool at_end, struct buffer *body)
{
	char *text = (char *)in->bytes;
	char *split = in->len ? strstr(text, "\r\n\r\n") : NULL;

	if (!split)
		return false;
	char *head = strndup(text, (size_t)(split - text) + 2);
	char *length = frame_header(head, "Content-Length");
	char *coding = frame_header(head, "Transfer-Encoding");
	const char *start = split + 4;
	size_t len = in->len - (size_t)(start - text);
	bool ok = at_end;

	if (coding && strcasecmp(coding, "chunked") == 0) {
		ok = has_all_chunks(start, len, body);
	} else if (!length || len >= strtoul(length, NULL, 10)) {
		ok = at_end || length;
		buffer_append(body, start, length ? strtoul(length, NULL, 10) : len);
	} else {
		ok = false;
	}
	if (!ok)
		body->len = 0;
	free(coding);
	free(length);
	free(head);
	return ok;
}

static bool is_sent(int fd, int port, const char *path)
{
	char request[1024];
	int len = snprintf(request, sizeof request,
			   "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: */*\r\nConnection: close\r\n\r\n", path,
			   port);

	return send(fd, request, (size_t)len, MSG_NOSIGNAL) == len;
}

char *http_get(int port, const char *path, int deadline_ms, int *status)
{
	struct buffer in = {0}, body = {0};
	int64_t end = wait_end_ms(deadline_ms);
	int fd = port_connect(port, deadline_ms);
	bool ok = false;

	if (status)
		*status = 0;
	if (fd == -1)
		return NULL;
	int more = is_sent(fd, port, path) ? 1 : -1;
	while (!ok && more > 0) {
		more = read_some(fd, &in, end);
		ok = more >= 0 && is_complete(&in, more == 0, &body);
	}
	close(fd);
	if (ok && status)
		sscanf((char *)in.bytes, "HTTP/%*s %d", status);
	if (ok)
		buffer_append(&body, "", 0); /* an empty body is also a C string */
	else
		buffer_clear(&body);
	buffer_clear(&in);
	return (char *)body.bytes;
}

/* Is the connection a WebSocket now? Then no more HTTP follows. */
static bool has_upgraded(const struct buffer *in)
{
	static const char line[] = "HTTP/1.1 101 ";
	const char *text = (const char *)in->bytes;

	return in->len && strncmp(text, line, sizeof line - 1) == 0 && strstr(text, "\r\n\r\n");
}

/* Send while the server reads, and read while it answers. */
static void exchange(int fd, const char *request, size_t len, struct buffer *in, int64_t end_ms)
{
	size_t sent = 0;
	int more = 1;

	while (more > 0 && !has_upgraded(in)) {
		struct pollfd pfd = {.fd = fd, .events = (short)(POLLIN | (sent < len ? POLLOUT : 0))};

		if (poll(&pfd, 1, wait_left_ms(end_ms)) < 1)
			return;
		if (pfd.revents & POLLOUT) {
			ssize_t n = send(fd, request + sent, len - sent, MSG_NOSIGNAL);
			sent = n > 0 ? sent + (size_t)n : len;
		}
		if (pfd.revents & ~POLLOUT)
			more = read_some(fd, in, end_ms);
	}
}

char *http_ask(int port, const char *request, size_t len, int deadline_ms)
{
	struct buffer in = {0};
	int fd = port_connect(port, deadline_ms);

	if (fd == -1)
		return NULL;
	exchange(fd, request, len, &in, wait_end_ms(deadline_ms));
	close(fd);
	buffer_append(&in, "", 0); /* no answer is also a C string */
	return (char *)in.bytes;
}

char *http_post(int port, const char *headers, const char *body)
{
	char *request = suite_text("POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n"
				   "\r\n%s",
				   headers, strlen(body), body);
	char *answer = http_ask(port, request, strlen(request), 20000);

	cr_assert_not_null(answer, "no answer to %s", request);
	return answer;
}

int http_status(const char *answer)
{
	int status = 0;

	sscanf(answer, "HTTP/%*s %d", &status);
	return status;
}

void http_expect(const char *answer, const char *body)
{
	const char *got = strstr(answer, "\r\n\r\n");

	cr_assert(http_status(answer) == 200 && got && strcmp(got + 4, body) == 0, "%s, not %s", answer, body);
}

int http_handshake(int port, const char *headers)
{
	char *request, *answer;
	int status;
	int len = asprintf(&request,
			   "GET /events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d3NvbmNlIHRlc3QgcGVlcg==\r\n%s\r\n",
			   headers);

	answer = http_ask(port, request, (size_t)len, 20000);
	status = http_status(answer ? answer : "");
	free(request);
	free(answer);
	return status;
}
