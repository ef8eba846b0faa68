/* fleet_state.c owns what is known of the whole fleet from outside: Postgres has what listeners tell of themselves
 * (ops/report.c), Redis their heartbeats (road/owners.c). How it is printed is fleet_text.c's business. */
#include "commands/fleet_state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/timestamp.h"
#include "commands/fleet_hour.h"
#include "commands/json_out.h"
#include "commands/redis_query.h"
#include "commands/session.h"
#include "postgres/schema.h"
#include "road/owners.h"
#include "hazards.sql.h"
#include "holder.sql.h"
#include "sqlite_status.sql.h"
#include "status.sql.h"

#define CHECKIN_LATE_S 150   /* one a minute, and one may be late */
#define LOST_S         600   /* for so long the end of a listener that did not leave is a problem */
#define DISK_LEAST     65536 /* bytes that must be left of it */
#define INFO_BYTES     32768

struct reading {
	const struct config *config;
	json_t *state;
	json_t *problems;
	enum fleet_health health;
};

/* --- problems --- */

static void note(struct reading *r, enum fleet_health health, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void note(struct reading *r, enum fleet_health health, const char *format, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	json_array_append_new(r->problems, json_out_string(text));
	if (r->health < health)
		r->health = health;
}

static json_int_t number_of(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* --- Postgres --- */

/* One part of sql/queries/status.sql: its objects, or NULL after a problem. */
static json_t *ask_part(struct reading *r, struct session *s, const char *name)
{
	char *head = memory_printf("-- part %s\n", name), why[400];
	const char *at = strstr(session_is_file(s) ? SQL_SQLITE_STATUS : SQL_STATUS, head) + strlen(head),
		   *end = strstr(at, "-- part ");
	char *sql = memory_strndup(at, end ? (size_t)(end - at) : strlen(at));
	struct pg_result *rows = session_try(s, sql, 0, NULL, why, sizeof(why));
	json_t *all = rows ? json_array() : NULL;

	for (size_t i = 0; rows && i < session_count(rows); i++)
		json_array_append_new(all, json_loads(session_text(rows, i, 0), 0, NULL));
	if (!rows)
		note(r, strcmp(name, "server") == 0 ? FLEET_DOWN : FLEET_DEGRADED, "cannot read %s: %s", name, why);
	session_drop(rows);
	free(head);
	free(sql);
	return all;
}

static void put_first(struct reading *r, struct session *s, const char *part, const char *name)
{
	json_t *all = ask_part(r, s, part);

	json_object_set_new(r->state, name, json_incref(all ? json_array_get(all, 0) : json_null()));
	json_decref(all);
}

static void put_hazards(struct session *s, json_t *server)
{
	char why[400];
	struct pg_result *rows = session_is_file(s) ? NULL : session_try(s, SQL_HAZARDS, 0, NULL, why, sizeof(why));
	const char *hazards = rows ? session_text(rows, 0, 0) : "";

	json_object_set_new(server, "hazards", *hazards ? json_out_string(hazards) : json_null());
	session_drop(rows);
}

static void put_holder(struct reading *r, struct session *s, json_t *server)
{
	char why[400];
	struct pg_result *rows = session_is_file(s) ? NULL : session_try(s, SQL_HOLDER, 0, NULL, why, sizeof(why));
	const char *holder = rows && session_count(rows) ? session_text(rows, 0, 0) : "";

	json_object_set_new(server, "holder", *holder ? json_out_string(holder) : json_null());
	if (*holder)
		note(r, FLEET_DEGRADED, "%s", holder);
	session_drop(rows);
}

/* The targets, and all of them together. */
static void put_outbox(struct reading *r, struct session *s)
{
	json_t *targets = ask_part(r, s, "outbox"), *one;
	json_int_t pending = 0, dead = 0, oldest_s = 0;
	size_t i;

	json_array_foreach(targets, i, one)
	{
		pending += number_of(one, "pending");
		dead += number_of(one, "dead");
		oldest_s = number_of(one, "oldest_s") > oldest_s ? number_of(one, "oldest_s") : oldest_s;
	}
	json_object_set_new(
		r->state, "outbox",
		targets ? json_pack("{s:I, s:I, s:I}", "pending", pending, "oldest_s", oldest_s, "dead", dead)
			: json_null());
	json_object_set_new(r->state, "targets", targets ? targets : json_null());
}

static double ms_since(int64_t us)
{
	return (double)(clock_us(CLOCK_MONOTONIC) - us) / 1000;
}

static void judge_server(struct reading *r)
{
	const json_t *server = json_object_get(r->state, "postgres");

	if (json_is_true(json_object_get(server, "is_read_only")))
		note(r, FLEET_DOWN, "postgres is read-only (%s)", text_of(server, "role"));
	if (!config_store_path(r->config) && json_is_object(server) &&
	    number_of(server, "schema_version") != schema_version())
		note(r, FLEET_DEGRADED, "the schema has version %lld, this program knows %d",
		     (long long)number_of(server, "schema_version"), schema_version());
}

static void judge_targets(struct reading *r)
{
	int64_t limit_s = r->config->unsettled_warning_s;
	json_t *target;
	size_t i;

	json_array_foreach(json_object_get(r->state, "targets"), i,
			   target) if (limit_s && number_of(target, "oldest_s") > limit_s)
		note(r, FLEET_DEGRADED, "webhook %s has a delivery that has been pending for %lld s",
		     text_of(target, "target"), (long long)number_of(target, "oldest_s"));
}

/* A file whose disk has no room can be read. */
static void judge_disk(struct reading *r)
{
	const char *path = config_store_path(r->config);
	struct statvfs disk;

	if (path && statvfs(path, &disk) == 0 && disk.f_bavail * disk.f_frsize < DISK_LEAST)
		note(r, FLEET_DOWN, "the disk of %s is full", path);
}

/* Returns the listeners' rows; or NULL. */
static json_t *ask_postgres(struct reading *r)
{
	struct session *s = session_open_to_read(r->config);
	json_t *rows, *server;
	int64_t began;
	char why[400];

	if (!s) {
		json_object_set_new(r->state, "postgres", json_pack("{s:b}", "is_up", 0));
		note(r, FLEET_DOWN, "postgres cannot be reached, or is not wsonce's");
		return NULL;
	}
	began = clock_us(CLOCK_MONOTONIC);
	session_drop(session_try(s, "SELECT 1", 0, NULL, why, sizeof(why)));
	put_first(r, s, "server", "postgres");
	server = json_object_get(r->state, "postgres");
	if (json_is_object(server)) {
		json_object_set_new(server, "is_up", json_true());
		json_object_set_new(server, "latency_ms", json_real(ms_since(began)));
		put_hazards(s, server);
		put_holder(r, s, server);
	}
	put_first(r, s, "letters", "dead_letters");
	put_outbox(r, s);
	judge_targets(r);
	rows = ask_part(r, s, "listeners");
	session_close(s);
	judge_server(r);
	judge_disk(r);
	return rows;
}

/* --- Redis --- */

/* A member of INFO's answer, name:value in a line. */
static json_t *find_info(const char *info, const char *name)
{
	char *head = memory_printf("\n%s:", name);
	const char *at = strstr(info, head);
	json_t *value = NULL;

	if (at) {
		at += strlen(head);
		value = json_stringn(at, strcspn(at, "\r\n"));
	}
	free(head);
	return value ? value : json_null();
}

static void describe_redis(struct reading *r, const char *info, double latency_ms)
{
	json_t *redis = json_pack("{s:b, s:f, s:o, s:o, s:o, s:o, s:o}", "is_up", 1, "latency_ms", latency_ms,
				  "version", find_info(info, "redis_version"), "role", find_info(info, "role"),
				  "maxmemory_policy", find_info(info, "maxmemory_policy"), "used_memory_human",
				  find_info(info, "used_memory_human"), "aof_enabled", find_info(info, "aof_enabled"));

	json_object_set_new(r->state, "redis", redis);
	if (strcmp(text_of(redis, "role"), "slave") == 0)
		note(r, FLEET_DEGRADED, "redis is a replica: claims are refused");
}

/* NULL: there is none to ask for heartbeats. */
static struct redis_query *ask_redis(struct reading *r)
{
	static const char *const ping[] = {"PING"}, *const info[] = {"INFO"};
	bool is_used = strcmp(r->config->redis, "none") != 0;
	struct redis_query *q = is_used ? redis_query_open(r->config) : NULL;
	int64_t began = clock_us(CLOCK_MONOTONIC), number;
	char *text;

	if (!q) {
		json_object_set_new(r->state, "redis", is_used ? json_pack("{s:b}", "is_up", 0) : json_null());
		if (is_used)
			note(r, FLEET_DEGRADED, "redis cannot be reached: the unique key decides alone");
		return NULL;
	}
	text = memory_alloc(INFO_BYTES);
	redis_query_command(q, ping, 1, text, INFO_BYTES, &number);
	double latency_ms = ms_since(began);
	*text = '\0';
	redis_query_command(q, info, 1, text, INFO_BYTES, &number);
	describe_redis(r, text, latency_ms);
	free(text);
	return q;
}

/* What Redis knows of a listener by its own word. */
struct heartbeat {
	int is_there;      /* -1: nobody knows */
	char trouble[300]; /* why it cannot store; "": it can */
};

static struct heartbeat read_heartbeat(struct redis_query *q, const json_t *report)
{
	char *key = memory_printf(OWNERS_KEY_PREFIX "%s", text_of(report, "owner")),
	     *trouble = memory_printf("%s" OWNERS_TROUBLE, key), text[100];
	const char *const exists[] = {"EXISTS", key}, *const get[] = {"GET", trouble};
	struct heartbeat beat = {.is_there = -1, .trouble = ""};
	int64_t number = 0;

	if (q && *text_of(report, "owner") && strcmp(text_of(report, "redis"), "none") != 0 &&
	    redis_query_command(q, exists, 2, text, sizeof(text), &number) == 0)
		beat.is_there = number > 0;
	if (beat.is_there < 1)
		snprintf(beat.trouble, sizeof(beat.trouble), "%s", text_of(report, "trouble"));
	else if (redis_query_command(q, get, 2, beat.trouble, sizeof(beat.trouble), &number))
		*beat.trouble = '\0';
	free(key);
	free(trouble);
	return beat;
}

/* --- listeners --- */

/* Without a heartbeat, who can be heard by Redis is dead; of the others the last check-in tells. */
static bool is_alive(const json_t *row, int heartbeat)
{
	const char *redis = text_of(json_object_get(row, "report"), "redis");

	if (heartbeat == 1)
		return true;
	return number_of(row, "checkin_s") <= CHECKIN_LATE_S && (heartbeat < 0 || strcmp(redis, "up") != 0);
}

static double rate_of(const json_t *report, const char *name)
{
	json_int_t ms = number_of(report, "period_ms");

	return ms > 0 ? (double)number_of(report, name) * 1000 / (double)ms : 0;
}

static void judge_listener(struct reading *r, const json_t *row, bool is_here)
{
	const json_t *report = json_object_get(row, "report");
	const char *name = text_of(row, "name"), *redis = text_of(report, "redis");

	if (!is_here && number_of(row, "checkin_s") < LOST_S)
		note(r, FLEET_DEGRADED, "%s is gone and has not said goodbye", name);
	if (!is_here)
		return;
	if (number_of(row, "checkin_s") > CHECKIN_LATE_S)
		note(r, FLEET_DEGRADED, "%s has not checked in for %lld s", name,
		     (long long)number_of(row, "checkin_s"));
	if (strcmp(redis, "down") == 0 || strcmp(redis, "refuses") == 0)
		note(r, FLEET_DEGRADED, "%s: redis %s", name,
		     strcmp(redis, "down") == 0 ? "is down" : "refuses claims");
	if (json_is_true(json_object_get(report, "is_paused")))
		note(r, FLEET_DEGRADED, "%s does not read: the memory limit is reached", name);
	if (*text_of(report, "slow"))
		note(r, FLEET_DEGRADED, "%s: %s", name, text_of(report, "slow"));
	if (r->config->unsettled_warning_s && number_of(report, "oldest_ms") > r->config->unsettled_warning_s * 1000)
		note(r, FLEET_DEGRADED, "%s has an event that is unsettled for %lld s", name,
		     (long long)number_of(report, "oldest_ms") / 1000);
}

static void judge_webhooks(struct reading *r, const json_t *row)
{
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(row, "report"), "failing_webhooks"), i, name)
		note(r, FLEET_DEGRADED, "%s: webhook %s fails", text_of(row, "name"), json_string_value(name));
}

