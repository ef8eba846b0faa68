/* A table of each state of the connection to Redis, to sentinels and to a cluster, each way to lose the server, and the
 * expected result. The servers are sockets in this process. */
#include "base/log.h"
#include "clock.h"
#include "port.h"
#include "redis/connection.h"
#include "redis/slots.h"
#include "unit.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <poll.h>

#define CONNS      32
#define TIMEOUT_MS 1000
#define IDLE_MS    20 /* simulated time that passes when nothing happens for a millisecond */

enum door { NODE_A, NODE_B, SENTINEL_A, SENTINEL_B, DOORS };

/* The answer at which a server fails. */
enum moment {
	AT_LOGIN, /* to INFO, of a node */
	AT_PING,  /* to the last command of the login */
	AT_REST,  /* nothing is asked */
	AT_COMMAND,
	AT_EPOCH, /* of a sentinel */
	AT_NAME,
	AT_MAP, /* of a cluster */
	NEVER,
	AT_OTHER,
};

enum fault { CUT, END, ERROR, GARBAGE, SILENCE, HALF, HALF_SILENCE, FAULTS };
static const char *const fault_names[] = {"cut", "end", "error", "garbage", "silence", "half", "half, then silence"};

enum must {
	LOSE, /* DOWN once, then READY; nothing waits for an answer */
	STAY, /* nothing happens */
	TELL, /* the command gets the error, and the connection stays */
	NULLS /* the command gets NULL once, and the connection is lost */
};

struct row {
	enum redis_state state;
	enum must must[FAULTS];
};

/* clang-format off */
static const struct row table[] = {
	/*                               cut    end    error garbage silence half   half_silence */
	[AT_LOGIN]   = {REDIS_CONNECTING, {LOSE,  LOSE,  STAY, LOSE,  LOSE,  LOSE,  LOSE}},
	[AT_PING]    = {REDIS_CONNECTING, {LOSE,  LOSE,  STAY, LOSE,  LOSE,  LOSE,  LOSE}},
	[AT_REST]    = {REDIS_READY,      {LOSE,  LOSE,  LOSE, LOSE,  STAY,  LOSE,  STAY}},
	[AT_COMMAND] = {REDIS_READY,      {NULLS, NULLS, TELL, NULLS, NULLS, NULLS, NULLS}},
};
/* clang-format on */

/* The compiler names a state without rows (-Wswitch). */
static enum moment first_row_of(enum redis_state state)
{
	switch (state) {
	case REDIS_DOWN:    /* a_server_that_is_gone_is_dialled_until_it_is_back */
	case REDIS_CLOSING: /* a_connection_can_be_closed_in_each_state */
		return NEVER;
	case REDIS_CONNECTING:
		return AT_LOGIN;
	case REDIS_READY:
		return AT_REST;
	}
	return NEVER;
}

/* --- the servers --- */

struct conn {
	int fd; /* 0: none */
	enum door door;
	bool is_failed;
	size_t len;
	char in[1 << 16];
};

static uv_loop_t loop;
static struct redis *r;
static struct conn conns[CONNS];
static int doors[DOORS], ports[DOORS];
static char out[4000];
static size_t out_len;
static enum moment fails_at;
static enum door fails_behind;
static enum fault fault;
static bool is_failed, is_cluster;
static enum door master; /* that the sentinels name */
static long long epoch;  /* that they know */
static const char *said = "-ERR played\r\n";
static const char *redirect_code; /* what nodes answer to commands; NULL: they obey */
static int commands[DOORS];

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	out_len += (size_t)vsnprintf(out + out_len, sizeof(out) - out_len, format, args);
	va_end(args);
	cr_assert_lt(out_len, sizeof(out));
}

static void add_text(const char *text)
{
	add("$%zu\r\n%s\r\n", strlen(text), text);
}

static void drop(struct conn *c)
{
	close(c->fd);
	c->fd = 0;
}

static void cut(struct conn *c)
{
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	drop(c);
}

