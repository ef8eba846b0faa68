/* A receiver of webhooks that answers anything: delivery.c, with libcurl on a loop, sends two requests one after the
 * other, and target.c judges the answers. Each request gets the receiver's answer to it, and not bytes that followed
 * the previous answer; its status is the one that a second reader finds, and its reason is text that Postgres accepts.
 *
 * An input is a byte whose bits are enum flag, a byte that cuts, and the answer to the first request. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <unistr.h>

#include "fuzz.h"
#include "outbox/delivery.h"

#define REASON_MOST 1024     /* bytes */
#define WAIT_MOST   21600000 /* ms */
#define BODY        "{\"id\":7}"
#define SECOND      299 /* the status of the answer to the second request */

enum flag {
	STAYS_OPEN = 1, /* the connection stays open after the answer */
	IS_EARLY = 2,   /* the answer comes before the request has been read */
};

static uv_loop_t loop;
static struct deliveries *deliveries;
static int listening, peer = -1;
static char url[60];
static struct webhook webhook = {
	.name = (char *)"shop",
	.url = url,
	.secrets = {{"0123456789abcdef0123456789abcdef", 32}},
	.secret_count = 1,
	.timeout_ms = 2000,
	.attempts = 10,
	.backoff_ms = 1000,
	.backoff_cap_ms = 60000,
};

/* --- what is answered --- */

static struct {
	unsigned int count;
	int status;
	int64_t retry_after_ms;
	char reason[REASON_MOST * 3 + 1];
} answer;

static void on_answer(void *arg, const struct target_answer *a)
{
	answer.count++;
	answer.status = a->status;
	answer.retry_after_ms = a->retry_after_ms;
	must(strlen(a->reason) < sizeof(answer.reason), "a reason of %zu bytes", strlen(a->reason));
	strcpy(answer.reason, a->reason);
	must(!a->is_local, "the receiver's fault, and it is said to be ours: %s", a->reason);
}

static void check_answer(void)
{
	static struct target target, retries;
	int64_t wait_ms;

	must(answer.count == 1, "%u answers", answer.count);
	must(answer.status == 0 || (answer.status >= 200 && answer.status <= 999), "the status %d", answer.status);
	must(strlen(answer.reason) <= REASON_MOST, "a reason of %zu bytes", strlen(answer.reason));
	must(!u8_check((const uint8_t *)answer.reason, strlen(answer.reason)), "a reason that is no UTF-8");
	must(answer.status || *answer.reason, "no answer, and no reason");
	must(answer.retry_after_ms >= 0 && answer.retry_after_ms <= WAIT_MOST, "wait for %lld ms",
	     (long long)answer.retry_after_ms);
	target = (struct target){.webhook = &webhook, .other = &retries};
	retries = (struct target){.webhook = &webhook, .other = &target, .is_retry = true};
	const struct target_answer told = {answer.status, answer.retry_after_ms, answer.reason, false};
	target_hear(&target, &told, false, 0, 1);
	enum target_outcome outcome = target_take(&target, &told, 1, 1, 1, &wait_ms);
	must((outcome == TARGET_DELIVERED) == (answer.status / 100 == 2), "status %d is outcome %d", answer.status,
	     (int)outcome);
	must(wait_ms >= 0 && wait_ms <= WAIT_MOST, "the next attempt is in %lld ms", (long long)wait_ms);
}

/* --- by a second reader --- */

/* True if a line begins with a status line that everybody reads in the same way. */
static bool is_status_line(const char *at, size_t len, int *status)
{
	if (len < 13 || memcmp(at, "HTTP/1.1 ", 9) != 0 || at[12] != ' ')
		return false;
	for (int i = 9; i < 12; i++)
		if (at[i] < '0' || at[i] > '9')
			return false;
	*status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + at[11] - '0';
	return *status >= 100;
}

/* The status of the final answer. Returns 0 if there is none; or -1 if there are several ways to read the bytes. */
static int find_status(const char *at, size_t len)
{
	const char *end = at + len;
	int status = 0;

	while (at < end) {
		const char *head = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
		const char *line = head ? memchr(at, '\r', (size_t)(end - at)) : NULL;

		if (!head || !is_status_line(at, (size_t)(line - at), &status))
			return -1;
		for (const char *c = at; c < head; c++)
			if ((*c < ' ' || *c > '~') && !(c[0] == '\r' && c[1] == '\n') &&
			    !(c[0] == '\n' && c[-1] == '\r'))
				return -1;
		for (line += 2; line < head + 2;) {
			const char *stop = memmem(line, (size_t)(head + 2 - line), "\r\n", 2);
			size_t name = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-");

			/* What says how the body is sent may be wrong, and end it all. */
			if (!stop || !name || line[name] != ':' || strncasecmp(line, "Content-", 8) == 0 ||
			    strncasecmp(line, "Transfer-", 9) == 0)
				return -1;
			line = stop + 2;
		}
		if (status >= 200)
			return status;
		if (status == 101)
			return -1;
		at = head + 4;
	}
	return 0;
}

