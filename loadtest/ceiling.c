/* ceiling.c is wsonce-ceiling: it measures how fast Postgres, Redis or SQLite alone is on this machine,
 * with the listener's statement, rows and claim command. Compare a listener's figures only with these,
 * from the same run. */
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "postgres/array.h"
#include "postgres/schema.h"
#include "redis/resp.h"
#include "insert.sql.h"
#include "sqlite_insert.sql.h"
#include "sqlite_schema.sql.h"
#include "message.h"
#include "options.h"
#include "summary.h"

struct settings {
	uint64_t count;
	uint64_t batch;
	uint64_t payload_bytes;
	const char *insert; /* conninfo; NULL here or below: do not measure it */
	const char *copy;   /* conninfo; COPY in text format */
	const char *binary; /* conninfo; COPY in binary format */
	const char *claim;  /* path of a unix socket */
	const char *sqlite; /* path of a file that does not exist */
	bool json;
};

/* The columns of a row, inside a message from message_event(). */
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

#define COLUMNS 6
static const Oid types[COLUMNS + 1] = {ARRAY_TEXT, ARRAY_TEXT, ARRAY_JSONB, ARRAY_TEXT, ARRAY_TIME, ARRAY_TIME, 25};

/* The source column of a row, as from a listener. */
#define SOURCE      "ws://127.0.0.1:9001/"
#define INSTANCE    "ceiling-12345"
#define RECEIVED_US INT64_C(1800000000000000)

static void insert_batch(PGconn *conn, const struct array *columns)
{
	const int formats[COLUMNS + 1] = {1, 1, 1, 1, 1, 1, 1};
	const char *values[COLUMNS + 1] = {[COLUMNS] = INSTANCE};
	int lengths[COLUMNS + 1] = {[COLUMNS] = sizeof(INSTANCE) - 1};
	char *sql;

	for (int i = 0; i < COLUMNS; i++) {
		values[i] = columns[i].bytes;
		lengths[i] = (int)columns[i].len;
	}
	sql = schema_expand(SQL_INSERT, "public");
	run(conn, PQexecParams(conn, sql, COLUMNS + 1, types, values, lengths, formats, 0), PGRES_TUPLES_OK);
	free(sql);
}

static double measure_insert(const struct settings *s, const struct message_form *form, char *message)
{
	PGconn *conn = connect_postgres(s->insert);
	struct array columns[COLUMNS] = {{0}};
	double begin = now_s();

	for (uint64_t n = 1; n <= s->count;) {
		uint64_t rows = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		for (int i = 0; i < COLUMNS; i++)
			array_start(&columns[i], types[i], rows);
		for (uint64_t end = n + rows; n < end; n++) {
			struct row r = find_row(message, message_event(form, n, message));

			array_add(&columns[0], r.id, r.id_len);
			array_add(&columns[1], MESSAGE_TYPE, strlen(MESSAGE_TYPE));
			array_add(&columns[2], r.payload, r.payload_len);
			array_add(&columns[3], SOURCE, sizeof(SOURCE) - 1);
			array_add_time(&columns[4], RECEIVED_US);
			array_add_null(&columns[5]);
		}
		insert_batch(conn, columns);
	}
	double seconds = now_s() - begin;
	for (int i = 0; i < COLUMNS; i++)
		array_free(&columns[i]);
	PQfinish(conn);
	return (double)s->count / seconds;
}

/* Generated payloads need no escaping. */
static size_t put_line(char *out, const struct row *r)
{
	return (size_t)sprintf(out, "%.*s\t%s\t%.*s\n", (int)r->id_len, r->id, MESSAGE_TYPE, (int)r->payload_len,
			       r->payload);
}

static char *put_field(char *out, const char *before, const char *bytes, size_t len)
{
	uint32_t size = htonl((uint32_t)(strlen(before) + len));

	memcpy(out, &size, 4);
	out = stpcpy(out + 4, before);
	memcpy(out, bytes, len);
	return out + len;
}

