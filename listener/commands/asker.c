/* asker.c owns the processes in which a page's questions are answered. A first one is forked while this program is
 * still small and has one thread; it gets the words of a command and the end of a pipe (unix(7), SCM_RIGHTS), and forks
 * a process that runs the command as from a shell. So the answers are what the command prints, and a server that hangs
 * holds up one question, for as long as it may take. */
#include "commands/asker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "commands/dispatch.h"
#include "commands/session.h"

#define AT_ONCE     4
#define WAITING_MAX 64
#define WORDS_MAX   256
#define TEXT_MAX    (60u << 10) /* of all words, a datagram */
#define ANSWER_MAX  (16u << 20)
#define SPARE_S     2 /* for what a command does beside its statements */

/* What is sent before the words, each of which ends by NUL. */
struct order {
	unsigned int limit_s;
	int word_count;
	bool changes;
};

/* A question that waits or is asked. */
struct asked {
	struct list link;
	struct asker *asker;
	struct bytes order;  /* as it is sent */
	struct bytes answer; /* its exit status, what it printed, NUL, what it complained of */
	uv_pipe_t pipe;
	asker_cb *cb;
	void *arg;
};

struct asker {
	const struct config *config;
	uv_loop_t *loop;
	uv_poll_t poll; /* of the socket, which says nothing but that it is closed */
	int socket;
	pid_t pid;
	struct list waiting;
	struct list at_work;
	size_t waiting_count;
	size_t at_work_count;
	bool is_closed;
};

/* --- the process that answers one question --- */

static void send_byte(int pipe, int byte)
{
	char text = (char)byte;

	if (write(pipe, &text, 1) != 1)
		_exit(STATUS_FAILED);
}

static void send_file(int pipe, int file)
{
	char room[65536];
	ssize_t n;

	if (lseek(file, 0, SEEK_SET))
		return;
	while ((n = read(file, room, sizeof(room))) > 0)
		for (ssize_t done = 0, more; done < n; done += more)
			if ((more = write(pipe, room + done, (size_t)(n - done))) <= 0)
				return;
}

static void answer(const struct config *config, const struct order *order, char **words, int pipe)
{
	int out = memfd_create("answer", MFD_CLOEXEC), errors = memfd_create("errors", MFD_CLOEXEC), status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(order->limit_s);
	if (out < 0 || errors < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0)
		_exit(STATUS_FAILED);
	session_limit((int64_t)(order->limit_s > 2 * SPARE_S ? order->limit_s - SPARE_S : SPARE_S) * 1000,
		      !order->changes);
	status = dispatch_call(config, order->word_count, words);
	fflush(stderr);
	send_byte(pipe, status);
	send_file(pipe, out);
	send_byte(pipe, 0);
	send_file(pipe, errors);
	_exit(0);
}

/* --- the process that forks --- */

/* Of a datagram: the end of the pipe, or -1. */
static int take_pipe(struct msghdr *message)
{
	const struct cmsghdr *head = CMSG_FIRSTHDR(message);
	int pipe = -1;

	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
		memcpy(&pipe, CMSG_DATA(head), sizeof(pipe));
	return pipe;
}

static void fork_answer(const struct config *config, char *text, size_t len, int pipe)
{
	struct order order;
	char *words[WORDS_MAX + 1], *at = text + sizeof(order);

	memcpy(&order, text, sizeof(order));
	for (int i = 0; i < order.word_count && at < text + len; i++, at += strlen(at) + 1)
		words[i] = at;
	if (fork() == 0) {
		signal(SIGCHLD, SIG_DFL);
		answer(config, &order, words, pipe);
	}
}

/* Ends when nobody can ask any more, by a kill too. */
_Noreturn static void serve(const struct config *config, int socket)
{
	char *text = memory_alloc(TEXT_MAX);
	char control[CMSG_SPACE(sizeof(int))];

	prctl(PR_SET_NAME, "wsonce-asker");
	signal(SIGINT, SIG_IGN); /* of the terminal: the program says when it is over */
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		struct iovec part = {text, TEXT_MAX};
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
		int pipe = n > 0 ? take_pipe(&message) : -1;

		if (n == 0 || (n < 0 && errno != EINTR))
			_exit(0);
		if (pipe >= 0 && (size_t)n > sizeof(struct order))
			fork_answer(config, text, (size_t)n, pipe);
		if (pipe >= 0)
			close(pipe);
	}
}

struct asker *asker_fork(const struct config *config)
{
	struct asker *a = memory_calloc(1, sizeof(*a));
	int ends[2];

	a->config = config;
	list_init(&a->waiting);
	list_init(&a->at_work);
	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
		a->pid = fork();
		if (a->pid == 0) {
			close(ends[0]);
			serve(config, ends[1]);
		}
		close(ends[1]);
		a->socket = ends[0];
		if (a->pid > 0)
			return a;
		close(ends[0]);
	}
	free(a);
	return NULL;
}

