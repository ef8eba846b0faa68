/* ceiling.c is wsonce-ceiling: what Postgres alone or Redis alone takes on this machine, with the
 * same statement, the same rows and the same claim command as the listener, and nothing else. A
 * listener's figures mean something only beside these, from the same run. */
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../listener/array.h"
#include "../listener/command.h"
#include "insert.sql.h"
#include "message.h"
#include "options.h"
#include "summary.h"

struct settings {
	uint64_t count;
	uint64_t batch;
	uint64_t payload_bytes;
	const char *insert; /* conninfo; NULL: not asked for */
	const char *copy;   /* conninfo */
	const char *claim;  /* path of a unix socket */
	bool json;
};

/* A row's parts inside a message that message_event() wrote. */
struct row {
	const char *id, *payload;
	size_t id_len, payload_len;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what, const char *why)
{
	fprintf(stderr, "wsonce-ceiling: %s: %s\n", what, why);
	exit(1);
}

/* The generator's form is fixed: "event_id":"...", then the type, then "payload":{...}}. */
static struct row find_row(char *message, size_t len)
{
	struct row r;

	message[len] = '\0';
	r.id = strchr(message, ':') + 2;
	r.id_len = (size_t)(strchr(r.id, '"') - r.id);
	r.payload = strstr(message, "\"payload\":") + 10;
	r.payload_len = len - (size_t)(r.payload - message) - 1;
	return r;
}

static PGconn *connect_postgres(const char *conninfo)
{
	PGconn *conn = PQconnectdb(conninfo);

	if (PQstatus(conn) != CONNECTION_OK)
		give_up("postgres", PQerrorMessage(conn));
	PQclear(PQexec(conn, "TRUNCATE events"));
	return conn;
}

static void run(PGconn *conn, PGresult *result, ExecStatusType wanted)
{
	if (PQresultStatus(result) != wanted)
		give_up("postgres", PQerrorMessage(conn));
	PQclear(result);
}

static void insert_batch(PGconn *conn, const struct array *columns)
{
	const Oid types[] = {ARRAY_TEXT, ARRAY_TEXT, ARRAY_JSONB};
	const int formats[] = {1, 1, 1};
	const char *values[3];
	int lengths[3];

	for (int i = 0; i < 3; i++) {
		values[i] = columns[i].bytes;
		lengths[i] = (int)columns[i].len;
	}
	run(conn, PQexecParams(conn, SQL_INSERT, 3, types, values, lengths, formats, 0), PGRES_TUPLES_OK);
}

static double measure_insert(const struct settings *s, const struct message_form *form, char *message)
{
	PGconn *conn = connect_postgres(s->insert);
	struct array columns[3] = {{0}};
	double begin = now_s();

	for (uint64_t n = 1; n <= s->count;) {
		uint64_t rows = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		array_start(&columns[0], ARRAY_TEXT, rows);
		array_start(&columns[1], ARRAY_TEXT, rows);
		array_start(&columns[2], ARRAY_JSONB, rows);
		for (uint64_t end = n + rows; n < end; n++) {
			struct row r = find_row(message, message_event(form, n, message));

			array_add(&columns[0], r.id, r.id_len);
			array_add(&columns[1], MESSAGE_TYPE, strlen(MESSAGE_TYPE));
			array_add(&columns[2], r.payload, r.payload_len);
		}
		insert_batch(conn, columns);
	}
	double seconds = now_s() - begin;
	for (int i = 0; i < 3; i++)
		array_free(&columns[i]);
	PQfinish(conn);
	return (double)s->count / seconds;
}

/* One COPY for each batch, in text form; the generator's payloads have nothing to escape. */
static double measure_copy(const struct settings *s, const struct message_form *form, char *message)
{
	PGconn *conn = connect_postgres(s->copy);
	char *line = malloc(message_most(form) + 200);
	double begin = now_s();

	for (uint64_t n = 1; line && n <= s->count;) {
		uint64_t rows = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		run(conn, PQexec(conn, "COPY events (event_id, event_type, payload) FROM STDIN"), PGRES_COPY_IN);
		for (uint64_t end = n + rows; n < end; n++) {
			struct row r = find_row(message, message_event(form, n, message));
			int len = sprintf(line, "%.*s\t%s\t%.*s\n", (int)r.id_len, r.id, MESSAGE_TYPE,
					  (int)r.payload_len, r.payload);

			PQputCopyData(conn, line, len);
		}
		PQputCopyEnd(conn, NULL);
		run(conn, PQgetResult(conn), PGRES_COMMAND_OK);
		PQclear(PQgetResult(conn));
	}
	double seconds = now_s() - begin;
	free(line);
	PQfinish(conn);
	return (double)s->count / seconds;
}

