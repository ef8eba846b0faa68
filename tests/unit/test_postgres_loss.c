/* A table of each state of the connection to Postgres, each way to lose the server, and the expected result. The server
 * is a socket in this process that answers like one with an empty database. */
#include "clock.h"
#include "postgres/connection.h"
#include "postgres/schema.h"
#include "unit.h"
#include <arpa/inet.h>
#include <sys/socket.h>

#define CONNS      64
#define TIMEOUT_MS 10000
#define ROWS       3 /* of a COPY */

/* The answer at which the server fails. */
enum moment {
	AT_LOGIN,
	AT_INSPECT,
	AT_ASK,
	AT_LOCK,
	AT_UPGRADE,
	AT_INSPECT_AGAIN,
	AT_IDENTIFY,
	AT_EPOCH,
	AT_REST,   /* idle */
	AT_QUERY,  /* a statement */
	AT_COPY,   /* it accepts no rows yet */
	AT_ROWS,   /* it accepts some rows and then stops */
	AT_COPIED, /* it has all rows */
	NEVER,
	AT_SETTINGS, /* the settings of a transaction */
};

enum fault { CUT, END, FATAL, ERROR, SILENCE, HALF, HALF_SILENCE, FAULTS, NO_ROW };
static const char *const fault_names[] = {"cut", "end",   "fatal", "error", "silence", "half", "half, then silence",
					  NULL,  "no row"};

/* The expected result. An enum postgres_result means that on_answer is called once with it and the connection is lost:
 * DOWN once, then READY, with nothing of the old one left. */
enum must {
	REDIAL = -3, /* nothing waits for an answer: only reconnect */
	STAY,        /* it stays READY */
	TELL,        /* the statement fails, and the connection stays */
};

struct row {
	enum postgres_state state;
	int must[FAULTS];
};

#define R REDIAL
#define U POSTGRES_UNKNOWN

/* clang-format off */
static const struct row table[] = {
	/*                                               cut end fatal error silence half half_silence */
	[AT_LOGIN]         = {POSTGRES_CONNECTING,      {R,  R,  R,    R,    R,      R,   R}},
	[AT_INSPECT]       = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_ASK]           = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_LOCK]          = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_UPGRADE]       = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_INSPECT_AGAIN] = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_IDENTIFY]      = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_EPOCH]         = {POSTGRES_PREPARING,       {R,  R,  R,    R,    R,      R,   R}},
	[AT_REST]          = {POSTGRES_READY,           {R,  R,  R,    STAY, STAY,   R,   STAY}},
	[AT_QUERY]         = {POSTGRES_BUSY,            {U,  U,  U,    TELL, U,      U,   U}},
	[AT_COPY]          = {POSTGRES_BUSY,            {U,  U,  U,    TELL, U,      U,   U}},
	[AT_ROWS]          = {POSTGRES_BUSY,            {U,  U,  U,    TELL, U,      U,   U}},
	[AT_COPIED]        = {POSTGRES_BUSY,            {U,  U,  U,    TELL, U,      U,   U}},
};
/* clang-format on */

/* The compiler names a state without rows (-Wswitch). */
static enum moment first_row_of(enum postgres_state state)
{
	switch (state) {
	case POSTGRES_DOWN:    /* a_server_that_is_gone_is_dialled_until_it_is_back */
	case POSTGRES_CLOSING: /* a_connection_can_be_closed_in_each_state */
		return NEVER;
	case POSTGRES_CONNECTING:
		return AT_LOGIN;
	case POSTGRES_PREPARING:
		return AT_INSPECT;
	case POSTGRES_READY:
		return AT_REST;
	case POSTGRES_BUSY:
		return AT_QUERY;
	}
	return NEVER;
}

/* --- the server --- */

struct conn {
	int fd; /* 0: none */
	bool is_started, is_copying, is_failed, is_skipping;
	int inspections;
	enum moment asked; /* by the statement that was parsed */
	size_t len;
	char in[1 << 17];
};