/* --- the program --- */

/* A program that cannot ask any more is of no use: who started it is to start it again. */
static void on_gone(uv_poll_t *poll, int status, int events)
{
	(void)poll, (void)status, (void)events;
	log_error("the process that answers questions has ended", "reason=%s", "killed");
	_exit(STATUS_FAILED);
}

void asker_start(struct asker *a, uv_loop_t *loop)
{
	a->loop = loop;
	uv_poll_init(loop, &a->poll, a->socket);
	uv_poll_start(&a->poll, UV_READABLE | UV_DISCONNECT, on_gone);
}

static void asked_free(struct asked *q)
{
	bytes_free(&q->order);
	bytes_free(&q->answer);
	free(q);
}

static void ask_next(struct asker *a);

static void on_closed(uv_handle_t *handle)
{
	struct asked *q = handle->data;
	struct asker *a = q->asker;
	bool has_end = q->answer.len > 1 && memchr(q->answer.at + 1, 0, q->answer.len - 1);
	bool is_whole = has_end && q->answer.len <= ANSWER_MAX;
	const char *text = is_whole ? bytes_text(&q->answer) + 1 : "";

	if (!a->is_closed)
		q->cb(q->arg, is_whole ? q->answer.at[0] : -1, text, is_whole ? text + strlen(text) + 1 : "");
	list_remove(&q->link);
	a->at_work_count--;
	asked_free(q);
	if (!a->is_closed)
		ask_next(a);
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
	struct asked *q = handle->data;

	room->base = bytes_reserve(&q->answer, wanted);
	room->len = wanted;
}

static void on_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
	struct asked *q = stream->data;

	(void)bytes;
	if (n > 0)
		q->answer.len += (size_t)n;
	if (n < 0 || q->answer.len > ANSWER_MAX)
		uv_close((uv_handle_t *)stream, on_closed);
}

static int send_order(const struct asker *a, const struct asked *q, int pipe)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {q->order.at, q->order.len};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(pipe));
	memcpy(CMSG_DATA(head), &pipe, sizeof(pipe));
	return sendmsg(a->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)q->order.len ? 0 : -1;
}

/* What cannot be asked is closed at once, without an answer. */
static void ask(struct asker *a, struct asked *q)
{
	int ends[2] = {-1, -1};

	uv_pipe_init(a->loop, &q->pipe, 0);
	q->pipe.data = q;
	a->at_work_count++;
	list_append(&a->at_work, &q->link);
	if (pipe2(ends, O_CLOEXEC) == 0 && send_order(a, q, ends[1]) == 0 && uv_pipe_open(&q->pipe, ends[0]) == 0 &&
	    uv_read_start((uv_stream_t *)&q->pipe, give_room, on_bytes) == 0) {
		close(ends[1]);
		return;
	}
	if (ends[1] >= 0)
		close(ends[1]);
	uv_close((uv_handle_t *)&q->pipe, on_closed);
}

static void ask_next(struct asker *a)
{
	while (a->at_work_count < AT_ONCE && !list_is_empty(&a->waiting)) {
		struct list *first = a->waiting.next;

		list_remove(first);
		a->waiting_count--;
		ask(a, list_entry(first, struct asked, link));
	}
}

int asker_ask(struct asker *a, const struct question *question, asker_cb *cb, void *arg)
{
	const struct order order = {question->limit_s, question->word_count, question->changes};
	struct asked *q;

	if (a->waiting_count >= WAITING_MAX || question->word_count > WORDS_MAX)
		return -1;
	q = memory_calloc(1, sizeof(*q));
	q->asker = a;
	q->cb = cb;
	q->arg = arg;
	bytes_add(&q->order, &order, sizeof(order));
	for (int i = 0; i < question->word_count; i++)
		bytes_add(&q->order, question->words[i], strlen(question->words[i]) + 1);
	if (q->order.len > TEXT_MAX) {
		asked_free(q);
		return -1;
	}
	list_append(&a->waiting, &q->link);
	a->waiting_count++;
	ask_next(a);
	return 0;
}

void asker_close(struct asker *a)
{
	a->is_closed = true;
	if (a->loop)
		uv_close((uv_handle_t *)&a->poll, NULL);
	close(a->socket);
	list_each(node, after, &a->waiting) {
		list_remove(node);
		asked_free(list_entry(node, struct asked, link));
	}
	list_each(open, after, &a->at_work) {
		uv_handle_t *pipe = (uv_handle_t *)&list_entry(open, struct asked, link)->pipe;

		if (!uv_is_closing(pipe))
			uv_close(pipe, on_closed);
	}
}

void asker_free(struct asker *a)
{
	if (!a)
		return;
	waitpid(a->pid, NULL, 0);
	free(a);
}