static size_t put_tuple(char *out, const struct row *r)
{
	char *at = out;

	memcpy(at, "\0\7", 2); /* fields */
	at = put_field(at + 2, "", r->id, r->id_len);
	at = put_field(at, "", MESSAGE_TYPE, strlen(MESSAGE_TYPE));
	at = put_field(at, "\1", r->payload, r->payload_len); /* jsonb_recv wants a 1 before the text */
	at = put_field(at, "", SOURCE, sizeof(SOURCE) - 1);
	at = put_field(at, "", "\0\2\xff\xff\0\0\0\0", 8);
	memset(at, 0xff, 4); /* no event_time */
	at = put_field(at + 4, "", INSTANCE, sizeof(INSTANCE) - 1);
	return (size_t)(at - out);
}

/* COPY's text and binary formats (PostgreSQL manual, COPY, "Binary Format"). */
struct copy_form {
	const char *sql;
	const char *head, *tail;
	int head_len, tail_len;
	size_t (*put)(char *out, const struct row *r);
};

static const struct copy_form text_form = {
	.sql = "COPY events (event_id, event_type, payload) FROM STDIN",
	.head = "",
	.tail = "",
	.put = put_line,
};

static const struct copy_form binary_form = {
	.sql = "COPY events (event_id, event_type, payload, source, received_at, event_time, instance) FROM STDIN "
	       "(FORMAT binary)",
	.head = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0",
	.head_len = 19,
	.tail = "\377\377",
	.tail_len = 2,
	.put = put_tuple,
};

/* One COPY per batch. */
static double measure_copy(const struct settings *s, const char *conninfo, const struct copy_form *copy,
			   const struct message_form *form, char *message)
{
	PGconn *conn = connect_postgres(conninfo);
	char *line = malloc(message_most(form) + 200);
	double begin = now_s();

	for (uint64_t n = 1; line && n <= s->count;) {
		uint64_t rows = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		run(conn, PQexec(conn, copy->sql), PGRES_COPY_IN);
		PQputCopyData(conn, copy->head, copy->head_len);
		for (uint64_t end = n + rows; n < end; n++) {
			struct row r = find_row(message, message_event(form, n, message));

			PQputCopyData(conn, line, (int)copy->put(line, &r));
		}
		PQputCopyData(conn, copy->tail, copy->tail_len);
		PQputCopyEnd(conn, NULL);
		run(conn, PQgetResult(conn), PGRES_COMMAND_OK);
		PQclear(PQgetResult(conn));
	}
	double seconds = now_s() - begin;
	free(line);
	PQfinish(conn);
	return (double)s->count / seconds;
}

/* With the listener's settings; see set_up() in sqlite/file.c. */
static sqlite3 *open_sqlite(const char *path)
{
	static const char pragmas[] =
		"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;"
		"PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000;"
		"PRAGMA journal_size_limit = 67108864";
	sqlite3 *db;

	if (sqlite3_open(path, &db) || sqlite3_exec(db, pragmas, NULL, NULL, NULL) ||
	    sqlite3_exec(db, SQL_SQLITE_SCHEMA, NULL, NULL, NULL))
		give_up("sqlite", sqlite3_errmsg(db));
	return db;
}

static void store_row(sqlite3 *db, sqlite3_stmt *insert, const struct row *r)
{
	static const char now[] = "2026-03-01T12:00:00.123456Z";

	sqlite3_bind_text(insert, 1, r->id, (int)r->id_len, SQLITE_STATIC);
	sqlite3_bind_text(insert, 2, MESSAGE_TYPE, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 3, r->payload, (int)r->payload_len, SQLITE_STATIC);
	sqlite3_bind_text(insert, 4, now, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 5, "default", -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 6, "ceiling", -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 7, now, -1, SQLITE_STATIC);
	if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert))
		give_up("sqlite", sqlite3_errmsg(db));
}

