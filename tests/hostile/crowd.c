/* crowd.c is a crowd of clients that behave badly in one way, all from one process and one thread:
 *
 *	crowd KIND PORT COUNT ADDRESS
 *
 * COUNT clients connect from ADDRESS to 127.0.0.1:PORT and do what KIND says until SIGTERM. Once a second
 * and at the end a line on standard output says what became of them; the rig is run, beside this file. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	DIALLING = 64,       /* connects under way at once, so that the queue of the listening socket is never full */
	BURST_BYTES = 65536, /* bytes of messages that a flooding client makes at once */
	MESSAGE_BYTES = 160,
	STEP_MS = 1000, /* of the slow ones: a byte each */
	READ_BYTES = 16384,
};

enum kind {
	KIND_IDLE,           /* handshake, then nothing but answers to pings */
	KIND_MUTE,           /* handshake, then nothing at all */
	KIND_SILENT,         /* not even a handshake */
	KIND_SLOW_HANDSHAKE, /* sends a byte of it per second */
	KIND_SLOW_FRAME,     /* handshake, then a byte of a frame a second */
	KIND_DEAF,           /* floods, wants acks and never reads one */
	KIND_FLOOD,          /* floods with events, without acks */
	KIND_GARBAGE,        /* floods with messages that are not events */
	KIND_RESET,          /* connects and resets, COUNT times */
	KIND_GUESS,          /* a handshake with a wrong token, again and again */
	KIND_ASK,            /* asks the admin port for a page, again and again */
	KINDS
};

static const char *const names[KINDS] = {"idle",  "mute",    "silent", "slow-handshake", "slow-frame", "deaf",
					 "flood", "garbage", "reset",  "guess",          "ask"};

enum stage { STAGE_DIALLING, STAGE_SHAKING, STAGE_OPEN };

struct client {
	int fd; /* -1: none */
	enum stage stage;
	double since;  /* of its connect */
	uint64_t made; /* messages so far */
	size_t at;     /* sent of text or burst */
	char *burst;   /* what a flooding client sends next, or NULL */
	size_t burst_len;
};

struct crowd {
	enum kind kind;
	struct sockaddr_in to, from;
	size_t count;
	struct client *clients;
	int epoll;
	size_t next;      /* the first client that never connected */
	size_t dialling;  /* connects and handshakes in progress */
	size_t connected; /* connected now */
	size_t open;      /* open now, after a handshake */
	uint64_t opened, ended, failed, bytes, messages;
	double first_life_s, last_life_s; /* of those that the listener ended */
};

static volatile sig_atomic_t is_told_to_end;

static const char handshake[] = "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
				"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
				"Sec-WebSocket-Key: d3NvbmNlIGhvc3RpbGUhIQ==\r\n%s\r\n";
static char request[400];
static const char page[] = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";

/* The header of a masked text frame of 60,000 bytes: a body that never comes to its end. */
static const char slow_frame[] = "\x81\xfe\xea\x60\0\0\0\0{\"event_id\":\"slow\",\"payload\":\"";