/* --- the receiver --- */

static bool turn(void)
{
	unsigned int count = answer.count;

	uv_run(&loop, UV_RUN_NOWAIT);
	return answer.count > count;
}

/* Reads a request to its end. */
static void read_request(void)
{
	char request[4096];
	size_t len = 0;
	ssize_t n;

	for (int turns = 0; turns < 100000; turns++) {
		turn();
		n = recv(peer, request + len, sizeof(request) - 1 - len, 0);
		if (n > 0)
			len += (size_t)n;
		request[len] = '\0';
		if (strstr(request, "\r\n\r\n" BODY) || n == 0 || answer.count)
			break;
	}
	if (answer.count)
		return;
	must(strncmp(request, "POST /hook HTTP/1.1\r\n", 21) == 0 && strstr(request, "\r\nwebhook-id: msg_1\r\n") &&
		     strcasestr(request, "\r\nContent-Length: 8\r\n") &&
		     strlen(strstr(request, "\r\n\r\n")) == 4 + strlen(BODY),
	     "another request: %s", request);
}

/* Reads the rest of a request that was answered before it was read. */
static void forget_request(void)
{
	char bytes[4096];

	while (peer >= 0 && recv(peer, bytes, sizeof(bytes), 0) > 0)
		;
}

static void take_connection(void)
{
	int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (peer >= 0)
		close(peer);
	peer = fd;
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

/* Waits for the beginning of a request: bytes sent before it are not its answer. */
static void await_request(void)
{
	char byte;

	for (int turns = 0; turns < 100000; turns++) {
		turn();
		take_connection();
		if (peer >= 0 && recv(peer, &byte, 1, MSG_PEEK) > 0)
			return;
	}
	must(false, "nobody sends a request");
}

static void send_answer(const char *bytes, size_t len, unsigned int cut)
{
	while (len) {
		size_t n = cut ? 1 + (cut = cut * 1103515245 + 12345) / 65536 % (len / 3 + 1) : len;
		ssize_t sent = send(peer, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return;
		if (sent > 0) {
			bytes += sent;
			len -= (size_t)sent;
		}
		turn();
	}
}

static void await_answer(void)
{
	for (int turns = 0; turns < 200 && !answer.count; turns++)
		turn();
	if (!answer.count) /* what is missing will not come */
		shutdown(peer, SHUT_WR);
	for (int turns = 0; turns < 200 && !answer.count; turns++)
		turn();
	if (!answer.count) { /* libcurl waits for something that it has not said */
		close(peer);
		peer = -1;
	}
	while (!answer.count)
		uv_run(&loop, UV_RUN_ONCE);
}

static void begin_request(void)
{
	const struct delivery_request request = {&webhook, "msg_1", "1700000000", BODY, strlen(BODY)};

	memset(&answer, 0, sizeof(answer));
	must(delivery_send(deliveries, &request, on_answer, NULL), "no request");
	must(!answer.count, "an answer from inside");
}

/* --- the fuzzer --- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	must(bind(listening, (struct sockaddr *)&address, len) == 0 && listen(listening, 16) == 0, "cannot listen: %s",
	     strerror(errno));
	getsockname(listening, (struct sockaddr *)&address, &len);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/hook", ntohs(address.sin_port));
	setenv("NO_PROXY", "*", 1);
	must(uv_loop_init(&loop) == 0, "no loop");
	deliveries = deliveries_open(&loop, 4);
	must(deliveries, "no deliveries");
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	static const char second[] = "HTTP/1.1 299 Second\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	const char *bytes = (const char *)data + 2;

	if (size < 2)
		return;
	int status = find_status(bytes, size - 2);
	begin_request();
	await_request();
	if (!(data[0] & IS_EARLY))
		read_request();
	send_answer(bytes, size - 2, data[1]);
	if (!(data[0] & STAYS_OPEN))
		shutdown(peer, SHUT_WR);
	await_answer();
	check_answer();
	must(status < 0 || answer.status == status, "the status %d is read as %d: %s", status, answer.status,
	     answer.reason);

	forget_request();
	begin_request();
	await_request();
	read_request();
	send_answer(second, sizeof(second) - 1, 0);
	await_answer();
	check_answer();
	must(answer.status == SECOND, "the second request has the answer %d: %s", answer.status, answer.reason);
	if (peer >= 0)
		close(peer);
	peer = -1;
}