static uv_loop_t loop;
static struct postgres *p;
static int door = -1;
static struct sockaddr_in address = {.sin_family = AF_INET};
static struct conn conns[CONNS];
static char out[1 << 16]; /* the answer so far */
static size_t out_len;
static char withheld[1 << 16];
static size_t withheld_len;
static enum moment fails_at = NEVER;
static enum fault fault;
static bool is_failed, is_standing_still; /* it reads nothing */
static int cancels;

static void add(char type, const void *body, size_t len)
{
	uint32_t size = htonl((uint32_t)len + 4);

	out[out_len] = type;
	memcpy(out + out_len + 1, &size, 4);
	memcpy(out + out_len + 5, body, len);
	out_len += len + 5;
}

static void add_ready(void)
{
	add('Z', "I", 1);
}

static void add_done(const char *tag)
{
	add('C', tag, strlen(tag) + 1);
}

/* As PgBouncer does: without a V, the severity that is not translated. */
static void add_trouble(char type, const char *severity, const char *sqlstate)
{
	char body[100];
	int n = snprintf(body, sizeof(body), "S%s%cC%s%cMplayed%c", severity, 0, sqlstate, 0, 0);

	add(type, body, (size_t)n + 1);
}

/* One row of texts; NULL: a NULL. */
static void add_row(const char *name, int n, const char *const *texts)
{
	char head[600], row[600];
	size_t head_len = 2, row_len = 2;

	memcpy(head, (char[]){0, (char)n}, 2);
	memcpy(row, (char[]){0, (char)n}, 2);
	for (int i = 0; i < n; i++) {
		size_t len = texts[i] ? strlen(texts[i]) : 0;
		uint32_t size = htonl(texts[i] ? (uint32_t)len : UINT32_MAX);

		head_len += (size_t)sprintf(head + head_len, "%s", name) + 1;
		memcpy(head + head_len, "\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0", 18);
		head_len += 18;
		memcpy(row + row_len, &size, 4);
		memcpy(row + row_len + 4, texts[i] ? texts[i] : "", len);
		row_len += 4 + len;
	}
	add('T', head, head_len);
	add('D', row, row_len);
	add_done("SELECT 1");
}

static void add_text(const char *name, const char *text)
{
	add_row(name, 1, &text);
}

