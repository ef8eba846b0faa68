/* fleet_state.c collects the state of the fleet: Postgres has the reports of listeners (ops/report.c), Redis has their
 * heartbeats (fleet/presence.c). It decides what is a problem; status.c prints. */
#include "commands/fleet_state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "commands/dispatch.h"
#include "commands/json_out.h"
#include "commands/redis_query.h"
#include "commands/session.h"
#include "postgres/schema.h"
#include "fleet/presence.h"
#include "hazards.sql.h"
#include "holder.sql.h"
#include "sqlite_status.sql.h"
#include "status.sql.h"
#include "unknown.lua.h"

#define CHECKIN_LATE_S 150   /* a check-in is due each minute, and one may be late */
#define LOST_S         600   /* a listener that vanished is a problem for this long */
#define CRASHES        3     /* so is one that came back, if it vanished so often in that time */
#define SOURCES_NAMED  10    /* sources of a listener whose problems are told one by one */
#define DISK_LEAST     65536 /* free bytes that an SQLite file needs */

struct reading {
	const struct config *config;
	json_t *state;
	json_t *problems;
	json_t *read; /* its keys are the sources that a listener reads, or tries to read */
	enum fleet_health health;
};

/* --- problems --- */

__attribute__((format(printf, 3, 4))) static void note(struct reading *r, enum fleet_health health, const char *format,
						       ...)
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

/* --- Postgres, or a file --- */

static double ms_since(int64_t us)
{
	return (double)(clock_us(CLOCK_MONOTONIC) - us) / 1000;
}

static void take_part(void *arg, const char *name, const struct pg_result *rows, const char *why)
{
	struct reading *r = arg;
	json_auto_t *found = rows ? json_loads(session_text(rows, 0, 0), 0, NULL) : NULL;

	if (!found)
		note(r, strcmp(name, "server") == 0 ? FLEET_DOWN : FLEET_DEGRADED, "cannot read %s: %s", name,
		     rows ? "the database returned no valid JSON" : why);
	json_object_update_recursive(r->state, found);
}

static void judge_server(struct reading *r, const json_t *server)
{
	const char *path = config_store_path(r->config);
	struct statvfs disk;

	if (*member_text(server, "holder"))
		note(r, FLEET_DEGRADED, "%s", member_text(server, "holder"));
	if (*member_text(r->state, "effects"))
		note(r, FLEET_DEGRADED, "%s", member_text(r->state, "effects"));
	json_object_del(r->state, "effects");
	if (json_is_true(json_object_get(server, "is_read_only")))
		note(r, FLEET_DOWN, "postgres is read-only (%s)", member_text(server, "role"));
	if (!path && json_is_true(json_object_get(server, "is_up")) &&
	    member_number(server, "schema_version") != schema_version())
		note(r, FLEET_DEGRADED, "the schema has version %lld, this program knows %d",
		     (long long)member_number(server, "schema_version"), schema_version());
	/* A file on a full disk can still be read. */
	if (path && statvfs(path, &disk) == 0 && disk.f_bavail * disk.f_frsize < DISK_LEAST)
		note(r, FLEET_DOWN, "the disk of %s is full", path);
}

static void judge_targets(struct reading *r)
{
	int64_t limit_s = r->config->unsettled_warning_s;
	json_t *target;
	size_t i;

	json_array_foreach(json_object_get(r->state, "paused_webhooks"), i, target)
		note(r, FLEET_DEGRADED, "webhook %s has been paused since %s: %s", member_text(target, "name"),
		     member_text(target, "since"), member_text(target, "reason"));
	json_array_foreach(json_object_get(r->state, "targets"), i,
			   target) if (limit_s && member_number(target, "oldest_s") > limit_s)
		note(r, FLEET_DEGRADED, "webhook %s has a delivery that has been pending for %lld s",
		     member_text(target, "target"), (long long)member_number(target, "oldest_s"));
}

