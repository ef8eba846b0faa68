/* postgres.c sends random statements, from a fixed seed, as listener/postgres/connection.c sends them, and prints what
 * comes back: one line for each step. It is linked twice, with real.c and with played.c, and ./run compares the lines.
 *
 * What may differ between two servers is left out: numbers in contexts, epochs but for their order, times. Where a
 * statement waits, the next step ends the wait or disturbs nobody, so the order of events is the same on both sides. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "write_dead_letters.sql.h"
#include "check_effects.sql.h"
#include "checkin.sql.h"
#include "copy.sql.h"
#include "epoch.sql.h"
#include "find_present.sql.h"
#include "hazards.sql.h"
#include "identify.sql.h"
#include "insert.sql.h"
#include "lease.sql.h"
#include "put_cursors.sql.h"
#include "read_cursors.sql.h"
#include "make_epoch.sql.h"
#include "peek.sql.h"
#include "record.sql.h"
#include "postgres/array.h"
#include "postgres/schema.h"
#include "reset.sql.h"
#include "store/effects.h"
#include "side.h"

#define CONNECTIONS 3
#define ROWS_MAX    6
#define IDS         12
#define TEXT_OID    25
#define BOOL_OID    16

static struct connection {
	PGconn *conn;
	bool is_busy;
	char line[20000]; /* what has come back */
	size_t used;
} connections[CONNECTIONS];

static int steps;
static bool is_held;

/* For effects_have_posted(), which nobody calls here. */
const char *postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len)
{
	(void)answer, (void)row, (void)column, (void)len;
	return "";
}

/* --- chance, the same on any machine --- */

static unsigned long long chance;

static int below(int n)
{
	chance = chance * 6364136223846793005ull + 1442695040888963407ull;
	return (int)((chance >> 33) % (unsigned int)n);
}

/* --- what is printed --- */