static void add_sources(struct reading *r, const json_t *row)
{
	const json_t *report = json_object_get(row, "report");
	json_t *all = json_object_get(r->state, "sources"), *source;
	size_t i;

	json_array_foreach(json_object_get(report, "sources"), i, source)
	{
		json_object_set_new(source, "listener", json_string(text_of(row, "name")));
		json_object_set_new(source, "messages_per_s",
				    json_real((double)number_of(source, "messages") * 1000 /
					      (double)(number_of(report, "period_ms") + 1)));
		if (json_object_get(source, "silent_s"))
			json_object_set_new(source, "silent_s",
					    json_integer(number_of(source, "silent_s") + number_of(row, "checkin_s")));
		json_object_del(source, "messages");
		json_array_append(all, source);
		if (!json_is_true(json_object_get(source, "is_ready")))
			note(r, FLEET_DEGRADED, "%s: source %s is %s%s%s", text_of(row, "name"),
			     text_of(source, "name"), text_of(source, "state"), *text_of(source, "error") ? ": " : "",
			     text_of(source, "error"));
	}
}

static json_t *describe_listener(const json_t *row, bool is_here)
{
	static const char *const rates[] = {"received", "stored", "duplicates", "dead_lettered"};
	const json_t *report = json_object_get(row, "report");
	json_t *one =
		json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:s}", "name", text_of(row, "name"), "version",
			  text_of(report, "version"), "consumer", text_of(row, "consumer"), "is_alive", is_here,
			  "uptime_s", number_of(row, "uptime_s"), "checkin_s", number_of(row, "checkin_s"), "in_flight",
			  number_of(report, "in_flight"), "held", number_of(report, "held"), "oldest_ms",
			  number_of(report, "oldest_ms"), "redis", text_of(report, "redis"));

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		char *name = memory_printf("%s_per_s", rates[i]);

		json_object_set_new(one, name, json_real(is_here ? rate_of(report, rates[i]) : 0));
		free(name);
	}
	return one;
}

