/* A fake of the connection to Postgres. */
#include "played_postgres.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres/array.h"

#define ARRAY_HEAD 20 /* bytes before the first element of an array in binary form */

struct played_postgres played_postgres;
static bool is_played;

struct postgres *__real_postgres_open(uv_loop_t *l, const struct postgres_settings *settings);
enum postgres_state __real_postgres_state(const struct postgres *p);
const struct postgres_identity *__real_postgres_identity(const struct postgres *p);
const char *__real_postgres_error(const struct postgres *p);
void __real_postgres_set_lock_timeout(struct postgres *p, int64_t lock_ms);
void __real_postgres_find_by_key(struct postgres *p);
void __real_postgres_begin_with(struct postgres *p, const char *sql);
int __real_postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n);
const char *__real_postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len);
const char *__real_postgres_text(const struct postgres_answer *answer, size_t row, size_t *len);
int __real_postgres_copy(struct postgres *p, const char *sql, struct slice (*next)(void *arg), void *arg);
void __real_postgres_close(struct postgres *p, void (*done)(void *arg), void *arg);

struct postgres *__wrap_postgres_open(uv_loop_t *l, const struct postgres_settings *settings)
{
	if (!is_played)
		return __real_postgres_open(l, settings);
	played_postgres.settings = *settings;
	return (struct postgres *)&played_postgres;
}

enum postgres_state __wrap_postgres_state(const struct postgres *p)
{
	return is_played ? played_postgres.state : __real_postgres_state(p);
}

const struct postgres_identity *__wrap_postgres_identity(const struct postgres *p)
{
	return is_played ? &played_postgres.identity : __real_postgres_identity(p);
}

const char *__wrap_postgres_error(const struct postgres *p)
{
	return is_played ? "not connected" : __real_postgres_error(p);
}

void __wrap_postgres_set_lock_timeout(struct postgres *p, int64_t lock_ms)
{
	if (is_played)
		played_postgres.lock_timeout_ms = lock_ms;
	else
		__real_postgres_set_lock_timeout(p, lock_ms);
}

void __wrap_postgres_find_by_key(struct postgres *p)
{
	if (is_played)
		played_postgres.by_key++;
	else
		__real_postgres_find_by_key(p);
}

void __wrap_postgres_begin_with(struct postgres *p, const char *sql)
{
	if (is_played)
		played_postgres.first = sql;
	else
		__real_postgres_begin_with(p, sql);
}

int __wrap_postgres_query(struct postgres *p, const char *sql, const struct postgres_value *values, int n)
{
	struct played_postgres *played = &played_postgres;

	if (!is_played)
		return __real_postgres_query(p, sql, values, n);
	if (played->is_lost || played->state != POSTGRES_READY)
		return -1;
	played->sql = sql;
	for (int i = 0; i < POSTGRES_VALUES_MAX; i++) {
		free(played->values[i]);
		played->values[i] = i < n ? strndup("", 0) : NULL;
		played->lens[i] = i < n ? values[i].len : 0;
		if (i >= n)
			continue;
		played->values[i] = realloc(played->values[i], values[i].len + 1);
		memcpy(played->values[i], values[i].bytes, values[i].len);
		played->values[i][values[i].len] = '\0';
	}
	played->n = n;
	played->state = POSTGRES_BUSY;
	return 0;
}

int __wrap_postgres_copy(struct postgres *p, const char *sql, struct slice (*next)(void *arg), void *arg)
{
	struct array all = {0};
	struct postgres_value value = {.type = 0};

	if (!is_played)
		return __real_postgres_copy(p, sql, next, arg);
	for (struct slice piece = next(arg); piece.len; piece = next(arg)) {
		memcpy(array_reserve(&all, piece.len), piece.at, piece.len);
		all.len += piece.len;
	}
	value.bytes = all.bytes;
	value.len = all.len;
	int failed = __wrap_postgres_query(p, sql, &value, 1);
	array_free(&all);
	return failed;
}

const char *__wrap_postgres_cell(const struct postgres_answer *answer, size_t row, int column, size_t *len)
{
	const struct played_postgres *played = &played_postgres;

	if (!is_played)
		return __real_postgres_cell(answer, row, column, len);
	*len = played->ids ? 1 : played->cells ? strlen(played->cells[column]) : 0;
	return played->ids ? played->ids + row : played->cells ? played->cells[column] : "";
}

const char *__wrap_postgres_text(const struct postgres_answer *answer, size_t row, size_t *len)
{
	return is_played ? __wrap_postgres_cell(answer, row, 0, len) : __real_postgres_text(answer, row, len);
}

void __wrap_postgres_close(struct postgres *p, void (*done)(void *arg), void *arg)
{
	if (is_played)
		done(arg);
	else
		__real_postgres_close(p, done, arg);
}

/* --- for the test --- */

void played_postgres_start(void)
{
	is_played = true;
	played_postgres.identity.epoch = 1;
}

void played_postgres_set_state(enum postgres_state state)
{
	played_postgres.state = state;
	played_postgres.settings.on_state(played_postgres.settings.owner, state);
}

void played_postgres_answer(struct postgres_answer answer, enum postgres_state state)
{
	played_postgres.state = state;
	played_postgres.settings.on_answer(played_postgres.settings.owner, &answer);
}

const char *played_postgres_texts(int value)
{
	static char text[4000];
	size_t at = ARRAY_HEAD, n = 0;

	while (at + 4 <= played_postgres.lens[value] && n + 1 < sizeof(text)) {
		uint32_t len;

		memcpy(&len, played_postgres.values[value] + at, 4);
		len = ntohl(len);
		at += 4;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s", n ? " " : "",
				      len == UINT32_MAX ? 1 : (int)len,
				      len == UINT32_MAX ? "-" : played_postgres.values[value] + at);
		at += len == UINT32_MAX ? 0 : len;
	}
	text[n] = '\0';
	return text;
}