static void ask_store(struct reading *r)
{
	static const char of_postgres[] =
		SQL_STATUS "-- part hazards\nSELECT pg_catalog.json_build_object('postgres', "
			   "pg_catalog.json_build_object('hazards', nullif((" SQL_HAZARDS "), '')))\n"
			   "-- part holder\nSELECT pg_catalog.json_build_object('postgres', "
			   "pg_catalog.json_build_object('holder', (SELECT sentence FROM (" SQL_HOLDER
			   ") AS h WHERE NOT is_of_rows)))\n";
	json_t *server = json_object_get(r->state, "postgres");
	struct session *s;
	int64_t began;
	char why[400];

	dispatch_hush(true); /* the state has the reason */
	s = session_open(r->config, SESSION_READ);
	dispatch_hush(false);
	if (config_store_path(r->config))
		json_object_set_new(server, "role", json_string("file"));
	if (!s) {
		note(r, FLEET_DOWN, "%s", dispatch_failure());
		return;
	}
	began = clock_us(CLOCK_MONOTONIC);
	session_drop(session_try(s, "SELECT 1", 0, NULL, why, sizeof(why)));
	json_object_set_new(server, "latency_ms", json_real(ms_since(began)));
	session_each_part(s, session_is_file(s) ? SQL_SQLITE_STATUS : of_postgres, "-- part ", 0, NULL, take_part, r);
	session_close(s);
	json_object_set_new(server, "is_up", json_boolean(*member_text(server, "version")));
	judge_server(r, server);
	judge_targets(r);
}

/* --- Redis --- */

/* Returns NULL if Redis cannot be asked for heartbeats. */
static struct redis_query *ask_redis(struct reading *r)
{
	static const char *const ping[] = {"PING"};
	static const char *const fields[] = {"redis_version", "role", "maxmemory_policy", "used_memory_human",
					     "aof_enabled"};
	bool is_used = strcmp(r->config->redis, "none") != 0;
	struct redis_query *q = is_used ? redis_query_open(r->config) : NULL;
	json_t *redis = is_used ? json_pack("{s:b}", "is_up", q != NULL) : json_null(), *info;
	int64_t began = clock_us(CLOCK_MONOTONIC);
	char text[100];

	json_object_set_new(r->state, "redis", redis);
	if (is_used && !q) {
		AUTO_FREE char *url = url_redact(r->config->redis);

		note(r, FLEET_DEGRADED, "redis cannot be used from here: %s (%s)", redis_query_failure(), url);
	}
	if (!q)
		return NULL;
	redis_query_command(q, ping, 1, text, sizeof(text));
	json_object_set_new(redis, "latency_ms", json_real(ms_since(began)));
	info = redis_query_info(q);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		json_t *value = json_object_get(info, fields[i]);

		json_object_set(redis, i ? fields[i] : "version", value ? value : json_null());
	}
	json_decref(info);
	if (strcmp(member_text(redis, "role"), "slave") == 0)
		note(r, FLEET_DEGRADED, "redis is a replica: claims are refused");
	return q;
}

#define SAID_MAX (1 << 20) /* bytes of a listener's report: 21 for each source */

/* What a listener has reported to Redis. */
struct heartbeat {
	int is_there;         /* -1: unknown */
	char trouble[300];    /* why it cannot store, or "" */
	struct roster roster; /* contains its report on its sources */
};

static void read_heartbeat(struct heartbeat *beat, struct redis_query *q, const char *prefix, const json_t *report)
{
	AUTO_FREE char *key = memory_printf(PRESENCE_KEY_PREFIX "%s", prefix), *said = memory_calloc(1, SAID_MAX);
	const char *owner = member_text(report, "owner"), *trouble, *text;
	const char *const get[] = {"HGET", key, owner};

	*beat = (struct heartbeat){.is_there = -1};
	if (q && !session_is_late() && *owner && strcmp(member_text(report, "redis"), "none") != 0 &&
	    redis_query_command(q, get, 3, said, SAID_MAX) == 0)
		beat->is_there = *said != '\0';
	text = said + strcspn(said, " "); /* skip the time */
	text += *text == ' ';
	trouble = strchr(text, '\n');
	roster_note(&beat->roster, owner, strlen(owner), text, strlen(text), 0);
	snprintf(beat->trouble, sizeof(beat->trouble), "%s",
		 beat->is_there < 1 ? member_text(report, "trouble")
		 : trouble          ? trouble + 1
				    : "");
}

/* --- listeners --- */

/* Without a heartbeat, a listener that reached Redis is dead. For others the last check-in decides. */
static bool is_alive(const json_t *row, int heartbeat)
{
	const char *redis = member_text(json_object_get(row, "report"), "redis");

	if (heartbeat == 1)
		return true;
	return member_number(row, "checkin_s") <= CHECKIN_LATE_S && (heartbeat < 0 || strcmp(redis, "up") != 0);
}