static void send_all(const struct conn *c, const char *bytes, size_t len)
{
	cr_assert_eq(send(c->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void drop(struct conn *c)
{
	close(c->fd);
	c->fd = 0;
}

/* Stops writing to the client, but keeps reading. */
static void end(struct conn *c)
{
	shutdown(c->fd, SHUT_WR);
	c->is_failed = true;
}

static void send_error(struct conn *c, enum moment moment)
{
	out_len = 0;
	add_trouble(moment == AT_REST ? 'N' : 'E', "ERROR", "53100");
	c->is_skipping = moment == AT_QUERY || moment == AT_INSPECT || moment == AT_INSPECT_AGAIN;
	if (!c->is_skipping && moment != AT_LOGIN && moment != AT_REST)
		add_ready();
	send_all(c, out, out_len);
	c->is_copying = is_standing_still = false;
	if (moment == AT_LOGIN)
		end(c);
}

static void fail(struct conn *c, enum moment moment)
{
	size_t half = fault == HALF || fault == HALF_SILENCE ? out_len / 2 : 0;

	is_failed = true;
	cr_assert_eq(postgres_state(p), table[moment].state);
	memcpy(withheld, out + half, withheld_len = out_len - half);
	switch (fault) {
	case CUT:
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
		drop(c);
		break;
	case HALF:
		send_all(c, out, half);
		end(c);
		break;
	case END:
		end(c);
		break;
	case FATAL:
		out_len = 0;
		add_trouble('E', "FATAL", "57P01");
		send_all(c, out, out_len);
		end(c);
		break;
	case ERROR:
		send_error(c, moment);
		break;
	case HALF_SILENCE:
		send_all(c, out, half);
		is_standing_still = c->is_failed = true;
		break;
	case SILENCE:
		is_standing_still = c->is_failed = true;
		break;
	case NO_ROW:
		out_len = 0;
		add_done("SELECT 0");
		if (moment != AT_INSPECT && moment != AT_INSPECT_AGAIN)
			add_ready();
		send_all(c, out, out_len);
		break;
	case FAULTS:
		break;
	}
}

static void answer(struct conn *c, enum moment moment)
{
	if (moment == fails_at && !is_failed)
		fail(c, moment);
	else
		send_all(c, out, out_len);
	out_len = 0;
}

static enum moment read_sql(struct conn *c, const char *sql)
{
	if (strncmp(sql, SCHEMA_BEFORE_STEP, strlen(SCHEMA_BEFORE_STEP)) == 0)
		sql += strlen(SCHEMA_BEFORE_STEP);
	if (strstr(sql, "COPY t FROM STDIN"))
		return AT_COPY;
	if (strstr(sql, "set_config"))
		return AT_SETTINGS;
	if (strcmp(sql, schema_inspect_sql()) == 0)
		return c->inspections++ ? AT_INSPECT_AGAIN : AT_INSPECT;
	if (strncmp(sql, "BEGIN;", 6) == 0)
		return AT_LOCK;
	if (strncmp(sql, "SELECT coalesce(pg_catalog.max(version)", 39) == 0)
		return AT_ASK;
	if (strncmp(sql, "SET LOCAL lock_timeout", 22) == 0)
		return AT_UPGRADE;
	if (strstr(sql, "INSERT INTO public.wsonce_epoch"))
		return AT_EPOCH;
	if (strstr(sql, "AS wsonce_epoch"))
		return AT_IDENTIFY;
	cr_assert_str_eq(sql, "SELECT 'x'");
	return AT_QUERY;
}

static void add_answer(enum moment moment)
{
	static const char *const seen[] = {"public", "t", NULL, NULL, "0", "0", "f", "f", "f", "", ""};
	const char *const identity[] = {moment == AT_EPOCH ? "1" : NULL, "database", "", "", ""};

	if (moment == AT_INSPECT || moment == AT_INSPECT_AGAIN)
		add_row("seen", 11, seen);
	else if (moment == AT_ASK || moment == AT_LOCK)
		add_text("version", "0");
	else if (moment == AT_UPGRADE)
		add_done("COMMIT");
	else if (moment == AT_IDENTIFY || moment == AT_EPOCH)
		add_row("identity", 5, identity);
	else if (moment == AT_COPY)
		add('G', "\0\0\0", 3);
	else
		add_text(moment == AT_SETTINGS ? "set_config" : "x", "x");
}

static void take_query(struct conn *c, const char *sql)
{
	enum moment moment = read_sql(c, sql);

	add_answer(moment);
	if (moment != AT_COPY)
		add_ready();
	c->is_copying = moment == AT_COPY;
	answer(c, moment);
	if (moment == AT_COPY && fails_at == AT_ROWS && !is_failed)
		is_standing_still = true;
}

static void take_copied(struct conn *c)
{
	c->is_copying = false;
	add_done("COPY 3");
	add_done("RESET");
	add_ready();
	answer(c, AT_COPIED);
}

static void take_message(struct conn *c, char type, const char *body)
{
	if (type == 'S' || type == 'Q')
		c->is_skipping &= type == 'S';
	if (c->is_skipping && type != 'S')
		return;
	c->is_skipping = false;
	if (type == 'Q') {
		take_query(c, body);
	} else if (type == 'P') {
		c->asked = read_sql(c, body + strlen(body) + 1);
	} else if (type == 'E') {
		add('1', "", 0);
		add('2', "", 0);
		add_answer(c->asked);
		answer(c, c->asked);
	} else if (type == 'S') {
		add_ready();
		answer(c, AT_SETTINGS);
	} else if (type == 'c' && c->is_copying) {
		take_copied(c);
	}
}

static void log_in(struct conn *c, const char *body)
{
	uint32_t code;

	memcpy(&code, body, 4);
	if (ntohl(code) == 80877102) { /* a request to cancel */
		cancels++;
		drop(c);
		return;
	}
	c->is_started = true;
	add('R', "\0\0\0\0", 4);
	add('S',
	    "server_version\0"
	    "15.0",
	    20);
	add('S', "server_encoding\0UTF8", 21);
	add('K', "\0\0\0\1\0\0\0\2", 8);
	add_ready();
	answer(c, AT_LOGIN);
}

/* Returns the bytes of the first message, 0 if it is not complete. */
static size_t take_first(struct conn *c)
{
	size_t head = c->is_started ? 1 : 0;
	uint32_t size;

	if (c->len < head + 4)
		return 0;
	memcpy(&size, c->in + head, 4);
	size = ntohl(size) + (uint32_t)head;
	cr_assert_leq(size, sizeof(c->in));
	if (c->len < size)
		return 0;
	if (c->is_started)
		take_message(c, c->in[0], c->in + 5);
	else
		log_in(c, c->in + 4);
	return size;
}

static void serve_conn(struct conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, MSG_DONTWAIT);
	size_t used;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	c->len += (size_t)n;
	while (!c->is_failed && c->fd && !is_standing_still && (used = take_first(c)))
		memmove(c->in, c->in + used, c->len -= used);
	if (c->is_failed)
		c->len = 0;
}

static void serve(void)
{
	int fd = door < 0 ? -1 : accept4(door, NULL, NULL, SOCK_CLOEXEC);
	struct conn *c = conns;

	while (fd > 0 && c->fd)
		cr_assert_lt(++c, conns + CONNS);
	if (fd > 0)
		memset(c, 0, offsetof(struct conn, in)), c->fd = fd;
	for (c = conns; c < conns + CONNS; c++)
		if (c->fd && !is_standing_still)
			serve_conn(c);
}

static size_t count_conns(void)
{
	size_t n = 0;

	for (size_t i = 0; i < CONNS; i++)
		n += conns[i].fd > 0;
	return n;
}

static struct conn *first_conn(void)
{
	for (size_t i = 0; i < CONNS; i++)
		if (conns[i].fd)
			return &conns[i];
	cr_assert(false, "there is no connection");
	return NULL;
}

static void open_door(void)
{
	socklen_t len = sizeof(address);
	int small = 4096;

	door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(door, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(door, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(door, 10), 0);
	getsockname(door, (struct sockaddr *)&address, &len);
}

/* --- the client --- */

static int downs, readies, answers;
static struct postgres_answer last;
static bool is_copy_over;
static int pieces;
static bool is_closed;

static void on_state(void *owner, enum postgres_state state)
{
	downs += state == POSTGRES_DOWN;
	readies += state == POSTGRES_READY;
}

static void on_answer(void *owner, const struct postgres_answer *a)
{
	cr_assert_not(is_closed);
	answers++;
	last = *a;
	is_copy_over = true;
	if (a->result == POSTGRES_OK || postgres_state(p) == POSTGRES_READY)
		return;
	cr_assert_eq(postgres_state(p), POSTGRES_DOWN);
	cr_assert_eq(postgres_query(p, "SELECT 'x'", NULL, 0), -1);
	cr_assert(*a->error, "%s: no reason", fault_names[fault]);
}

static void on_unusable(void *owner, const char *sentence, int status)
{
	cr_assert(false, "%s", sentence);
}

/* Returns rows without end if the server stops accepting them. */
static struct slice next_piece(void *arg)
{
	static char bytes[POSTGRES_PIECE];

	cr_assert_not(is_copy_over);
	pieces++;
	if (fails_at == AT_ROWS && !is_failed)
		return (struct slice){bytes, sizeof(bytes)};
	return (struct slice){bytes, pieces > ROWS ? 0 : 100};
}

static void turn(void)
{
	serve();
	uv_run(&loop, UV_RUN_NOWAIT);
}

#define AWAIT(condition) \
	for (time_t until = time(NULL) + 20; !(condition);) { \
		cr_assert_lt(time(NULL), until, "%s: waiting for " #condition, fault_names[fault % FAULTS]); \
		if (postgres_state(p) == POSTGRES_DOWN) \
			clock_pass(500); \
		turn(); \
	}

static void open_all(enum moment moment, enum fault f)
{
	static char conninfo[200];
	const struct postgres_settings settings = {.conninfo = conninfo,
						   .timeout_ms = TIMEOUT_MS,
						   .tables = "{events}",
						   .on_state = on_state,
						   .on_answer = on_answer,
						   .on_unusable = on_unusable};

	fails_at = moment;
	fault = f;
	is_failed = is_standing_still = is_closed = false;
	downs = readies = answers = cancels = 0;
	address.sin_port = 0;
	open_door();
	snprintf(conninfo, sizeof(conninfo),
		 "host=127.0.0.1 port=%d sslmode=disable gssencmode=disable dbname=d user=u", ntohs(address.sin_port));
	uv_loop_init(&loop);
	p = postgres_open(&loop, &settings);
}

static void on_done(void *arg)
{
	cr_assert_not(is_closed);
	is_closed = true;
}

static void close_all(void)
{
	postgres_close(p, on_done, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert(is_closed);
	cr_assert_eq(uv_loop_close(&loop), 0);
	close(door);
	for (size_t i = 0; i < CONNS; i++)
		if (conns[i].fd)
			drop(&conns[i]);
}

static void ask(enum moment moment)
{
	int failed = 0;

	is_copy_over = false;
	pieces = 0;
	if (moment == AT_QUERY)
		failed = postgres_query(p, "SELECT 'x'", NULL, 0);
	else if (moment >= AT_COPY && moment <= AT_COPIED)
		failed = postgres_copy(p, "COPY t FROM STDIN", next_piece, NULL);
	cr_assert_eq(failed, 0);
}

/* Continues until the server has failed. */
static void reach(enum moment moment)
{
	int before = -1;

	if (moment < AT_REST) {
		AWAIT(is_failed);
		return;
	}
	AWAIT(readies == 1);
	ask(moment);
	if (moment == AT_REST) {
		add_trouble('N', "NOTICE", "00000");
		answer(first_conn(), moment);
	} else if (moment == AT_ROWS) {
		AWAIT(is_standing_still);
		for (; before != pieces; turn())
			before = pieces;
		cr_assert_gt(pieces, 0);
		add_done("COPY 3");
		add_ready();
		answer(first_conn(), moment);
	} else {
		AWAIT(is_failed);
	}
}

/* Settings that were not requested again must be gone. */
static void use(void)
{
	static const enum moment uses[] = {AT_QUERY, AT_COPY, AT_QUERY, AT_COPY};

	for (size_t i = 0; i < 4; i++) {
		answers = 0;
		ask(uses[i]);
		AWAIT(answers);
		cr_assert_eq(last.result, POSTGRES_OK, "%s: %s", fault_names[fault], last.error);
		cr_assert_eq((int)last.rows, uses[i] == AT_COPY ? ROWS : 1, "%s: use %d: %d rows", fault_names[fault],
			     (int)i, (int)last.rows);
		cr_assert_eq(pieces, uses[i] == AT_COPY ? ROWS + 1 : 0);
	}
	for (int i = 0; i < 5; i++)
		turn();
	cr_assert_eq(answers, 1);
}

static void check_stays(int must)
{
	const struct conn *c = first_conn();

	if (must == TELL) {
		AWAIT(answers);
		cr_assert_neq(last.result, POSTGRES_OK);
	}
	for (int i = 0; i < 5; i++)
		turn();
	if (fault == SILENCE || fault == HALF_SILENCE) {
		send_all(c, withheld, withheld_len);
		conns[c - conns].is_failed = is_standing_still = false;
	}
	cr_assert_eq(postgres_state(p), POSTGRES_READY);
	cr_assert_eq(downs, 0);
	cr_assert_eq(answers, must == TELL);
}

static void check_lost(int must)
{
	bool is_silent = fault == SILENCE || fault == HALF_SILENCE;

	if (is_silent)
		clock_pass(fails_at == AT_UPGRADE ? POSTGRES_UPGRADE_MS + 1 : TIMEOUT_MS + 1);
	AWAIT(downs);
	is_standing_still = false;
	cr_assert(*postgres_error(p));
	cr_assert(fault != FATAL || strstr(postgres_error(p), "played"), "%d: %s", (int)fails_at, postgres_error(p));
	cr_assert_eq(answers, must != REDIAL, "%s: %d answers", fault_names[fault], answers);
	if (must != REDIAL) {
		cr_assert_eq((int)last.result, must, "%s: %d", fault_names[fault], (int)last.result);
		cr_assert_eq(last.is_late, is_silent);
	}
	AWAIT(postgres_state(p) == POSTGRES_READY);
	cr_assert_eq(downs, 1);
	cr_assert_str_eq(postgres_error(p), "");
	AWAIT(count_conns() == 1);
	cr_assert_eq(cancels, is_silent && fails_at != AT_LOGIN);
}

static void lose(enum moment moment, enum fault f)
{
	int must = table[moment].must[f];

	open_all(moment, f);
	reach(moment);
	if (must == STAY || must == TELL)
		check_stays(must);
	else
		check_lost(must);
	use();
	close_all();
}

TestSuite(postgres_loss, .timeout = 60);

#define LOSS(moment) \
	Test(postgres_loss, moment) \
	{ \
		for (int f = 0; f < FAULTS; f++) \
			lose(moment, (enum fault)f); \
	}

LOSS(AT_LOGIN)
LOSS(AT_INSPECT)
LOSS(AT_ASK)
LOSS(AT_LOCK)
LOSS(AT_UPGRADE)
LOSS(AT_INSPECT_AGAIN)
LOSS(AT_IDENTIFY)
LOSS(AT_EPOCH)
LOSS(AT_REST)
LOSS(AT_QUERY)
LOSS(AT_COPY)
LOSS(AT_ROWS)
LOSS(AT_COPIED)

/* A pooler may make such answers itself. */
Test(postgres_loss, answer_without_its_row_ends_the_connection)
{
	static const enum moment moments[] = {AT_INSPECT, AT_ASK, AT_LOCK, AT_INSPECT_AGAIN, AT_IDENTIFY, AT_EPOCH};

	for (size_t i = 0; i < sizeof(moments) / sizeof(*moments); i++) {
		open_all(moments[i], NO_ROW);
		reach(moments[i]);
		check_lost(REDIAL);
		use();
		close_all();
	}
}

Test(postgres_loss, each_state_has_a_row)
{
	for (int state = POSTGRES_DOWN; state <= POSTGRES_CLOSING; state++) {
		enum moment moment = first_row_of((enum postgres_state)state);

		cr_assert(moment == NEVER || (int)table[moment].state == state);
	}
}

Test(postgres_loss, a_server_that_is_gone_is_dialled_until_it_is_back)
{
	open_all(NEVER, FAULTS);
	close(door);
	door = -1;
	AWAIT(downs == 5);
	cr_assert_eq(answers, 0);
	open_door();
	AWAIT(readies);
	fault = CUT;
	use();
	close_all();
}

/* Also at the moment when it is lost. */
Test(postgres_loss, a_connection_can_be_closed_in_each_state)
{
	int before;

	for (int moment = AT_LOGIN; moment < NEVER; moment++)
		for (int f = 0; f < FAULTS; f++) {
			open_all((enum moment)moment, (enum fault)f);
			reach((enum moment)moment);
			before = answers;
			close_all();
			cr_assert_eq(answers, before);
		}
	open_all(NEVER, CUT);
	close_all();
}