/* Who has which value of each setting: {"claim-ttl": {"30s": ["a"], "20s": ["b"]}}. */
static void add_settings(json_t *all, const json_t *row)
{
	const char *flag;
	json_t *value;

	json_object_foreach(json_object_get(json_object_get(row, "report"), "settings"), flag, value)
	{
		json_t *values = json_object_get(all, flag), *who;

		if (!values)
			json_object_set_new(all, flag, values = json_object());
		who = json_object_get(values, json_string_value(value));
		if (!who)
			json_object_set_new(values, json_string_value(value), who = json_array());
		json_array_append_new(who, json_string(text_of(row, "name")));
	}
}

static json_t *keep_differing(json_t *all)
{
	const char *flag;
	json_t *values;
	void *next;

	json_object_foreach_safe(all, next, flag, values) if (json_object_size(values) < 2) json_object_del(all, flag);
	return all;
}

static void read_listeners(struct reading *r, const json_t *rows, struct redis_query *q)
{
	json_t *all = json_array(), *settings = json_object(), *row;
	size_t i, alive = 0, storing = 0;

	json_object_set_new(r->state, "sources", json_array());
	json_array_foreach(rows, i, row)
	{
		struct heartbeat beat = read_heartbeat(q, json_object_get(row, "report"));
		bool is_here = is_alive(row, beat.is_there);

		alive += is_here;
		storing += is_here && !*beat.trouble;
		json_array_append_new(all, describe_listener(row, is_here));
		judge_listener(r, row, is_here);
		if (!is_here)
			continue;
		if (*beat.trouble)
			note(r, FLEET_DEGRADED, "%s cannot store: %s", text_of(row, "name"), beat.trouble);
		add_sources(r, row);
		judge_webhooks(r, row);
		add_settings(settings, row);
	}
	if (rows && !alive)
		note(r, FLEET_DOWN, "no listener is running");
	else if (rows && !storing)
		note(r, FLEET_DOWN, "no listener can store");
	json_object_set_new(r->state, "listeners", all);
	json_object_set_new(r->state, "hour", fleet_hour_sum(rows));
	json_object_set_new(r->state, "differing_settings", keep_differing(settings));
}

json_t *fleet_state_read(const struct config *config, enum fleet_health *health)
{
	static const char *const names[] = {"ok", "degraded", "down"};
	struct reading r = {config, json_object(), json_array(), FLEET_FINE};
	char now[TIMESTAMP_SIZE];
	json_t *rows = ask_postgres(&r);
	struct redis_query *q = ask_redis(&r);

	read_listeners(&r, rows, q);
	redis_query_close(q);
	json_decref(rows);
	json_object_set_new(r.state, "status", json_string(names[r.health]));
	json_object_set_new(r.state, "at", json_string(timestamp_print(clock_us(CLOCK_REALTIME), now)));
	json_object_set_new(r.state, "problems", r.problems);
	*health = r.health;
	return r.state;
}