/* Adds the problems of a listener that is alive. */
static void judge_listener(struct reading *r, const json_t *row, const struct heartbeat *beat)
{
	static const char *const said[] = {"slow", "rejected", "spool", "holder"};
	const json_t *report = json_object_get(row, "report");
	const char *name = member_text(row, "name"), *redis = member_text(report, "redis");
	json_t *webhook;
	size_t i;

	if (*beat->trouble)
		note(r, FLEET_DEGRADED, "%s cannot store: %s", name, beat->trouble);
	if (*member_text(report, "deliveries"))
		note(r, FLEET_DEGRADED, "%s: deliveries to webhooks wait: %s", name, member_text(report, "deliveries"));
	json_array_foreach(json_object_get(report, "webhooks_trouble"), i, webhook)
		note(r, FLEET_DEGRADED, "%s: %s", name, json_string_value(webhook));
	if (member_number(row, "checkin_s") > CHECKIN_LATE_S)
		note(r, FLEET_DEGRADED, "%s has not checked in for %lld s", name,
		     (long long)member_number(row, "checkin_s"));
	if (*redis && strcmp(redis, "up") != 0 && strcmp(redis, "none") != 0 &&
	    (beat->is_there < 1 || strcmp(redis, "down") != 0))
		note(r, FLEET_DEGRADED, "%s: redis %s", name,
		     strcmp(redis, "down") == 0      ? "is down"
		     : strcmp(redis, "foreign") == 0 ? "is not used, because another database has the claim prefix"
						     : "does not take every command; the log says why");
	if (json_is_true(json_object_get(report, "is_paused")))
		note(r, FLEET_DEGRADED, "%s does not read: it has reached its memory limit", name);
	for (i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		if (*member_text(report, said[i]))
			note(r, FLEET_DEGRADED, "%s: %s", name, member_text(report, said[i]));
	if (r->config->unsettled_warning_s &&
	    member_number(report, "oldest_ms") > r->config->unsettled_warning_s * 1000)
		note(r, FLEET_DEGRADED, "%s has an event that has been unsettled for %lld s", name,
		     (long long)member_number(report, "oldest_ms") / 1000);
}

/* Corrects the state of a source by the heartbeat, if the listener cannot store and so cannot check in. Sets the
 * seconds since the last message with data: as the listener says now, or else by its last check-in. */
static void bring_up_to_date(struct reading *r, json_t *source, struct heartbeat *beat, int64_t checkin_s)
{
	const struct peer *peer = roster_peer(&beat->roster, 1);
	uint64_t id = (uint64_t)member_number(source, "id");
	const struct heard *now = peer && id ? roster_source(peer, id) : NULL;
	bool was_open = strcmp(member_text(source, "state"), "open") == 0;

	json_object_del(source, "id");
	if (*beat->trouble && now && (was_open ? now->is_failing && !now->is_open : now->is_open)) {
		json_object_set_new(source, "state", json_string(was_open ? "down" : "open"));
		json_object_set_new(source, "is_ready", json_boolean(!was_open));
		json_object_del(source, "error");
	}
	if ((now && now->is_open) || strcmp(member_text(source, "state"), "standby") != 0)
		json_object_set_new(r->read, member_text(source, "name"), json_true());
	if (now && now->is_dialled && now->quiet_ms < ROSTER_QUIET_MOST_MS)
		json_object_set_new(source, "silent_s", json_integer((json_int_t)now->quiet_ms / 1000));
	else if (json_object_get(source, "silent_s"))
		json_object_set_new(source, "silent_s",
				    json_integer((json_int_t)(member_number(source, "silent_s") + checkin_s)));
}

static void add_sources(struct reading *r, const json_t *row, struct heartbeat *beat)
{
	const json_t *report = json_object_get(row, "report");
	json_t *all = json_object_get(r->state, "sources"), *source;
	size_t i, troubled = 0;

	json_array_foreach(json_object_get(report, "sources"), i, source)
	{
		size_t told = json_array_size(r->problems);

		json_object_set_new(source, "listener", json_string(member_text(row, "name")));
		json_object_set_new(source, "messages_per_s",
				    json_real((double)member_number(source, "messages") * 1000 /
					      (double)(member_number(report, "period_ms") + 1)));
		bring_up_to_date(r, source, beat, member_number(row, "checkin_s"));
		if (member_number(source, "barren"))
			note(r, FLEET_DEGRADED, "%s: source %s: the last %lld messages became dead letters",
			     member_text(row, "name"), member_text(source, "name"),
			     (long long)member_number(source, "barren"));
		if (member_number(source, "strange"))
			note(r, FLEET_DEGRADED, "%s: source %s: %lld messages match no rule, and no event came",
			     member_text(row, "name"), member_text(source, "name"),
			     (long long)member_number(source, "strange"));
		if (json_object_get(source, "heard_by_others"))
			note(r, FLEET_DEGRADED, "%s: source %s is silent, while others have heard %lld messages",
			     member_text(row, "name"), member_text(source, "name"),
			     (long long)member_number(source, "heard_by_others"));
		if (json_object_get(source, "list"))
			note(r, FLEET_DEGRADED, "%s: source %s: its new list is not in use: %s",
			     member_text(row, "name"), member_text(source, "name"), member_text(source, "list"));
		json_object_del(source, "messages");
		json_array_append(all, source);
		if (!json_is_true(json_object_get(source, "is_ready")))
			note(r, FLEET_DEGRADED, "%s: source %s is %s%s%s", member_text(row, "name"),
			     member_text(source, "name"), member_text(source, "state"),
			     *member_text(source, "error") ? ": " : "", member_text(source, "error"));
		troubled += json_array_size(r->problems) > told;
		while (troubled > SOURCES_NAMED && json_array_size(r->problems) > told)
			json_array_remove(r->problems, told);
	}
	if (troubled > SOURCES_NAMED)
		note(r, FLEET_DEGRADED, "%s: %zu more sources have problems", member_text(row, "name"),
		     troubled - SOURCES_NAMED);
}

/* Notes sources that every listener leaves to another, as when a stranger has the lease or claims to read it. */
static void note_unread(struct reading *r)
{
	json_t *source;
	size_t i;

	json_array_foreach(json_object_get(r->state, "sources"), i, source)
	{
		const char *name = member_text(source, "name");

		if (json_object_get(r->read, name))
			continue;
		note(r, FLEET_DEGRADED, "no listener reads source %s: each leaves it to another", name);
		json_object_set_new(r->read, name, json_true());
	}
}

/* Completes a listener from status.sql. */
static void describe_listener(json_t *row, bool is_here)
{
	static const char *const rates[] = {"received_per_s", "stored_per_s", "duplicates_per_s",
					    "dead_lettered_per_s"};

	for (size_t i = 0; !is_here && i < sizeof(rates) / sizeof(rates[0]); i++)
		json_object_set_new(row, rates[i], json_real(0));
	json_object_set_new(row, "is_alive", json_boolean(is_here));
	json_object_del(row, "report");
}

/* Returns true if another listener with the row's name and consumer started after the row's last check-in. Commands do
 * not count. */
static bool has_returned(const json_t *rows, const json_t *row)
{
	const json_t *other;
	size_t i;

	json_array_foreach(rows, i, other)
	{
		if (strcmp(member_text(other, "name"), member_text(row, "name")) == 0 &&
		    strcmp(member_text(other, "consumer"), member_text(row, "consumer")) == 0 &&
		    *member_text(other, "version") &&
		    strcmp(member_text(other, "started"), member_text(row, "seen")) > 0)
			return true;
	}
	return false;
}

static void note_return(struct reading *r, json_t *returned, const char *name)
{
	json_int_t times = member_number(returned, name) + 1;

	json_object_set_new(returned, name, json_integer(times));
	if (times == CRASHES)
		note(r, FLEET_DEGRADED, "%s was killed or crashed %d times or more within ten minutes", name, CRASHES);
}

/* Notes a listener that Redis knows and Postgres does not, or not for an hour, as one with a wrong password. */
static void note_unknown(struct reading *r, struct redis_query *q, const json_t *rows)
{
	const char **words = memory_calloc(4 + json_array_size(rows), sizeof(*words)), *prefix = "";
	AUTO_FREE char *key = NULL;
	char said[400] = "";
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const json_t *report = json_object_get(row, "report");

		words[4 + i] = member_text(report, "owner");
		if (!*prefix && strcmp(member_text(row, "consumer"), r->config->consumer) == 0)
			prefix = member_text(json_object_get(report, "settings"), "claim-prefix");
	}
	key = memory_printf(PRESENCE_KEY_PREFIX "%s", *prefix ? prefix : r->config->claim_prefix);
	memcpy(words, (const char *[]){"EVAL", LUA_UNKNOWN, "1", key}, 4 * sizeof(*words));
	if (q && !session_is_late() && redis_query_command(q, words, 4 + i, said, sizeof(said)) == 0 && *said)
		note(r, FLEET_DEGRADED, "%s", said);
	free(words);
}