static void on_signal(int number)
{
	is_told_to_end = 1;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void report(const struct crowd *c)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	printf("kind=%s connected=%zu open=%zu opened=%llu ended=%llu failed=%llu dialled=%zu messages=%llu bytes=%llu "
	       "first_life_s=%.2f last_life_s=%.2f cpu_s=%.2f\n",
	       names[c->kind], c->connected, c->open, (unsigned long long)c->opened, (unsigned long long)c->ended,
	       (unsigned long long)c->failed, c->next, (unsigned long long)c->messages, (unsigned long long)c->bytes,
	       c->first_life_s, c->last_life_s,
	       (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	fflush(stdout);
}

/* A client that was disconnected, or has its answer, comes again at once. */
static bool comes_again(const struct crowd *c)
{
	return c->kind == KIND_GUESS || c->kind == KIND_ASK;
}

static bool is_flooding(const struct crowd *c)
{
	return c->kind == KIND_DEAF || c->kind == KIND_FLOOD || c->kind == KIND_GARBAGE;
}

static void watch(const struct crowd *c, struct client *cl, int operation, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = cl};

	if (epoll_ctl(c->epoll, operation, cl->fd, &event))
		give_up("epoll_ctl");
}

/* --- life of a client --- */

static void dial(struct crowd *c, struct client *cl)
{
	int on = 1;

	cl->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (cl->fd < 0)
		give_up("socket");
	setsockopt(cl->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	setsockopt(cl->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (bind(cl->fd, (struct sockaddr *)&c->from, sizeof(c->from)))
		give_up("bind");
	if (connect(cl->fd, (struct sockaddr *)&c->to, sizeof(c->to)) && errno != EINPROGRESS)
		give_up("connect");
	cl->stage = STAGE_DIALLING;
	cl->since = now_s();
	cl->at = 0;
	c->dialling++;
	c->connected++;
	watch(c, cl, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void dial_more(struct crowd *c)
{
	while (c->dialling < DIALLING && c->next < c->count) {
		size_t slot = c->kind == KIND_RESET ? c->next % DIALLING : c->next;

		if (c->clients[slot].fd >= 0)
			return;
		dial(c, &c->clients[slot]);
		c->next++;
	}
}

/* Such clients are not waited for by those that dial. */
static bool is_slow_to_shake(const struct crowd *c)
{
	return c->kind == KIND_SILENT || c->kind == KIND_SLOW_HANDSHAKE || c->kind == KIND_ASK;
}

static void dial_again(struct crowd *c)
{
	for (size_t i = 0; i < c->next && c->dialling < DIALLING; i++)
		if (c->clients[i].fd < 0)
			dial(c, &c->clients[i]);
}

static void drop(struct crowd *c, struct client *cl)
{
	c->dialling -= cl->stage == STAGE_DIALLING || (cl->stage == STAGE_SHAKING && !is_slow_to_shake(c));
	c->open -= cl->stage == STAGE_OPEN;
	c->connected--;
	close(cl->fd);
	free(cl->burst);
	cl->burst = NULL;
	cl->fd = -1;
}

static void on_ended(struct crowd *c, struct client *cl)
{
	double life = now_s() - cl->since;

	if (cl->stage == STAGE_DIALLING) {
		c->failed++;
	} else {
		c->first_life_s = !c->ended || life < c->first_life_s ? life : c->first_life_s;
		c->last_life_s = life > c->last_life_s ? life : c->last_life_s;
		c->ended++;
	}
	drop(c, cl);
}

static void reset(struct crowd *c, struct client *cl)
{
	struct linger linger = {1, 0};

	setsockopt(cl->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	drop(c, cl);
}

/* The rest of text from cl->at on, at most `most` bytes. */
static void push(struct crowd *c, struct client *cl, const char *text, size_t len, size_t most)
{
	size_t rest = len - cl->at;
	ssize_t n = rest ? send(cl->fd, text + cl->at, rest < most ? rest : most, MSG_NOSIGNAL) : 0;

	if (n < 0 && errno != EAGAIN) {
		on_ended(c, cl);
		return;
	}
	if (n > 0) {
		cl->at += (size_t)n;
		c->bytes += (uint64_t)n;
	}
}

/* --- flooding --- */

/* Each message has its number, so each is a row or a dead letter of its own. */
static size_t put_message(const struct crowd *c, const struct client *cl, char *at)
{
	static const char filler[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
	char text[MESSAGE_BYTES + 1];
	int n = snprintf(
		text, sizeof(text),
		c->kind == KIND_GARBAGE
			? "garbage %s-%zu-%010llu %s%s"
			: "{\"event_id\":\"%s-%zu-%010llu\",\"event_type\":\"h\",\"payload\":{\"text\":\"%s\"}}%.0s",
		names[c->kind], (size_t)(cl - c->clients), (unsigned long long)cl->made, filler, filler);
	size_t len = (size_t)(n > MESSAGE_BYTES ? MESSAGE_BYTES : n);

	memcpy(at, "\x81\xfe\0\0\0\0\0\0", 8);
	at[2] = (char)(len >> 8);
	at[3] = (char)(len & 0xff);
	memcpy(at + 8, text, len);
	return len + 8;
}

static void make_burst(struct crowd *c, struct client *cl)
{
	size_t at = 0, size = BURST_BYTES / (MESSAGE_BYTES + 8);

	if (!cl->burst && !(cl->burst = malloc(BURST_BYTES)))
		give_up("malloc");
	for (size_t i = 0; i < size; i++, cl->made++)
		at += put_message(c, cl, cl->burst + at);
	cl->burst_len = at;
	cl->at = 0;
	c->messages += size;
}

static void flood(struct crowd *c, struct client *cl)
{
	if (!cl->burst || cl->at == cl->burst_len)
		make_burst(c, cl);
	push(c, cl, cl->burst, cl->burst_len, cl->burst_len);
}

/* --- events --- */

static uint32_t wanted(const struct crowd *c)
{
	if (c->kind == KIND_DEAF)
		return EPOLLOUT;
	return is_flooding(c) ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

static void on_open(struct crowd *c, struct client *cl)
{
	c->dialling--;
	c->open++;
	c->opened++;
	cl->stage = STAGE_OPEN;
	cl->at = 0;
	if (c->kind == KIND_RESET) {
		push(c, cl, slow_frame, sizeof(slow_frame) - 1, 20);
		if (cl->fd >= 0)
			reset(c, cl);
		return;
	}
	watch(c, cl, EPOLL_CTL_MOD, wanted(c));
}

/* One client in three of those that reset does so at each of three moments: connected, asked, open. */
static void on_connected(struct crowd *c, struct client *cl)
{
	int error = 0;
	socklen_t size = sizeof(error);

	getsockopt(cl->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		on_ended(c, cl);
		return;
	}
	cl->stage = STAGE_SHAKING;
	if (is_slow_to_shake(c)) {
		c->dialling--;
		watch(c, cl, EPOLL_CTL_MOD, EPOLLIN);
		if (c->kind == KIND_ASK)
			push(c, cl, page, sizeof(page) - 1, sizeof(page));
		return;
	}
	if (c->kind == KIND_RESET && c->next % 3 == 0) {
		reset(c, cl);
		return;
	}
	push(c, cl, request, strlen(request), sizeof(request));
	if (cl->fd >= 0 && c->kind == KIND_RESET && c->next % 3 == 1)
		reset(c, cl);
	else if (cl->fd >= 0)
		watch(c, cl, EPOLL_CTL_MOD, EPOLLIN);
}

/* Control frames are short and come whole. */
static void answer_pings(struct crowd *c, struct client *cl, const unsigned char *bytes, size_t n)
{
	for (size_t at = 0; at + 2 <= n; at += 2 + (bytes[at + 1] & 127u)) {
		size_t len = bytes[at + 1] & 127u;
		char pong[6 + 125] = {(char)0x8a, (char)(0x80 | len)};

		if ((bytes[at] & 15) != 9 || len > 125 || at + 2 + len > n)
			continue;
		memcpy(pong + 6, bytes + at + 2, len);
		if (send(cl->fd, pong, 6 + len, MSG_NOSIGNAL) > 0)
			c->messages++;
	}
}

static void on_readable(struct crowd *c, struct client *cl)
{
	static unsigned char bytes[READ_BYTES];
	ssize_t n = recv(cl->fd, bytes, sizeof(bytes) - 1, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		on_ended(c, cl);
		return;
	}
	if (n <= 0)
		return;
	bytes[n] = '\0';
	if (comes_again(c)) {
		c->messages += strncmp((char *)bytes, "HTTP/1.1", 8) == 0;
		c->opened += strncmp((char *)bytes, "HTTP/1.1 101", 12) == 0;
		if (c->kind == KIND_GUESS)
			drop(c, cl);
		return;
	}
	if (cl->stage == STAGE_SHAKING && strncmp((char *)bytes, "HTTP/1.1 101", 12) == 0)
		on_open(c, cl);
	else if (cl->stage == STAGE_OPEN && c->kind == KIND_IDLE)
		answer_pings(c, cl, bytes, (size_t)n);
}

static void on_event(struct crowd *c, struct client *cl, uint32_t events)
{
	if (cl->fd < 0)
		return;
	if (cl->stage == STAGE_DIALLING) {
		on_connected(c, cl);
		return;
	}
	if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLIN)) {
		on_ended(c, cl);
		return;
	}
	if (events & EPOLLIN)
		on_readable(c, cl);
	if (cl->fd >= 0 && events & EPOLLOUT && cl->stage == STAGE_OPEN && is_flooding(c))
		flood(c, cl);
}

/* A byte of each slow client. */
static void step(struct crowd *c)
{
	for (size_t i = 0; i < c->count; i++) {
		struct client *cl = &c->clients[i];

		if (cl->fd < 0)
			continue;
		if (c->kind == KIND_SLOW_HANDSHAKE && cl->stage == STAGE_SHAKING)
			push(c, cl, request, strlen(request), 1);
		if (c->kind == KIND_SLOW_FRAME && cl->stage == STAGE_OPEN)
			push(c, cl, slow_frame, sizeof(slow_frame) - 1, 1);
	}
}

static void run(struct crowd *c)
{
	struct epoll_event events[256];
	double due = now_s();

	while (!is_told_to_end) {
		int wait = (int)((due - now_s()) * 1000);

		dial_more(c);
		if (comes_again(c))
			dial_again(c);
		int n = epoll_wait(c->epoll, events, 256, wait > 0 ? wait : 0);
		for (int i = 0; i < n; i++)
			on_event(c, events[i].data.ptr, events[i].events);
		if (now_s() < due)
			continue;
		due = now_s() + STEP_MS / 1000.0;
		step(c);
		report(c);
	}
}

static enum kind find_kind(const char *name)
{
	for (int i = 0; i < KINDS; i++)
		if (strcmp(names[i], name) == 0)
			return (enum kind)i;
	errno = EINVAL;
	give_up(name);
}

int main(int argc, char **argv)
{
	struct crowd c = {.epoll = epoll_create1(EPOLL_CLOEXEC)};
	struct rlimit files;

	if (argc != 5) {
		fprintf(stderr, "usage: crowd KIND PORT COUNT ADDRESS\n");
		return 2;
	}
	c.kind = find_kind(argv[1]);
	c.count = strtoul(argv[3], NULL, 10);
	c.to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
	c.to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c.from = (struct sockaddr_in){.sin_family = AF_INET};
	inet_pton(AF_INET, argv[4], &c.from.sin_addr);
	c.clients = calloc(c.count, sizeof(*c.clients));
	for (size_t i = 0; i < c.count; i++)
		c.clients[i].fd = -1;
	snprintf(request, sizeof(request), handshake,
		 c.kind == KIND_DEAF    ? "Sec-WebSocket-Protocol: wsonce.ack.v1\r\n"
		 : c.kind == KIND_GUESS ? "Authorization: Bearer a-guess\r\n"
					: "");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	run(&c);
	report(&c);
	return 0;
}