static void put(struct connection *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct connection *c, const char *format, ...)
{
	va_list ap;
	size_t room = sizeof(c->line) - c->used;
	int n;

	va_start(ap, format);
	n = vsnprintf(c->line + c->used, room, format, ap);
	va_end(ap);
	c->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* The nth epoch that was seen, instead of itself. */
static const char *name_epoch(const char *epoch)
{
	static char seen[100][16], name[8];
	int i = 0;

	while (seen[i][0] && strcmp(seen[i], epoch) != 0)
		i++;
	snprintf(seen[i], sizeof(seen[i]), "%s", epoch);
	snprintf(name, sizeof(name), "e%d", i + 1);
	return name;
}

/* Numbers are places of rows, lines of functions and process ids. */
static void put_plain(struct connection *c, const char *text)
{
	static const char json[] = "JSON data";

	/* How much of the text it quotes is its own affair. */
	if (text && strncmp(text, json, sizeof(json) - 1) == 0) {
		put(c, "%s", json);
		text = strchr(text, '\n');
	}
	for (; text && *text; text++) {
		bool is_digit = *text >= '0' && *text <= '9';

		if (!is_digit || text[1] < '0' || text[1] > '9')
			put(c, "%c", is_digit ? '#' : *text == '\n' ? '/' : *text);
	}
}

static bool is_shown(const char *name)
{
	static const char *const names[] = {"wsonce_epoch", "coalesce", "case", "rows_deleted_s", "name"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (name && strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void put_rows(struct connection *c, const PGresult *r)
{
	bool has_epoch = strcmp(PQfname(r, 0), "wsonce_epoch") == 0 || strcmp(PQfname(r, 0), "epoch") == 0;

	put(c, "%s %dx%d", PQfname(r, 0), PQntuples(r), PQnfields(r));
	for (int row = 0; row < PQntuples(r) && (is_shown(PQfname(r, 0)) || has_epoch); row++) {
		put(c, "%s", row ? "; " : ": ");
		for (int column = 0; column < PQnfields(r); column++) {
			const char *cell = PQgetisnull(r, row, column) ? "NULL" : PQgetvalue(r, row, column);

			if (has_epoch && row == 0 && column == 0 && !PQgetisnull(r, 0, 0))
				cell = name_epoch(cell);
			if (column &&
			    (strcmp(PQfname(r, 0), "epoch") == 0 || strcmp(PQfname(r, 0), "rows_deleted_s") == 0))
				cell = "what each has of its own";
			if (column == 4 && !PQgetisnull(r, row, column) && atoll(cell) >= 0)
				cell = "a time";
			put(c, "%s%s", column ? "," : "", cell);
		}
	}
}

#define LEASES_MAX 400

/* Rows of the last lease, sorted by target and event: their ids are each server's own. */
static struct leased {
	char id[24], lease[48], what[80];
} leases[LEASES_MAX];
static int lease_count;

static int compare_leases(const void *a, const void *b)
{
	return strcmp(((const struct leased *)a)->what, ((const struct leased *)b)->what);
}

static void put_leases(struct connection *c, const PGresult *r)
{
	lease_count = PQntuples(r) < LEASES_MAX ? PQntuples(r) : LEASES_MAX;
	for (int i = 0; i < lease_count; i++) {
		struct leased *l = &leases[i];

		snprintf(l->id, sizeof(l->id), "%s", PQgetvalue(r, i, 0));
		snprintf(l->lease, sizeof(l->lease), "%s", PQgetvalue(r, i, 8));
		snprintf(l->what, sizeof(l->what), "%s/%s #%s %s", PQgetvalue(r, i, 1), PQgetvalue(r, i, 4),
			 PQgetvalue(r, i, 2), PQgetvalue(r, i, 6));
	}
	qsort(leases, (size_t)lease_count, sizeof(*leases), compare_leases);
	for (int i = 0; i < lease_count; i++)
		put(c, "%s %s lease %d", i ? ";" : "", leases[i].what, atoi(leases[i].lease));
}

static void put_result(struct connection *c, PGresult *r)
{
	if (!r) {
		put(c, " -");
		return;
	}
	switch (PQresultStatus(r)) {
	case PGRES_TUPLES_OK:
		put(c, " [");
		if (strcmp(PQfname(r, 0), "QUERY PLAN") == 0)
			put(c, "plan");
		else if (PQnfields(r) == 9 && strcmp(PQfname(r, 0), "id") == 0)
			put_leases(c, r);
		else
			put_rows(c, r);
		put(c, "]");
		break;
	case PGRES_COMMAND_OK:
		put(c, " OK%s", PQcmdTuples(r));
		break;
	case PGRES_COPY_IN:
		put(c, " COPY");
		break;
	case PGRES_PIPELINE_SYNC:
		put(c, " sync");
		break;
	case PGRES_PIPELINE_ABORTED:
		put(c, " aborted");
		break;
	default:
		put(c, " ERROR %s %s", PQresultErrorField(r, PG_DIAG_SQLSTATE),
		    PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
		if (PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL) &&
		    strncmp(PQresultErrorField(r, PG_DIAG_SQLSTATE), "40", 2) != 0)
			put(c, ": %s", PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL));
		put(c, " in <");
		put_plain(c, PQresultErrorField(r, PG_DIAG_CONTEXT));
		put(c, ">");
	}
}

/* --- sending, as connection.c does --- */

static struct array stream;
static int statement_ms = 60000;
static const char *in_front; /* of the next statement; NULL: nothing */

static void print_limits(char out[300], int lock_ms)
{
	snprintf(out, 300,
		 "SELECT pg_catalog.set_config('lock_timeout', '%d', true), pg_catalog.set_config('statement_timeout', "
		 "'%d', true), pg_catalog.set_config('client_connection_check_interval', '%d', true)",
		 lock_ms, statement_ms, 60000);
}

static void send_statement(struct connection *c, const char *sql, const struct postgres_value *values, int n,
			   int lock_ms)
{
	Oid types[POSTGRES_VALUES_MAX];
	const char *bytes[POSTGRES_VALUES_MAX];
	int lengths[POSTGRES_VALUES_MAX], formats[POSTGRES_VALUES_MAX];
	char *text = schema_expand(sql, "public"), first[300];

	for (int i = 0; i < n; i++) {
		types[i] = values[i].type;
		bytes[i] = values[i].bytes;
		lengths[i] = (int)values[i].len;
		formats[i] = 1;
	}
	print_limits(first, lock_ms);
	PQenterPipelineMode(c->conn);
	PQsendQueryParams(c->conn, first, 0, NULL, NULL, NULL, NULL, 0);
	if (in_front)
		PQsendQueryParams(c->conn, in_front, 0, NULL, NULL, NULL, NULL, 0);
	in_front = NULL;
	PQsendQueryParams(c->conn, text, n, types, bytes, lengths, formats, 0);
	PQsendQueryParams(c->conn, SCHEMA_AS_BLOCK(SQL_RESET), 0, NULL, NULL, NULL, NULL, 0);
	PQpipelineSync(c->conn);
	PQflush(c->conn);
	free(text);
	c->is_busy = true;
}

static void send_simple(struct connection *c, const char *sql)
{
	char *text = schema_expand(sql, "public");

	PQsendQuery(c->conn, text);
	PQflush(c->conn);
	free(text);
	c->is_busy = true;
}

/* The epoch is asked for alone: copied.sql refuses a table with triggers, as this one has, and a listener would not use
 * COPY. */
static void send_copy_statement(struct connection *c, int lock_ms)
{
	char *text;

	if (asprintf(&text,
		     "SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; "
		     "SET LOCAL client_connection_check_interval = 60000; %s; %s; %s",
		     lock_ms, statement_ms, SQL_COPY, SQL_EPOCH, SQL_RESET) < 0)
		abort();
	send_simple(c, text);
	free(text);
}

static void send_rows_of_copy(struct connection *c)
{
	PQputCopyData(c->conn, stream.bytes, (int)stream.len);
	PQputCopyEnd(c->conn, NULL);
	PQflush(c->conn);
}

/* Takes what has arrived. */
static void receive(struct connection *c)
{
	if (!PQconsumeInput(c->conn)) {
		put(c, " LOST");
		c->is_busy = false;
		PQfinish(c->conn);
		c->conn = side_connect();
		return;
	}
	while (c->is_busy && !PQisBusy(c->conn)) {
		bool is_pipeline = PQpipelineStatus(c->conn) != PQ_PIPELINE_OFF;
		PGresult *r = PQgetResult(c->conn);

		put_result(c, r);
		if (r && PQresultStatus(r) == PGRES_COPY_IN)
			send_rows_of_copy(c);
		if (is_pipeline ? r && PQresultStatus(r) == PGRES_PIPELINE_SYNC : !r) {
			c->is_busy = false;
			PQexitPipelineMode(c->conn);
		}
		PQclear(r);
	}
}

/* Until each connection has its answer, or waits for a lock, and then for its end if is_through. */
static void settle(bool is_through)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &connections[i];

		while (c->is_busy && (is_through || !side_is_blocked(c->conn))) {
			side_turn(c->conn);
			receive(c);
		}
		if (c->used)
			printf("\t%d:%s%s\n", i, c->line, c->is_busy ? " ..." : "");
		c->used = 0;
		c->line[0] = '\0';
	}
}

/* --- statements --- */

/* What a row may be: mostly good. */
static const char *draw_payload(int id)
{
	static char text[100];
	int kind = below(60);

	if (kind == 0)
		return "{\"a\": \"x\\u0000y\"}";
	if (kind == 1)
		return "{\"a\": \"x\\\\u0000y\"}";
	if (kind == 2)
		return "1e200000";
	snprintf(text, sizeof(text), "{\"n\": %d, \"of\": \"id%02d\"}", below(3), id);
	return text;
}

struct rows {
	struct array ids, types, payloads, sources, received, times;
	char text[400];
};

/* Sorted, without twins. */
static int draw_ids(int *ids)
{
	int n = 0, mask = 0, wanted = 1 + below(ROWS_MAX);

	for (int i = 0; i < wanted; i++)
		mask |= 1 << below(IDS);
	for (int i = 0; i < IDS; i++)
		if (mask >> i & 1)
			ids[n++] = i;
	return n;
}

static void draw_origin(struct rows *r)
{
	static const char *const from[] = {"shop", "ws://feed.example/", NULL};
	const char *source = from[below(3)];
	int time = below(3);

	if (source)
		array_add(&r->sources, source, strlen(source));
	else
		array_add_null(&r->sources);
	array_add_time(&r->received, INT64_C(1800000000000000));
	if (time)
		array_add_time(&r->times, time * INT64_C(900000000123456));
	else
		array_add_null(&r->times);
}

static void draw_rows(struct rows *r, int first)
{
	static const char *const types[] = {"", "order", "visit"};
	int ids[IDS], n = draw_ids(ids);
	char id[20];

	r->text[0] = '\0';
	if (first >= 0) {
		ids[0] = first;
		n = 1;
	}
	array_start(&r->ids, ARRAY_TEXT, (size_t)n);
	array_start(&r->types, ARRAY_TEXT, (size_t)n);
	array_start(&r->payloads, ARRAY_JSONB, (size_t)n);
	array_start(&r->sources, ARRAY_TEXT, (size_t)n);
	array_start(&r->received, ARRAY_TIME, (size_t)n);
	array_start(&r->times, ARRAY_TIME, (size_t)n);
	for (int i = 0; i < n; i++) {
		const char *type = types[below(3)], *payload = draw_payload(ids[i]);
		bool is_bad = below(100) == 0;

		snprintf(id, sizeof(id), "id%02d", ids[i]);
		array_add(&r->ids, is_bad ? "id\0" : id, is_bad ? 3 : strlen(id));
		array_add(&r->types, type, strlen(type));
		array_add(&r->payloads, payload, strlen(payload));
		draw_origin(r);
		snprintf(r->text + strlen(r->text), sizeof(r->text) - strlen(r->text), " %s%s=%s", id,
			 is_bad ? "(bad)" : "", payload);
	}
}

static struct postgres_value value_of(const struct array *a, enum array_type type)
{
	return (struct postgres_value){type, a->bytes, a->len};
}

static struct postgres_value text_value(const char *text)
{
	return (struct postgres_value){TEXT_OID, text, strlen(text)};
}

static void put_rows_values(const struct rows *r, struct postgres_value *values)
{
	values[0] = value_of(&r->ids, ARRAY_TEXT);
	values[1] = value_of(&r->types, ARRAY_TEXT);
	values[2] = value_of(&r->payloads, ARRAY_JSONB);
	values[3] = value_of(&r->sources, ARRAY_TEXT);
	values[4] = value_of(&r->received, ARRAY_TIME);
	values[5] = value_of(&r->times, ARRAY_TIME);
	values[6] = text_value("differential");
}

static void insert(struct connection *c, int first, int lock_ms)
{
	static struct rows r;
	struct postgres_value values[7];

	draw_rows(&r, first);
	printf("%d %d insert%s\n", ++steps, (int)(c - connections), r.text);
	put_rows_values(&r, values);
	send_statement(c, SQL_INSERT, values, 7, lock_ms);
}

/* The wire form is that of store/bulk_load.c, which needs whole events. */
static void put_bytes(const void *bytes, size_t len)
{
	memcpy(array_reserve(&stream, len), bytes, len);
	stream.len += len;
}

static void copy(struct connection *c, int first, int lock_ms)
{
	static const char head[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
	static struct rows r;
	const char *at[6];

	draw_rows(&r, first);
	printf("%d %d copy%s\n", ++steps, (int)(c - connections), r.text);
	at[0] = r.ids.bytes + 20;
	at[1] = r.types.bytes + 20;
	at[2] = r.payloads.bytes + 20;
	at[3] = r.sources.bytes + 20;
	at[4] = r.received.bytes + 20;
	at[5] = r.times.bytes + 20;
	stream.len = 0;
	put_bytes(head, sizeof(head));
	while (at[0] < r.ids.bytes + r.ids.len) {
		put_bytes("\0\7", 2);
		for (int i = 0; i < 6; i++) {
			bool is_null = at[i][0] != 0;
			size_t len = (size_t)(unsigned char)at[i][2] << 8 | (unsigned char)at[i][3];

			put_bytes(at[i], is_null ? 4 : 4 + len);
			at[i] += is_null ? 4 : 4 + len;
		}
		put_bytes("\0\0\0\14differential", 16);
	}
	put_bytes("\377\377", 2);
	send_copy_statement(c, lock_ms);
}

static void find(struct connection *c, int lock_ms)
{
	static struct rows r;
	const char *consumer = below(3) ? "" : "billing";
	struct postgres_value values[2];

	draw_rows(&r, -1);
	printf("%d %d find for <%s>%s\n", ++steps, (int)(c - connections), consumer, r.text);
	values[0] = value_of(&r.ids, ARRAY_TEXT);
	values[1] = text_value(consumer);
	send_statement(c, SQL_FIND_PRESENT, values, 2, lock_ms);
}

static void dead_letter(struct connection *c, int lock_ms)
{
	static struct array columns[7];
	static const enum array_type types[] = {ARRAY_BYTEA, ARRAY_TEXT, ARRAY_TEXT, ARRAY_BYTEA,
						ARRAY_TEXT,  ARRAY_TEXT, ARRAY_TEXT};
	static const char *const words[] = {"shop", "trade", "kraken"};
	const char *consumer = below(4) ? "" : "billing";
	struct postgres_value values[10];
	int n = 1 + below(4);
	bool is_exact = below(5);

	printf("%d %d dead_letter for <%s>%s", ++steps, (int)(c - connections), consumer, is_exact ? "" : " in ASCII");
	for (int i = 0; i < 7; i++)
		array_start(&columns[i], types[i], (size_t)n);
	for (int i = 0; i < n; i++) {
		char digest[32] = {0}, id[20], reason[20];
		int which = below(IDS);

		memset(digest, 'a' + which, sizeof(digest));
		snprintf(id, sizeof(id), "id%02d", which);
		snprintf(reason, sizeof(reason), "reason %d", below(3));
		array_add(&columns[0], digest, sizeof(digest));
		if (below(4))
			array_add(&columns[1], id, strlen(id));
		else
			array_add_null(&columns[1]);
		array_add(&columns[2], reason, strlen(reason));
		array_add(&columns[3], "raw", 3);
		for (int j = 0; j < 3; j++)
			if (below(2))
				array_add(&columns[4 + j], words[j], strlen(words[j]));
			else
				array_add_null(&columns[4 + j]);
		printf(" %s(%s)", id, reason);
	}
	printf("\n");
	for (int i = 0; i < 7; i++)
		values[i] = value_of(&columns[i], types[i]);
	values[7] = text_value(c == connections ? "first" : "other");
	values[8] = text_value(consumer);
	values[9] = (struct postgres_value){BOOL_OID, is_exact ? "\1" : "\0", 1};
	send_statement(c, SQL_WRITE_DEAD_LETTERS, values, 10, lock_ms);
}

static void put_cursors(struct connection *c, int lock_ms)
{
	static struct array columns[5];
	static const char *const values_of[] = {"5", "17", "-3", "100", "\"a\"", "\"ab\"", "\"b\"", "\"5\""};
	static const char *const scopes[] = {"", "a.example", "b.example"};
	struct postgres_value values[7];
	int n = 1 + below(3);
	bool is_other_epoch = below(8) == 0;

	printf("%d %d put cursors%s", ++steps, (int)(c - connections), is_other_epoch ? " of another epoch" : "");
	for (int i = 0; i < 5; i++)
		array_start(&columns[i], ARRAY_TEXT, (size_t)n);
	for (int i = n - 1; i >= 0; i--) {
		const char *source = below(2) ? "kraken" : "nostr", *kind = below(4) ? "max" : "last";
		const char *value = values_of[below(8)];

		array_add(&columns[0], source, strlen(source));
		array_add(&columns[1], scopes[i], strlen(scopes[i]));
		array_add(&columns[2], kind, strlen(kind));
		array_add(&columns[3], value, strlen(value));
		if (below(2))
			array_add(&columns[4], "{}", 2);
		else
			array_add_null(&columns[4]);
		printf(" %s,%s:%s %s", source, scopes[i], kind, value);
	}
	printf("\n");
	for (int i = 0; i < 5; i++)
		values[i] = value_of(&columns[i], ARRAY_TEXT);
	values[5] = text_value(is_other_epoch ? "00000000" : side_epoch());
	values[6] = text_value(c == connections ? "first" : "other");
	send_statement(c, SQL_PUT_CURSORS, values, 7, lock_ms);
}

static void read_cursors(struct connection *c)
{
	static struct array sources;
	struct postgres_value value;
	const char *other;

	printf("%d %d read cursors\n", ++steps, (int)(c - connections));
	array_start(&sources, ARRAY_TEXT, 2);
	array_add(&sources, "kraken", 6);
	other = below(2) ? "nostr" : "nobody";
	array_add(&sources, other, strlen(other));
	value = value_of(&sources, ARRAY_TEXT);
	send_statement(c, SQL_READ_CURSORS, &value, 1, 0);
}

static void check_in(struct connection *c, int lock_ms)
{
	char text[500];
	struct postgres_value value;

	snprintf(text, sizeof(text),
		 "{\"listener\":\"l%d\",\"dedup_window_s\":300,\"is_leaving\":%s,\"events\":%d,\"consumer\":\"\","
		 "\"targets\":[],"
		 "\"target_urls\":{},\"copies\":[%d,%d,0],\"late\":[],\"late_weight\":1}",
		 below(3), below(3) ? "false" : "true", below(9), below(5), below(5));
	printf("%d %d check in %s\n", ++steps, (int)(c - connections), text);
	value = text_value(text);
	send_statement(c, SCHEMA_WITH_HAZARDS(SQL_CHECKIN), &value, 1, lock_ms);
}

static struct effects *draw_effects(void)
{
	static char *types[] = {"order"};
	static struct webhook webhooks[2] = {{.name = "all"}, {.name = "orders", .types = types, .type_count = 1}};
	static struct config config[5];
	static struct effects effects[5];
	int i = below(5);

	if (!effects[i].config) {
		config[i].consumer = i == 1 || i == 3 ? "billing" : "";
		config[i].handler = i == 2 || i == 3 ? "public.handle" : NULL;
		if (i == 0 || i >= 3)
			config[i].webhooks = (struct webhooks){.items = webhooks, .count = 2};
		effects[i].config = &config[i];
		if (effects_learn(&effects[i], config[i].handler ? "=public.handle" : "=", config[i].handler ? 14 : 1))
			abort();
	}
	return &effects[i];
}

static void store_with_effects(struct connection *c, int first, int lock_ms)
{
	static struct rows r;
	static char *alone_sql;
	struct effects *e = draw_effects();
	struct postgres_value values[7];

	if (!alone_sql)
		alone_sql = schema_expand(effects_alone_sql(), "public");
	draw_rows(&r, first);
	printf("%d %d effects <%s> %s%s%s\n", ++steps, (int)(c - connections), e->config->consumer,
	       e->config->handler ? "handler" : "", e->config->webhooks.count ? " webhooks" : "", r.text);
	put_rows_values(&r, values);
	in_front = below(8) == 0 ? alone_sql : NULL;
	send_statement(c, effects_sql(e), values, 7, lock_ms);
}

/* Every row that is due, or one that was leased before. A lease ends at once, or not before the end of the test. */
static void lease(struct connection *c)
{
	static struct array columns[6];
	static const char *const targets[] = {"all", "orders"};
	bool is_probe = lease_count && below(4) == 0, is_long = below(3) == 0;
	int which = is_probe ? below(lease_count) : 0;
	struct postgres_value values[9];

	printf("%d %d lease%s%s %s\n", ++steps, (int)(c - connections), is_long ? " for long" : "",
	       is_probe ? " of" : "", is_probe ? leases[which].what : "");
	for (int i = 0; i < 6; i++)
		array_start(&columns[i], ARRAY_TEXT, 4);
	for (int i = 0; i < 4; i++) {
		array_add(&columns[0], targets[i / 2], strlen(targets[i / 2]));
		array_add(&columns[1], "1000", 4);
		array_add(&columns[2], is_long ? "3600000" : "0", is_long ? 7 : 1);
		if (is_probe)
			array_add(&columns[3], leases[which].id, strlen(leases[which].id));
		else
			array_add_null(&columns[3]);
		array_add(&columns[4], "0", 1);
		array_add(&columns[5], i % 2 ? "1" : "0", 1);
	}
	for (int i = 0; i < 6; i++)
		values[i] = value_of(&columns[i], ARRAY_TEXT);
	values[6] = values[7] = values[8] = text_value("4194304");
	send_statement(c, SQL_LEASE, values, 9, 0);
}

static void peek(struct connection *c)
{
	const struct postgres_value values[3] = {text_value("orders"), text_value("0"),
						 text_value(below(2) ? "1" : "0")};

	printf("%d %d peek\n", ++steps, (int)(c - connections));
	send_statement(c, SQL_PEEK, values, 3, 0);
}

/* With the number of the lease, or an older one. */
static void record(struct connection *c)
{
	static struct array columns[6];
	static const char *const outcomes[] = {"delivered", "retry", "dead", "unsent"};
	struct postgres_value values[7];
	int n = lease_count < 4 ? lease_count : 4, first = below(lease_count - n + 1);

	printf("%d %d record", ++steps, (int)(c - connections));
	for (int i = 0; i < 6; i++)
		array_start(&columns[i], ARRAY_TEXT, (size_t)n);
	for (int i = first; i < first + n; i++) {
		const char *outcome = outcomes[below(4)];
		bool is_old = below(4) == 0;
		char lease[48];

		printf(" %s %s%s", leases[i].what, outcome, is_old ? " late" : "");
		array_add(&columns[0], leases[i].id, strlen(leases[i].id));
		snprintf(lease, sizeof(lease), "0%s", strchr(leases[i].lease, '/'));
		array_add_string(&columns[1], is_old ? lease : leases[i].lease, false);
		array_add(&columns[2], outcome, strlen(outcome));
		array_add(&columns[3], "500", 3);
		array_add_null(&columns[4]);
		array_add(&columns[5], "0", 1);
	}
	printf("\n");
	for (int i = 0; i < 6; i++)
		values[i] = value_of(&columns[i], ARRAY_TEXT);
	values[6] = text_value("");
	send_statement(c, SQL_RECORD, values, 7, 0);
}

static void relay(struct connection *c)
{
	if (below(8) == 0)
		peek(c);
	else if (lease_count && below(2))
		record(c);
	else
		lease(c);
}

static void check_effects(struct connection *c)
{
	struct postgres_value value = text_value(below(2) ? "" : "public.handle");

	printf("%d %d check effects\n", ++steps, (int)(c - connections));
	send_statement(c, SQL_CHECK_EFFECTS, &value, 1, 0);
}

static void inspect(struct connection *c)
{
	static const char *const tables[] = {"{events,dead_letters,wsonce_listeners,wsonce_duplicates,wsonce_retention,"
					     "wsonce_database,wsonce_epoch}"};

	printf("%d %d inspect\n", ++steps, (int)(c - connections));
	PQsendQueryParams(c->conn, schema_inspect_sql(), 1, NULL, tables, NULL, NULL, 0);
	PQflush(c->conn);
	c->is_busy = true;
}

static void ask_simple(struct connection *c, const char *what, const char *sql)
{
	printf("%d %d %s\n", ++steps, (int)(c - connections), what);
	send_simple(c, sql);
}

static void ask_epoch(struct connection *c)
{
	printf("%d %d epoch\n", ++steps, (int)(c - connections));
	send_statement(c, SQL_EPOCH, NULL, 0, 0);
}

/* --- what happens besides --- */

static void hold(void)
{
	char id[20];

	if (below(8) == 0) {
		printf("%d hold the table\n", ++steps);
		side_hold_table();
	} else {
		snprintf(id, sizeof(id), "id%02d", below(IDS));
		printf("%d hold %s\n", ++steps, id);
		side_hold_id(id);
	}
	is_held = true;
}

static void end_hold(void)
{
	bool is_commit = below(2);

	printf("%d %s\n", ++steps, is_commit ? "commit" : "roll back");
	side_end_hold(is_commit);
	is_held = false;
}

static void set_trigger(void)
{
	static const char *const states[] = {"P0001", "23514", "40001", "53100", "57014", "22P02", "25006", NULL};
	static const char *const places[] = {"events", "events", "dead_letters", "handler", "commit"};
	const char *where = places[below(5)], *sqlstate = states[below(8)];
	char id[20];

	if (!sqlstate && (strcmp(where, "handler") == 0 || strcmp(where, "commit") == 0))
		sqlstate = "P0001";
	snprintf(id, sizeof(id), strcmp(where, "commit") == 0 ? "all" : "id%02d", below(IDS));
	printf("%d trigger on %s for %s: %s\n", ++steps, where, id, sqlstate ? sqlstate : "passes over");
	side_set_trigger(where, id, sqlstate);
}

static void list_line(const char *line)
{
	printf("\t%s\n", line);
}

static void list(void)
{
	printf("%d tables\n", ++steps);
	side_list(list_line);
}

/* --- the course --- */

static struct connection *blocked(void)
{
	for (int i = 0; i < CONNECTIONS; i++)
		if (connections[i].is_busy)
			return &connections[i];
	return NULL;
}

static struct connection *idle(void)
{
	struct connection *c;

	do
		c = &connections[below(CONNECTIONS)];
	while (c->is_busy);
	return c;
}

/* Somebody waits for the lock that another program holds. */
static void step_beside(struct connection *waiter)
{
	switch (below(8)) {
	case 0:
		printf("%d %d is cancelled\n", ++steps, (int)(waiter - connections));
		side_cancel(waiter->conn);
		settle(true);
		break;
	case 1:
		printf("%d %d is terminated\n", ++steps, (int)(waiter - connections));
		side_terminate(waiter->conn);
		settle(true);
		break;
	case 2:
		ask_epoch(idle());
		settle(false);
		break;
	default:
		end_hold();
		settle(true);
	}
}

static void step(void)
{
	struct connection *c = idle();
	bool is_hasty = is_held && below(4) == 0;
	int lock_ms = is_hasty ? 30 : 30000, kind = below(54);

	if (kind < 10)
		insert(c, -1, lock_ms);
	else if (kind < 15)
		copy(c, -1, lock_ms);
	else if (kind < 20)
		find(c, lock_ms);
	else if (kind < 25)
		dead_letter(c, lock_ms);
	else if (kind < 31)
		store_with_effects(c, -1, lock_ms);
	else if (kind == 31)
		check_in(c, lock_ms);
	else if (kind == 32)
		check_effects(c);
	else if (kind == 33)
		inspect(c);
	else if (kind == 34)
		ask_simple(c, "version", schema_ask_sql());
	else if (kind == 35)
		ask_simple(c, "identify", SCHEMA_WITH_HAZARDS(SQL_IDENTIFY));
	else if (kind == 36)
		ask_epoch(c);
	else if (kind >= 46)
		relay(c);
	else if (kind >= 42)
		put_cursors(c, lock_ms);
	else if (kind >= 40)
		read_cursors(c);
	else if (is_held)
		end_hold();
	else
		hold();
	settle(is_hasty);
}

/* A trigger that takes longer than a statement may. */
static void wait_too_long(void)
{
	static const char *const kinds[] = {"events", "handler"};
	const char *where = kinds[below(2)];

	printf("%d slow %s\n", ++steps, where);
	side_set_trigger(where, "id03", "slow");
	statement_ms = 100;
	for (int i = 0; i < 4; i++) {
		if (below(2))
			store_with_effects(idle(), below(3) ? 3 : -1, 30000);
		else if (below(2))
			copy(idle(), below(3) ? 3 : -1, 30000);
		else
			insert(idle(), below(3) ? 3 : -1, 30000);
		settle(true);
	}
	statement_ms = 60000;
}

/* What concerns the whole server, for a few statements. */
static void upset(void)
{
	int kind = below(6);

	printf("%d %s\n", ++steps,
	       kind == 0   ? "the epoch goes"
	       : kind == 1 ? "no key"
	       : kind == 2 ? "read-only"
			   : "triggers");
	if (kind == 0)
		side_forget_epoch();
	else if (kind == 1)
		side_drop_key();
	else if (kind == 2)
		side_set_read_only(true);
	else if (kind == 3)
		wait_too_long();
	for (int i = 0; kind > 3 && i < 3; i++)
		set_trigger();
	for (int i = 0; i < 12 && kind != 1 && kind != 3; i++) {
		struct connection *waiter = blocked();

		if (waiter)
			step_beside(waiter);
		else
			step();
	}
	for (int i = 0; i < 4 && kind == 1; i++) {
		struct connection *c = idle();

		if (below(2))
			insert(c, -1, 30000);
		else
			copy(c, -1, 30000);
		settle(false);
	}
	while (is_held) {
		end_hold();
		settle(true);
	}
	side_clear_triggers();
	if (kind == 1)
		side_restore_key();
	if (kind == 2)
		side_set_read_only(false);
	ask_simple(connections, "make epoch", SQL_MAKE_EPOCH ";" SCHEMA_WITH_HAZARDS(SQL_IDENTIFY));
	settle(true);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20;

	chance = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	side_open();
	for (int i = 0; i < CONNECTIONS; i++)
		connections[i].conn = side_connect();
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < 20; i++) {
			struct connection *waiter = blocked();

			if (waiter)
				step_beside(waiter);
			else
				step();
		}
		while (is_held) {
			end_hold();
			settle(true);
		}
		list();
		upset();
		list();
		if (below(3))
			side_empty();
	}
	return 0;
}