static void read_listeners(struct reading *r, struct redis_query *q)
{
	json_t *rows = json_object_get(r->state, "listeners"), *row; /* null: they could not be read */
	struct heartbeat *beat = memory_calloc(1, sizeof(*beat));
	json_auto_t *returned = json_object(); /* how often, by name */
	size_t i, alive = 0, storing = 0;

	if (json_is_array(rows))
		note_unknown(r, q, rows);
	json_array_foreach(rows, i, row)
	{
		const json_t *report = json_object_get(row, "report");
		const char *name = member_text(row, "name"), *consumer = member_text(row, "consumer");
		const char *version = member_text(row, "version"); /* "" if it is a command */
		const char *prefix = member_text(json_object_get(report, "settings"), "claim-prefix");
		AUTO_FREE char *ours = config_claim_prefix(r->config, consumer); /* older builds: none in trouble */
		bool is_here, is_back, is_lost,
			is_asked = !*r->config->consumer || strcmp(consumer, r->config->consumer) == 0;

		read_heartbeat(beat, q, *prefix ? prefix : ours, report);
		/* Without heartbeats, only the youngest listener of a name can be alive. */
		is_back = beat->is_there < 1 && has_returned(rows, row);
		is_here = is_alive(row, beat->is_there) && !is_back;
		alive += is_here && is_asked && *version;
		storing += is_here && is_asked && *version && !*beat->trouble;
		is_lost = !is_here && *version && member_number(row, "checkin_s") < LOST_S;
		if (is_lost && is_back)
			note_return(r, returned, name);
		else if (is_lost)
			note(r, FLEET_DEGRADED, "%s has disappeared: killed, or stopped while Postgres was away%s",
			     name, q ? ", or it uses another redis" : "");
		if (is_here) {
			judge_listener(r, row, beat);
			add_sources(r, row, beat);
		}
		describe_listener(row, is_here);
		roster_free(&beat->roster);
	}
	json_array_foreach(rows, i, row)
	{
		json_object_del(row, "started"); /* only for has_returned() */
		json_object_del(row, "seen");
	}
	free(beat);
	note_unread(r);
	if (q && json_is_array(rows) && session_is_late())
		note(r, FLEET_DEGRADED, "redis answers slowly: some listeners were not looked up");
	if (json_is_array(rows) && !alive)
		note(r, FLEET_DOWN, "no listener is running%s, or none could check in: see their logs",
		     q ? " on this redis" : "");
	else if (json_is_array(rows) && !storing)
		note(r, FLEET_DOWN, "no listener can store");
}

json_t *fleet_state_read(const struct config *config, enum fleet_health *health)
{
	static const char *const names[] = {"ok", "degraded", "down"};
	struct reading r = {config, NULL, json_array(), json_object(), FLEET_FINE};
	struct redis_query *q;
	char now[TIMESTAMP_SIZE];

	r.state = json_pack("{s:{s:b, s:s*}, s:n, s:n, s:n, s:n, s:[], s:[], s:{}}", "postgres", "is_up", 0, "role",
			    config_store_path(config) ? "file" : NULL, "dead_letters", "outbox", "targets", "listeners",
			    "sources", "hour", "differing_settings");
	ask_store(&r);
	q = ask_redis(&r);
	read_listeners(&r, q);
	redis_query_close(q);
	json_decref(r.read);
	if (!json_is_array(json_object_get(r.state, "listeners")))
		json_object_set_new(r.state, "listeners", json_array());
	json_object_set_new(r.state, "status", json_string(names[r.health]));
	json_object_set_new(r.state, "at", json_string(timestamp_print(clock_us(CLOCK_REALTIME), now)));
	json_object_set_new(r.state, "problems", r.problems);
	*health = r.health;
	return r.state;
}