static void say(struct conn *c, const char *bytes, size_t len)
{
	cr_assert_eq(send(c->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void fail(struct conn *c)
{
	is_failed = true;
	if (fails_at < AT_EPOCH && !is_cluster)
		cr_assert_eq(redis_state(r), table[fails_at].state);
	if (fault == HALF || fault == HALF_SILENCE)
		say(c, out, out_len / 2);
	if (fault == GARBAGE)
		say(c, "hello\r\n", 7);
	if (fault == CUT) {
		cut(c);
	} else if (fault == ERROR) {
		say(c, said, strlen(said));
	} else {
		c->is_failed = true;
		if (fault == END || fault == HALF)
			shutdown(c->fd, SHUT_WR);
	}
}

static void answer(struct conn *c, enum moment moment)
{
	if (moment == fails_at && c->door == fails_behind && !is_failed)
		fail(c);
	else
		say(c, out, out_len);
	out_len = 0;
}

static void add_node(enum door door, int from, int to)
{
	add("*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\nx\r\n", from, to, ports[door]);
}

static enum moment obey(struct conn *c)
{
	if (!redirect_code)
		add_text("x");
	else
		add("-%s 1 127.0.0.1:%d\r\n", redirect_code, ports[c->door == NODE_A ? NODE_B : NODE_A]);
	commands[c->door]++;
	return AT_COMMAND;
}

static enum moment make_answer(struct conn *c, const char *first, const char *second)
{
	char text[200];

	if (strcmp(first, "GET") == 0)
		return obey(c);
	if (strcmp(first, "PING") == 0) {
		add_text("PONG");
		return AT_PING;
	}
	if (strcmp(second, "server") == 0) {
		snprintf(text, sizeof(text), "redis_version:7.2.0\r\nrun_id:0123456789\r\nredis_mode:%s\r\n",
			 is_cluster ? "cluster" : "standalone");
		add_text(text);
		return AT_LOGIN;
	}
	if (strcmp(second, "MASTER") == 0) {
		add("*2\r\n$12\r\nconfig-epoch\r\n");
		snprintf(text, sizeof(text), "%lld", epoch);
		add_text(text);
		return AT_EPOCH;
	}
	if (strcmp(first, "SENTINEL") == 0) {
		snprintf(text, sizeof(text), "%d", ports[master]);
		add("*2\r\n$9\r\n127.0.0.1\r\n");
		add_text(text);
		return AT_NAME;
	}
	if (strcmp(first, "CLUSTER") == 0) {
		add("*2\r\n");
		add_node(NODE_A, 0, SLOTS / 2 - 1);
		add_node(NODE_B, SLOTS / 2, SLOTS - 1);
		return AT_MAP;
	}
	if (strcmp(first, "ROLE") == 0)
		add("*1\r\n$6\r\nmaster\r\n");
	else if (strcmp(first, "CLIENT") == 0)
		add(":7\r\n");
	else if (strcmp(first, "ASKING") == 0)
		add("+OK\r\n");
	else
		add_text("maxmemory:0\r\nmaxmemory_policy:noeviction\r\n");
	return AT_OTHER;
}

/* Takes the first command. Returns its bytes, 0 if it is not complete. */
static size_t take_first(struct conn *c)
{
	static char words[4][20000];
	char *at = c->in;

	c->in[c->len] = '\0';
	memset(words, 0, sizeof(words));
	if (!(at = strchr(at, '\n')))
		return 0;
	at++;
	for (long i = 0, n = strtol(c->in + 1, NULL, 10); i < n; i++) {
		size_t len = strtoul(at + 1, NULL, 10);

		at = strchr(at, '\n');
		if (!at || at + 1 + len + 2 > c->in + c->len)
			return 0;
		if (i < 4 && len < sizeof(words[0]))
			memcpy(words[i], at + 1, len);
		at += 1 + len + 2;
	}
	answer(c, make_answer(c, words[0], words[1]));
	return (size_t)(at - c->in);
}

static void serve_conn(struct conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - 1 - c->len, MSG_DONTWAIT);
	size_t used;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	c->len += (size_t)n;
	while (c->fd && !c->is_failed && c->len && (used = take_first(c)))
		memmove(c->in, c->in + used, c->len -= used);
	if (c->is_failed)
		c->len = 0;
}

static void take_conn(enum door door, int fd)
{
	struct conn *c = conns;

	while (c->fd)
		cr_assert_lt(++c, conns + CONNS);
	memset(c, 0, offsetof(struct conn, in));
	c->fd = fd;
	c->door = door;
}

static void serve(void)
{
	for (int i = 0; i < DOORS; i++)
		for (int fd; doors[i] >= 0 && (fd = accept4(doors[i], NULL, NULL, SOCK_CLOEXEC)) >= 0;)
			take_conn((enum door)i, fd);
	for (struct conn *c = conns; c < conns + CONNS; c++)
		if (c->fd)
			serve_conn(c);
}

static struct conn *conn_of(enum door door)
{
	for (struct conn *c = conns; c < conns + CONNS; c++)
		if (c->fd && c->door == door)
			return c;
	return NULL;
}

static int count_conns(enum door door)
{
	int n = 0;

	for (struct conn *c = conns; c < conns + CONNS; c++)
		n += c->fd && c->door == door;
	return n;
}

/* --- the client --- */

static int downs, readies, answers;
static bool is_null, is_error, is_closed;

static void on_state(void *owner, enum redis_state state)
{
	downs += state == REDIS_DOWN;
	readies += state == REDIS_READY;
}

static void on_reply(void *owner, void *arg, const struct redis_reply *reply)
{
	cr_assert_not(is_closed);
	answers++;
	is_null = !reply;
	is_error = reply && reply->type == REPLY_ERROR;
}

/* Time passes when nothing happens. */
static void turn(void)
{
	struct pollfd fds[1 + DOORS + CONNS] = {{.fd = uv_backend_fd(&loop), .events = POLLIN}};
	nfds_t n = 1;

	serve();
	uv_run(&loop, UV_RUN_NOWAIT);
	for (int i = 0; i < DOORS; i++)
		fds[n++] = (struct pollfd){.fd = doors[i], .events = POLLIN};
	for (int i = 0; i < CONNS; i++)
		fds[n++] = (struct pollfd){.fd = conns[i].fd ? conns[i].fd : -1, .events = POLLIN};
	if (poll(fds, n, 1) == 0)
		clock_pass(IDLE_MS);
}

#define AWAIT(condition) \
	for (time_t until = time(NULL) + 20; !(condition); turn()) \
	cr_assert_lt(time(NULL), until, "%s: waiting for " #condition, fault_names[fault])

static void pass(int64_t ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t until = now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms;
	do {
		turn();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < until);
}

static bool is_second;

static void open_all(bool has_sentinels, enum moment moment, enum door door, enum fault f)
{
	static char url[200];
	const struct redis_settings settings = {
		.url = url, .timeout_ms = TIMEOUT_MS, .is_second = is_second, .on_state = on_state};

	for (int i = 0; i < DOORS; i++) {
		ports[i] = ports[i] ? ports[i] : port_reserve(); /* while it is shut, no other test has it */
		doors[i] = port_listen(ports[i]);
	}
	fails_at = moment;
	fails_behind = door;
	fault = f;
	is_failed = is_closed = false;
	downs = readies = answers = 0;
	master = NODE_A;
	epoch = 5;
	redirect_code = NULL;
	if (has_sentinels)
		snprintf(url, sizeof(url), "redis-sentinel://127.0.0.1:%d,127.0.0.1:%d/m", ports[SENTINEL_A],
			 ports[SENTINEL_B]);
	else
		snprintf(url, sizeof(url), "redis://127.0.0.1:%d", ports[NODE_A]);
	uv_loop_init(&loop);
	r = redis_open(&loop, &settings);
}

static void on_done(void *arg)
{
	cr_assert_not(is_closed);
	is_closed = true;
}

static void close_all(void)
{
	redis_close(r, on_done, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert(is_closed);
	cr_assert_eq(uv_loop_close(&loop), 0);
	for (int i = 0; i < DOORS; i++)
		close(doors[i]);
	for (struct conn *c = conns; c < conns + CONNS; c++)
		if (c->fd)
			drop(c);
}

/* Sends a command with a key of that node. */
static void send_get(enum door door)
{
	const char *key = door == NODE_A ? "bar" : "foo";
	char bytes[60];
	int n = snprintf(bytes, sizeof(bytes), "*2\r\n$3\r\nGET\r\n$3\r\n%s\r\n", key);

	cr_assert_eq(slot_of_key(key, 3) < SLOTS / 2, door == NODE_A);
	answers = 0;
	cr_assert_eq(redis_send(r, bytes, (size_t)n, on_reply, NULL), 0);
}

static void use(enum door door)
{
	for (int i = 0; i < 3; i++) {
		send_get(door);
		AWAIT(answers);
		cr_assert(!is_null && !is_error, "%s: no answer", fault_names[fault]);
	}
	turn();
	cr_assert_eq(answers, 1);
}

static void reach(enum moment moment)
{
	if (moment == AT_REST || moment == AT_COMMAND)
		AWAIT(readies);
	if (moment == AT_COMMAND)
		send_get(NODE_A);
	if (moment == AT_REST) {
		add_text("unasked");
		answer(conn_of(NODE_A), moment);
	}
	AWAIT(is_failed);
}

static void lose(enum moment moment, enum fault f)
{
	enum must must = table[moment].must[f];

	open_all(false, moment, NODE_A, f);
	reach(moment);
	if (must == LOSE || must == NULLS)
		AWAIT(downs);
	if (must == NULLS || must == TELL) {
		AWAIT(answers);
		cr_assert_eq(is_null, must == NULLS, "%s", fault_names[f]);
		cr_assert_eq(is_error, must == TELL, "%s", fault_names[f]);
	}
	AWAIT(redis_state(r) == REDIS_READY);
	pass(TIMEOUT_MS * 2);
	cr_assert_eq(downs, must == LOSE || must == NULLS, "%s: %d times down", fault_names[f], downs);
	cr_assert_eq(answers, must == NULLS || must == TELL, "%s", fault_names[f]);
	cr_assert_eq(count_conns(NODE_A), 1, "%s", fault_names[f]);
	cr_assert_eq(redis_unanswered(r), 0);
	if (moment != AT_REST || must == LOSE)
		use(NODE_A);
	close_all();
}

TestSuite(redis_loss, .timeout = 60);

#define LOSS(moment) \
	Test(redis_loss, moment) \
	{ \
		for (int f = 0; f < FAULTS; f++) \
			lose(moment, (enum fault)f); \
	}

LOSS(AT_LOGIN)
LOSS(AT_PING)
LOSS(AT_REST)
LOSS(AT_COMMAND)

Test(redis_loss, each_state_has_a_row)
{
	for (int state = REDIS_DOWN; state <= REDIS_CLOSING; state++) {
		enum moment moment = first_row_of((enum redis_state)state);

		cr_assert(moment == NEVER || (int)table[moment].state == state);
	}
}

static void shut(enum door door)
{
	close(doors[door]);
	doors[door] = -1;
}

Test(redis_loss, a_server_that_is_gone_is_dialled_until_it_is_back)
{
	open_all(false, NEVER, NODE_A, CUT);
	shut(NODE_A);
	AWAIT(downs == 5);
	doors[NODE_A] = port_listen(ports[NODE_A]);
	AWAIT(readies);
	use(NODE_A);
	close_all();
}

static int log_file, kept;

static void keep_log(void)
{
	log_file = memfd_create("log", 0);
	kept = dup(STDERR_FILENO);
	dup2(log_file, STDERR_FILENO);
	log_setup(LOG_INFO, LOG_TEXT, NULL);
}

static void expect_lines(int most, const char *line, const char *reason)
{
	char text[4000] = "";
	int lines = 0;

	dup2(kept, STDERR_FILENO);
	cr_assert_gt(pread(log_file, text, sizeof(text) - 1, 0), 0);
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	cr_assert_leq(lines, most, "%s", text);
	cr_assert(strstr(text, line) && strstr(text, reason), "%s", text);
}

/* The loss is not told, because the one before was. */
Test(redis_loss, a_server_that_is_lost_again_and_stays_away_is_told_within_a_minute)
{
	open_all(false, NEVER, NODE_A, CUT);
	AWAIT(readies);
	keep_log();
	drop(conn_of(NODE_A));
	AWAIT(downs == 1 && readies == 2);
	shut(NODE_A);
	drop(conn_of(NODE_A));
	pass(65000);
	expect_lines(6, "event=\"cannot connect to redis\" times=", "Connection refused");
	doors[NODE_A] = port_listen(ports[NODE_A]);
	AWAIT(readies == 3);
	close_all();
}

/* It was restarted, and now something else is wrong with it. */
Test(redis_loss, another_reason_is_told_at_once)
{
	open_all(false, NEVER, NODE_A, GARBAGE);
	AWAIT(readies);
	keep_log();
	shut(NODE_A);
	drop(conn_of(NODE_A));
	pass(5000);
	fails_at = AT_PING;
	doors[NODE_A] = port_listen(ports[NODE_A]);
	AWAIT(is_failed && readies == 2);
	expect_lines(4, "event=\"cannot connect to redis\" reason=", "an answer is not RESP2");
	close_all();
}

Test(redis_loss, a_server_that_is_away_at_the_start_is_told_once_a_minute)
{
	keep_log();
	open_all(false, NEVER, NODE_A, CUT);
	shut(NODE_A);
	pass(65000);
	expect_lines(2, "event=\"cannot connect to redis\" times=", "Connection refused");
	close_all();
}

Test(redis_loss, a_second_connection_leaves_telling_to_the_first)
{
	is_second = true;
	keep_log();
	open_all(false, NEVER, NODE_A, CUT);
	shut(NODE_A);
	pass(5000);
	dup2(kept, STDERR_FILENO);
	cr_assert_eq(lseek(log_file, 0, SEEK_END), 0);
	close_all();
}

/* Their reasons differ from the master's, and are told once. */
Test(redis_loss, sentinels_that_are_lost_with_the_master_are_told_once_a_minute)
{
	open_all(true, NEVER, NODE_A, CUT);
	AWAIT(readies);
	keep_log();
	for (int door = 0; door < DOORS; door++)
		shut((enum door)door);
	for (int i = 0; i < CONNS; i++)
		if (conns[i].fd)
			cut(&conns[i]);
	pass(65000);
	expect_lines(4, "event=\"redis connection is lost\"", " times=");
	close_all();
}

/* A server that takes no more clients says so, and closes the connection. */
Test(redis_loss, why_a_server_takes_no_client_is_told)
{
	said = "-ERR max number of clients reached\r\n";
	open_all(false, AT_LOGIN, NODE_A, ERROR);
	AWAIT(downs || readies);
	cr_assert_str_eq(redis_trouble(r), "ERR max number of clients reached");
	AWAIT(readies);
	close_all();
}

/* Waiting callers get NULL. */
Test(redis_loss, a_connection_can_be_closed_in_each_state)
{
	for (int moment = AT_LOGIN; moment <= AT_COMMAND; moment++)
		for (int f = 0; f < FAULTS; f++) {
			open_all(false, (enum moment)moment, NODE_A, (enum fault)f);
			reach((enum moment)moment);
			close_all();
			cr_assert_eq(answers, moment == AT_COMMAND);
		}
	open_all(false, NEVER, NODE_A, CUT);
	close_all();
}

/* --- sentinels --- */

/* The other sentinel is asked, the first one again later, and the next master is found. */
static void lose_sentinel(enum moment moment, bool is_calm, enum fault f)
{
	open_all(true, is_calm ? NEVER : moment, SENTINEL_A, f);
	if (is_calm)
		AWAIT(readies);
	if (is_calm && !conn_of(SENTINEL_A))
		fails_behind = SENTINEL_B;
	fails_at = moment;
	AWAIT(is_failed);
	AWAIT(readies);
	pass(2000);
	cr_assert_eq(downs, 0, "%s", fault_names[f]);
	cr_assert_leq(count_conns(SENTINEL_A) + count_conns(SENTINEL_B), 1);
	use(NODE_A);
	master = NODE_B;
	epoch++;
	AWAIT(readies == 2);
	cr_assert_eq(count_conns(NODE_A), 0);
	use(NODE_B);
	close_all();
}

#define LOSS_OF_SENTINEL(moment) \
	Test(redis_loss, sentinel_##moment) \
	{ \
		for (int f = 0; f < FAULTS; f++) { \
			lose_sentinel(moment, false, (enum fault)f); \
			lose_sentinel(moment, true, (enum fault)f); \
		} \
	}

LOSS_OF_SENTINEL(AT_EPOCH)
LOSS_OF_SENTINEL(AT_NAME)

/* Sentinels may be replaced by new ones. Their older epoch is accepted only after the master has been gone for five
 * seconds. */
Test(redis_loss, sentinels_that_lost_their_epoch_are_believed_when_the_master_is_gone)
{
	open_all(true, NEVER, NODE_A, CUT);
	AWAIT(readies);
	master = NODE_B;
	epoch = 1;
	pass(8000);
	cr_assert_eq(count_conns(NODE_A), 1);
	cr_assert_eq(count_conns(NODE_B), 0);
	shut(NODE_A);
	cut(conn_of(NODE_A));
	AWAIT(downs);
	pass(4500);
	cr_assert_eq(count_conns(NODE_B), 0);
	AWAIT(readies == 2);
	use(NODE_B);
	pass(2000);
	cr_assert_eq(redis_state(r), REDIS_READY);
	close_all();
}

/* --- a cluster --- */

static void lose_of_cluster(enum moment moment, enum door door, enum fault f)
{
	open_all(false, moment, door, f);
	if (moment == AT_COMMAND) {
		AWAIT(readies);
		pass(1000);
		send_get(door);
	}
	AWAIT(is_failed);
	if (moment == AT_COMMAND) {
		AWAIT(answers);
		cr_assert_eq(is_null, f != ERROR, "%s", fault_names[f]);
		use(NODE_A);
	}
	AWAIT(readies && redis_state(r) == REDIS_READY);
	pass(TIMEOUT_MS * 3);
	use(NODE_A);
	use(NODE_B);
	cr_assert_eq(count_conns(NODE_A), 2, "%s: the seed and the master", fault_names[f]);
	cr_assert_eq(count_conns(NODE_B), 1, "%s", fault_names[f]);
	close_all();
}

#define LOSS_OF_CLUSTER(moment, door) \
	Test(redis_loss, cluster_##moment##_##door) \
	{ \
		is_cluster = true; \
		for (int f = 0; f < FAULTS; f++) \
			lose_of_cluster(moment, door, (enum fault)f); \
	}

LOSS_OF_CLUSTER(AT_MAP, NODE_A)
LOSS_OF_CLUSTER(AT_MAP, NODE_B)
LOSS_OF_CLUSTER(AT_LOGIN, NODE_B)
LOSS_OF_CLUSTER(AT_COMMAND, NODE_B)

/* Two nodes that each say the other has the slot are asked once each. */
Test(redis_loss, redirects_without_end_are_followed_once)
{
	static const char *const codes[] = {"MOVED", "ASK"};

	is_cluster = true;
	for (int i = 0; i < 2; i++) {
		open_all(false, NEVER, NODE_A, CUT);
		AWAIT(readies);
		pass(1000);
		redirect_code = codes[i];
		memset(commands, 0, sizeof(commands));
		send_get(NODE_A);
		AWAIT(answers);
		pass(2000);
		cr_assert_eq(answers, 1);
		cr_assert(is_error);
		cr_assert_eq(commands[NODE_A], 1);
		cr_assert_eq(commands[NODE_B], 1);
		redirect_code = NULL;
		use(NODE_A);
		close_all();
	}
}