static void write_claim(struct command *c, const struct message_form *form, uint64_t n)
{
	char id[MESSAGE_PREFIX_MOST + 40];
	size_t len = message_id(form, n, id);

	command_start(c, 7);
	command_word(c, "SET");
	command_joined(c, "dedup:", 6, id, len);
	command_word(c, "ceiling.0123456789abcdef@1700000000000");
	command_word(c, "NX");
	command_word(c, "GET");
	command_word(c, "EX");
	command_word(c, "30");
}

/* Batches of claims in one go, each read back before the next is sent. */
static double measure_claim(const struct settings *s, const struct message_form *form)
{
	redisContext *redis = redisConnectUnix(s->claim);
	struct command c = {0};
	double begin = now_s();

	if (!redis || redis->err)
		give_up("redis", redis ? redis->errstr : "out of memory");
	for (uint64_t n = 1; n <= s->count;) {
		uint64_t claims = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		for (uint64_t end = n + claims; n < end; n++) {
			write_claim(&c, form, n);
			redisAppendFormattedCommand(redis, c.bytes, c.len);
		}
		for (uint64_t i = 0; i < claims; i++) {
			void *reply;

			if (redisGetReply(redis, &reply) != REDIS_OK)
				give_up("redis", redis->errstr);
			freeReplyObject(reply);
		}
	}
	double seconds = now_s() - begin;
	command_free(&c);
	redisFree(redis);
	return (double)s->count / seconds;
}

int main(int argc, char **argv)
{
	struct settings s = {.count = 100000, .batch = 2000, .payload_bytes = 100};
	const struct option_row table[] = {
		{"count", OPTION_COUNT, &s.count, 1, 1e9, "N", "rows or claims (default 100000)"},
		{"batch", OPTION_COUNT, &s.batch, 1, 100000, "N", "in one statement, or sent at once (default 2000)"},
		{"payload-bytes", OPTION_COUNT, &s.payload_bytes, 1, MESSAGE_PAYLOAD_MOST, "N",
		 "size of each payload (default 100)"},
		{"insert", OPTION_TEXT, &s.insert, 0, 0, "CONNINFO", "the listener's INSERT; empties table events"},
		{"copy", OPTION_TEXT, &s.copy, 0, 0, "CONNINFO", "COPY into table events; empties it"},
		{"claim", OPTION_TEXT, &s.claim, 0, 0, "SOCKET", "the listener's claim command"},
		{"json", OPTION_FLAG, &s.json, 0, 0, NULL, "print the result as JSON"},
		{NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL},
	};
	enum options_result result = options_parse(
		table, "Usage: wsonce-ceiling [OPTION...]\n\nMeasures one server alone.\n\nOptions:\n", argc, argv);
	char prefix[MESSAGE_PREFIX_MOST + 1];
	struct message_form form = {.prefix = prefix, .payload_bytes = s.payload_bytes};
	struct summary *summary = summary_new();
	char *message;

	if (result != OPTIONS_GO)
		return result == OPTIONS_HELP ? 0 : 2;
	message_make_prefix(prefix, sizeof(prefix));
	message = malloc(message_most(&form) + 1);
	if (!message)
		give_up("start", "out of memory");
	if (s.insert)
		summary_number(summary, "insert_rows_per_s", measure_insert(&s, &form, message));
	if (s.copy)
		summary_number(summary, "copy_rows_per_s", measure_copy(&s, &form, message));
	if (s.claim)
		summary_number(summary, "claims_per_s", measure_claim(&s, &form));
	summary_print(summary, s.json);
	summary_free(summary);
	free(message);
	return 0;
}