/* One transaction per batch. */
static double measure_sqlite(const struct settings *s, const struct message_form *form, char *message)
{
	sqlite3 *db = open_sqlite(s->sqlite);
	sqlite3_stmt *insert;
	double begin = now_s();

	if (sqlite3_prepare_v2(db, SQL_SQLITE_INSERT, -1, &insert, NULL))
		give_up("sqlite", sqlite3_errmsg(db));
	for (uint64_t n = 1; n <= s->count;) {
		uint64_t rows = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
		for (uint64_t end = n + rows; n < end; n++) {
			struct row r = find_row(message, message_event(form, n, message));

			store_row(db, insert, &r);
		}
		if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL))
			give_up("sqlite", sqlite3_errmsg(db));
	}
	double seconds = now_s() - begin;
	sqlite3_finalize(insert);
	sqlite3_close(db);
	return (double)s->count / seconds;
}

static void write_claim(struct bytes *c, const struct message_form *form, uint64_t n)
{
	char id[MESSAGE_PREFIX_MOST + 40];
	size_t len = message_id(form, n, id);

	resp_start(c, 7);
	resp_word(c, "SET");
	resp_joined(c, "dedup:", 6, id, len);
	resp_word(c, "ceiling.0123456789abcdef@1700000000000");
	resp_word(c, "NX");
	resp_word(c, "GET");
	resp_word(c, "EX");
	resp_word(c, "30");
}

/* Sends a batch of claims at once and reads all answers before the next batch. */
static double measure_claim(const struct settings *s, const struct message_form *form)
{
	redisContext *redis = redisConnectUnix(s->claim);
	struct bytes c = {0};
	double begin = now_s();

	if (!redis || redis->err)
		give_up("redis", redis ? redis->errstr : "out of memory");
	for (uint64_t n = 1; n <= s->count;) {
		uint64_t claims = s->count - n + 1 < s->batch ? s->count - n + 1 : s->batch;

		for (uint64_t end = n + claims; n < end; n++) {
			write_claim(&c, form, n);
			redisAppendFormattedCommand(redis, c.at, c.len);
		}
		for (uint64_t i = 0; i < claims; i++) {
			void *reply;

			if (redisGetReply(redis, &reply) != REDIS_OK)
				give_up("redis", redis->errstr);
			freeReplyObject(reply);
		}
	}
	double seconds = now_s() - begin;
	bytes_free(&c);
	redisFree(redis);
	return (double)s->count / seconds;
}

int main(int argc, char **argv)
{
	struct settings s = {.count = 100000, .batch = 4000, .payload_bytes = 100};
	const struct option_row table[] = {
		{"count", OPTION_COUNT, &s.count, 1, 1e9, "N", "rows or claims"},
		{"batch", OPTION_COUNT, &s.batch, 1, 100000, "N", "rows per statement, or claims sent at once"},
		{"payload-bytes", OPTION_COUNT, &s.payload_bytes, 1, MESSAGE_PAYLOAD_MOST, "N", "size of each payload"},
		{"insert", OPTION_TEXT, &s.insert, 0, 0, "CONNINFO", "the listener's INSERT; empties table events"},
		{"copy", OPTION_TEXT, &s.copy, 0, 0, "CONNINFO", "COPY into table events; empties it"},
		{"copy-binary", OPTION_TEXT, &s.binary, 0, 0, "CONNINFO", "the same in COPY's binary format"},
		{"claim", OPTION_TEXT, &s.claim, 0, 0, "SOCKET", "the listener's claim command"},
		{"sqlite", OPTION_TEXT, &s.sqlite, 0, 0, "FILE", "the listener's INSERT into a new SQLite file"},
		{"json", OPTION_FLAG, &s.json, 0, 0, NULL, "print the result as JSON"},
		{NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL},
	};
	enum options_result result =
		options_parse(table, "Usage: wsonce-ceiling [OPTION...]\n\nMeasures one server alone.", argc, argv);
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
		summary_number(summary, "copy_rows_per_s", measure_copy(&s, s.copy, &text_form, &form, message));
	if (s.binary)
		summary_number(summary, "copy_binary_rows_per_s",
			       measure_copy(&s, s.binary, &binary_form, &form, message));
	if (s.sqlite)
		summary_number(summary, "sqlite_rows_per_s", measure_sqlite(&s, &form, message));
	if (s.claim)
		summary_number(summary, "claims_per_s", measure_claim(&s, &form));
	summary_print(summary, s.json);
	summary_free(summary);
	free(message);
	return 0;
}
