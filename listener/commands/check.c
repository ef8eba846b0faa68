/* check.c owns `wsonce check`: it tests everything that a listener with these settings needs. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <inttypes.h>
#include <stdio.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "commands/table.h"
#include "net/acceptor.h"
#include "commands/try.h"
#include "commands/findings.h"
#include "commands/json_out.h"
#include "commands/redis_query.h"
#include "commands/session.h"
#include "check_effects.sql.h"
#include "check_handler.sql.h"
#include "check_schema.sql.h"
#include "check_server.sql.h"
#include "check_tables.sql.h"
#include "foreign.lua.h"
#include "hazards.sql.h"
#include "inspect.sql.h"
#include "postgres/schema.h"
#include "redis/rights.h"
#include "claim/done_channel.h"
#include "fleet/presence.h"
#include "spool/segment.h"
#include "store/checkin.h"
#include "store/store.h"

#define OTHER_FILES  128
#define LOOK_S       5
#define YEAR_2000_US 946684800000000
#define ALL_MS       60000 /* after this time, no further feed is tried */

/* --- Postgres --- */

/* Rows of sql/queries/check_*.sql. */
static void take_findings(struct findings *f, const char *what, struct pg_result *rows)
{
	if (!rows)
		finding(f, FINDING_WRONG, what, "%s", dispatch_failure());
	for (size_t i = 0; rows && i < session_count(rows); i++)
		finding(f, (enum finding)session_number(rows, i, 0), session_text(rows, i, 1), "%s",
			session_text(rows, i, 2));
	session_drop(rows);
}

/* A listener refuses to start if late copies of deleted rows could be stored again. */
static void check_retention(struct findings *f, const struct config *c, struct session *s)
{
	static const char ask[] = "SELECT rows_deleted_s FROM :schema.wsonce_retention";
	AUTO_ROWS *rows = session_query(s, ask, "SELECT rows_deleted_s FROM wsonce_retention", "");
	const struct checkin n = {.config = c};
	const char *why = rows && session_count(rows) ? checkin_read(&n, session_text(rows, 0, 0)) : NULL;

	if (why)
		finding(f, FINDING_WRONG, "max age", "%s", why);
}

/* Sets database to the id of the database. It is "-" until it has one, and "" if it cannot be read. */
static void read_database(struct session *s, char database[40])
{
	AUTO_ROWS *id =
		s ? session_query(s, "SELECT id FROM :schema.wsonce_database", "SELECT id FROM wsonce_database", "")
		  : NULL;

	if (!id || session_count(id))
		snprintf(database, 40, "%s", id ? session_text(id, 0, 0) : "");
}

static void check_postgres(struct findings *f, const struct config *c, char database[40])
{
	static const char server[] = "WITH found (hazards) AS (" SQL_HAZARDS ") " SQL_CHECK_SERVER;
	static const char tables[] = "WITH seen (name, is_ours, fault, warning, lock_ms, statement_ms, is_read_only,"
				     " is_partitioned, is_changed) AS (" SQL_INSPECT ") " SQL_CHECK_TABLES;
	static const char handler[] = "WITH seen (said) AS (" SQL_CHECK_EFFECTS ") " SQL_CHECK_HANDLER;
	struct session *s = session_open(c, SESSION_LOOK);
	struct pg_result *found;

	if (!s) {
		finding(f, FINDING_WRONG, "postgres", "%s", dispatch_failure());
		*database = '\0';
		return;
	}
	found = session_query(s, tables, NULL, "s", store_tables(c));
	take_findings(f, "postgres", session_query(s, server, NULL, "n", clock_ms(CLOCK_REALTIME)));
	if (found && session_flag(found, 0, 3)) {
		take_findings(f, "schema", session_query(s, SQL_CHECK_SCHEMA, NULL, "n", (int64_t)schema_version()));
		check_retention(f, c, s);
		read_database(s, database);
	}
	take_findings(f, "tables", found);
	if (c->handler)
		take_findings(f, "handler", session_query(s, handler, NULL, "s", c->handler));
	session_close(s);
}

/* --- an SQLite file --- */

/* Checks if a listener may create the file in its folder. */
static void check_folder(struct findings *f, const char *what, const char *path)
{
	AUTO_FREE char *copy = memory_strdup(path);
	const char *folder = dirname(copy);

	if (access(folder, W_OK | X_OK))
		finding(f, FINDING_WRONG, what, "%s: %s: make this folder for the user of the listener", folder,
			strerror(errno));
	else
		finding(f, FINDING_OK, what, "%s is not there yet: the first listener creates it", path);
}

static void check_file(struct findings *f, const struct config *c, const char *path, char database[40])
{
	struct session *s = session_open(c, SESSION_READ);
	AUTO_ROWS *rows = s ? session_query(s, NULL, "SELECT sqlite_version()", "") : NULL;

	if (!rows)
		finding(f, FINDING_WRONG, "sqlite", "%s", dispatch_failure());
	else if (access(path, W_OK))
		finding(f, FINDING_WRONG, "sqlite", "%s cannot be written: %s", path, strerror(errno));
	else
		finding(f, FINDING_OK, "sqlite", "%s, SQLite %s", path, session_text(rows, 0, 0));
	if (rows)
		check_retention(f, c, s);
	read_database(s, database);
	session_close(s);
}

/* --- the spool --- */

/* True if a process has the lock. A listener that starts during this check would be refused. */
static bool is_locked(const char *dir)
{
	AUTO_FREE char *path = memory_printf("%s/" SEGMENT_LOCK, dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return is_locked;
}

/* Returns why a spool on this kind of file system may lose events; NULL: it does not. */
static const char *doubt_disk(unsigned int magic)
{
	switch (magic) {
	case NFS_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
		return "on a network file system, which fails with the network: use a local disk";
	case TMPFS_MAGIC:
		return "in memory: use a disk";
	case OVERLAYFS_SUPER_MAGIC:
		return "in the container, and goes with it: mount a volume";
	}
	return NULL;
}

/* Warns of the disk that the spool is on, or will be on. */
static void check_disk(struct findings *f, const struct config *c)
{
	AUTO_FREE char *copy = memory_strdup(c->spool);
	struct statfs disk;

	if (statfs(c->spool, &disk) && statfs(dirname(copy), &disk))
		return;
	const char *doubt = doubt_disk((unsigned int)disk.f_type);
	double free_bytes = (double)disk.f_bavail * (double)disk.f_bsize;

	if (doubt)
		finding(f, FINDING_WARNING, "spool", "%s is %s", c->spool, doubt);
	if (free_bytes < (double)c->spool_bytes)
		finding(f, FINDING_WARNING, "spool", "%.1f GiB are free on its disk, and --spool-max is %.1f GiB",
			free_bytes / (1 << 30), (double)c->spool_bytes / (1 << 30));
}

static void check_directory(struct findings *f, const struct config *c, const struct stat *seen)
{
	mode_t mode = seen->st_mode;

	if (!S_ISDIR(mode) || access(c->spool, R_OK | W_OK | X_OK))
		finding(f, FINDING_WRONG, "spool", "%s cannot be used: %s", c->spool,
			strerror(S_ISDIR(mode) ? errno : ENOTDIR));
	else if (is_locked(c->spool))
		finding(f, FINDING_WARNING, "spool", "%s is in use: fine if that is the running listener", c->spool);
	else if (seen->st_uid && seen->st_uid != geteuid())
		finding(f, geteuid() ? FINDING_WRONG : FINDING_WARNING, "spool", "%s belongs to another user%s",
			c->spool, geteuid() ? ": make one of your own" : ": fine if that is the listener's user");
	else
		finding(f, FINDING_OK, "spool", "%s can be written", c->spool);
	if (mode & (S_IWGRP | S_IWOTH))
		finding(f, FINDING_WARNING, "spool", "%s has mode %03o: other users may change it; chmod 700 %s",
			c->spool, (unsigned int)mode & 0777, c->spool);
}

static void check_spool(struct findings *f, const struct config *c)
{
	struct stat seen;

	if (!c->spool)
		return;
	if (stat(c->spool, &seen) == 0)
		check_directory(f, c, &seen);
	else
		check_folder(f, "spool", c->spool);
	check_disk(f, c);
}

/* --- Redis --- */

static void judge_info(struct findings *f, const json_t *info)
{
	const char *version = member_text(info, "redis_version"), *role = member_text(info, "role"),
		   *policy = member_text(info, "maxmemory_policy");

	if (!*version) {
		finding(f, FINDING_WARNING, "redis", "unknown version: the user may not run INFO (ACL +info)");
		return;
	}
	if (strtol(version, NULL, 10) < 7)
		finding(f, FINDING_WRONG, "redis", "%s is too old: claims need Redis 7.0 or later, or Valkey", version);
	else if (strcmp(role, "slave") == 0)
		finding(f, FINDING_WRONG, "redis", "%s is a replica: connect to the master", version);
	else
		finding(f, FINDING_OK, "redis", "%s %s%s", version, role,
			strcmp(member_text(info, "aof_enabled"), "1") == 0
				? "; append-only file on, which wsonce does not need"
				: "");
	if (strcmp(policy, "noeviction") == 0)
		finding(f, FINDING_OK, "eviction", "%s", policy);
	else
		finding(f, FINDING_WARNING, "eviction",
			"%s may drop claims at work, so that work is done twice: set maxmemory-policy noeviction",
			policy);
}

/* --- the rights of Redis's user --- */

#define TRY_KEY "wsonce-check"
#define TEXT    500

/* The commands of listeners. % stands for a key or a channel that begins with pattern, for which an ACL may have a rule
 * of its own. Scripts that do nothing name the other keys: Redis checks access to them and nothing is written.
 * SUBSCRIBE comes last, because the connection then accepts no other command. */
static const struct {
	const char *pattern; /* NULL: --claim-prefix */
	const char *commands;
} tries[] = {
	{NULL,
	 "SET % check NX GET EX 5;GET %;EXPIRE % 5;PEXPIRE % 5000;DEL %;HSET % check 1;HGET % check;HGETALL %;DEL %;"
	 "TIME;CLIENT ID;CLIENT LIST ID 1;EVAL return 1 %;PING"},
	{"wsonce:lease:", "EVAL return 1 %"},
	{PRESENCE_KEY_PREFIX, "EVAL return 1 %"},
	{DONE_CHANNEL_PREFIX, "PUBLISH % check;SUBSCRIBE %"},
};

struct rights {
	struct redis_query *redis;
	char missing[TEXT]; /* rights, as ACL SETUSER takes them, each after a blank */
	char trouble[TEXT]; /* an error that is not about rights; "": none */
};

static void note_missing(struct rights *r, const char *sign, const char *right, const char *rest)
{
	char one[200];
	size_t len = strlen(r->missing), n = (size_t)snprintf(one, sizeof(one), " %s%.180s%s", sign, right, rest);
	const char *known = strstr(r->missing, one);

	if ((!known || (known[n] && known[n] != ' ')) && len + n < sizeof(r->missing))
		memcpy(r->missing + len, one, n + 1);
}

/* Sends a command, with key in place of %. pattern is the prefix of the key. */
static void attempt(struct rights *r, const char *command, const char *key, const char *pattern)
{
	char *copy = memory_strdup(command), *rest = copy, text[TEXT], right[60];
	const char *words[8];
	size_t n = 0;

	while (n < 8 && (words[n] = strsep(&rest, " "))) {
		if (strcmp(words[n], "%") == 0)
			words[n] = key;
		n++;
	}
	if (redis_query_command(r->redis, words, n, text, sizeof(text))) {
		if (!rights_read(text, right, sizeof(right)))
			snprintf(r->trouble, TEXT, "%s: %.400s", words[0], *text ? text : "no answer");
		else if (*right == '~' || *right == '&')
			note_missing(r, right, pattern, "*");
		else
			note_missing(r, "+", right, "");
	}
	free(copy);
}

/* Sends commands that are separated by semicolons. */
static void attempt_each(struct rights *r, const char *commands, const char *pattern)
{
	char *copy = memory_strdup(commands), *rest = copy, *key = memory_printf("%s" TRY_KEY, pattern);

	for (const char *one; (one = strsep(&rest, ";"));)
		attempt(r, one, key, pattern);
	free(key);
	free(copy);
}

static void check_rights(struct findings *f, const struct config *c, struct redis_query *q)
{
	struct rights r = {.redis = q};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		attempt_each(&r, tries[i].commands, tries[i].pattern ? tries[i].pattern : c->claim_prefix);
	if (*r.missing)
		finding(f, FINDING_WRONG, "redis rights",
			"the user lacks%s: grant them with ACL SETUSER (docs/security.md)", r.missing);
	else if (*r.trouble)
		finding(f, FINDING_WRONG, "redis rights", "%s", r.trouble);
	else
		finding(f, FINDING_OK, "redis rights",
			"the user may run every command, on every key and channel that listeners use");
}

/* A listener of another database ends where listeners use its prefix. */
static void check_prefix(struct findings *f, const struct config *c, struct redis_query *q, const char *database)
{
	AUTO_FREE char *key = memory_printf(PRESENCE_KEY_PREFIX "%s", c->claim_prefix);
	const char *const words[] = {"EVAL", LUA_FOREIGN, "1", key, database, PRESENCE_ALIVE_MS};
	char other[TEXT] = "";

	if (*database && redis_query_command(q, words, 6, other, sizeof(other)) == 0 && *other)
		finding(f, FINDING_WRONG, "claim prefix",
			"the listeners of another database, with the id %.40s, use %s in this Redis: choose another "
			"--claim-prefix",
			other, c->claim_prefix);
}

static void check_redis(struct findings *f, const struct config *c, const char *database)
{
	struct redis_query *q;
	json_t *info;

	if (strcmp(c->redis, "none") == 0) {
		finding(f, FINDING_OK, "redis", "none: only the unique key finds duplicates");
		return;
	}
	q = redis_query_open(c);
	if (!q) {
		finding(f, FINDING_WRONG, "redis", "cannot be used: %s; see --redis", redis_query_failure());
		return;
	}
	info = redis_query_info(q);
	judge_info(f, info);
	check_prefix(f, c, q, database);
	check_rights(f, c, q); /* last: it subscribes */
	json_decref(info);
	redis_query_close(q);
}

static void check_files(struct findings *f, const struct config *c)
{
	rlim_t needed = OTHER_FILES + (rlim_t)(c->ingest ? c->ingest_connections : 0);
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	if (files.rlim_max < needed)
		finding(f, FINDING_WARNING, "open files",
			"%llu are allowed, %llu may be needed: raise the hard limit "
			"(ulimit -Hn), or lower --ingest-max-connections",
			(unsigned long long)files.rlim_max, (unsigned long long)needed);
	else
		finding(f, FINDING_OK, "open files", "%llu are allowed", (unsigned long long)files.rlim_max);
}

/* --- feeds --- */

/* Prints why nothing more is known about a feed: no connection, a connection that ended, or no message. False: there is
 * more to say. */
static bool tell_failure(struct findings *f, const struct try_seen *seen, const char *name)
{
	if (!seen->connects)
		finding(f, FINDING_WRONG, "feed", "%s cannot be connected to: %s", name,
			*seen->error ? seen->error : "no answer within 5 s");
	else if (seen->is_stopped)
		finding(f, FINDING_WRONG, "feed", "%s refused to go on: %s", name, seen->error);
	else if (!seen->messages && *seen->error)
		finding(f, FINDING_WARNING, "feed", "connected to %s, and then: %s", name, seen->error);
	else if (!seen->messages)
		finding(f, FINDING_OK, "feed", "connected to %s; it sent nothing within 5 s", name);
	else
		return false;
	return true;
}

static const char *find_hint(const struct profile *p, const char *why)
{
	if (strstr(why, "--max-message"))
		return "allow more";
	if (!p->redacted_url)
		return strstr(why, " rejects it") ? "wsonce try shows it" : "the profile may not fit";
	return strncmp(why, "no time: ", 9) == 0 || strncmp(why, "stale: ", 7) == 0
		       ? "--time-pointer or --time-unit may not fit, or it needs a profile"
		       : "--id-pointer may not fit, or it needs a profile";
}

static bool needs_types(const struct config *c)
{
	size_t i = 0;

	while (i < c->webhooks.count && !c->webhooks.items[i].type_count)
		i++;
	return i < c->webhooks.count || strcmp(c->type_pointer, "/event_type") != 0;
}

static void tell_messages(struct findings *f, const struct config *c, const struct profile *p,
			  const struct try_seen *seen, const char *name)
{
	if (*seen->rejected)
		finding(f, FINDING_WARNING, "feed", "%s sent a message that would be a dead letter: %s: %s", name,
			seen->rejected, find_hint(p, seen->rejected));
	else if (seen->repeated)
		finding(f, FINDING_WARNING, "feed",
			"%s sent two events with one id, of which only the first would be stored: --id-pointer may not "
			"fit",
			name);
	else if (p->redacted_url && c->time_pointer && seen->time_us && seen->time_us < YEAR_2000_US)
		finding(f, FINDING_WARNING, "feed",
			"%s sent an event from before the year 2000: --time-unit may not fit", name);
	else if (p->redacted_url && c->time_pointer && !seen->time_us)
		finding(f, FINDING_WARNING, "feed",
			"%s sent an event whose time cannot be read, so it would be stored without event_time: "
			"--time-pointer or --time-unit may not fit",
			name);
	else if (seen->events && !seen->has_payload)
		finding(f, FINDING_WARNING, "feed",
			"%s sent an event without a payload, so {} would be stored: %s may not fit", name,
			p->redacted_url ? "--payload-pointer" : "the profile");
	else if (seen->events && p->redacted_url && !seen->has_type && needs_types(c))
		finding(f, FINDING_WARNING, "feed",
			"%s sent an event without a type, so '' would be stored: --type-pointer may not fit", name);
	else if (seen->events && seen->events == seen->messages)
		finding(f, FINDING_OK, "feed", "connected to %s; its first message is an event", name);
	else
		finding(f, FINDING_OK, "feed", "connected to %s; %s among its first %" PRIu64 " messages", name,
			seen->events ? "an event is" : "no event is", seen->messages);
}

static void look_at_feed(struct findings *f, const struct config *c, const struct profile *p, const char *name)
{
	struct try_seen seen;

	if (try_look(c, p, LOOK_S, &seen))
		finding(f, FINDING_WRONG, "feed", "%s cannot be tried: %s", name, seen.error);
	else if (!tell_failure(f, &seen, name))
		tell_messages(f, c, p, &seen, name);
}

static void check_profile(struct findings *f, const struct config *c, const struct profile *p)
{
	const json_t *list = json_object_get(p->vars, p->shard.var);

	if (p->shard.http && !json_is_string(list) && !json_array_size(list))
		finding(f, FINDING_WARNING, "feed",
			"%s was not tried: its list comes by HTTP, which only a listener asks for; give vars one, too",
			p->name);
	else if (p->fleet != FLEET_SHARED && p->fleet != FLEET_EXCLUSIVE)
		look_at_feed(f, c, p, p->name);
	else
		finding(f, FINDING_OK, "feed",
			"%s was not tried, since that would take events from the fleet: use wsonce try", p->name);
}

static void check_source(struct findings *f, const struct config *c, size_t i)
{
	struct profile *p = profile_of_url(config_source_url(c, i), "source", "source", c->idle_timeout_s);
	AUTO_FREE char *own = config_source_name(c, i), *name = memory_printf("%s (%s)", own, p->redacted_url);

	look_at_feed(f, c, p, name);
	profile_free(p);
}

/* Checks feeds one by one. A feed that is quiet or does not answer takes five seconds, and there may be a thousand. */
static void check_feeds(struct findings *f, const struct config *c)
{
	int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + ALL_MS;
	size_t i = 0, n = c->sources.count + c->feed_count;

	if (c->sources.count && !c->idle_timeout_s)
		finding(f, FINDING_WARNING, "idle timeout",
			"none: a source that stays open and brings nothing is noticed only if another listener hears "
			"it; set --idle-timeout");
	for (; i < n && clock_ms(CLOCK_MONOTONIC) < until_ms; i++) {
		if (i < c->sources.count)
			check_source(f, c, i);
		else
			check_profile(f, c, c->feeds[i - c->sources.count]);
	}
	if (i < n)
		finding(f, FINDING_WARNING, "feed", "%zu more were not tried, because the others took a minute", n - i);
}

/* --- ports --- */

/* Skips unix: addresses: binding one would replace a socket that is in use. */
static void check_door(struct findings *f, const char *flag, const char *address)
{
	int fd = address && strncmp(address, "unix:", 5) != 0 ? bound_socket(address) : -1;

	if (!address || (fd < 0 && strncmp(address, "unix:", 5) == 0))
		return;
	if (fd < 0 && errno == EADDRINUSE)
		finding(f, FINDING_WARNING, flag, "%s is in use: fine if that is the running listener", address);
	else if (fd < 0)
		finding(f, FINDING_WRONG, flag, "%s cannot be listened on: %s", address, bound_socket_error(errno));
	else
		finding(f, FINDING_OK, flag, "%s can be listened on", address);
	if (fd >= 0)
		close(fd);
}

static void check_doors(struct findings *f, const struct config *c)
{
	check_door(f, "ingest", c->ingest);
	check_door(f, "ingest-http", c->ingest_http);
	check_door(f, "admin", c->admin);
}

int check_all(const struct config *config, bool is_json)
{
	const char *path = config_store_path(config);
	struct json_out out = {.has_member = false};
	struct findings f = {.json = is_json ? &out : NULL};
	char database[40] = "-";

	dispatch_hush(true); /* the findings have the reasons */
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0); /* show each finding at once: the next one may take seconds */
	if (is_json) {
		json_out_open(&out);
		json_out_list(&out, "findings");
	}
	findings_of_settings(&f, config);
	check_files(&f, config);
	if (path && access(path, F_OK))
		check_folder(&f, "sqlite", path);
	else if (path)
		check_file(&f, config, path, database);
	else
		check_postgres(&f, config, database);
	check_redis(&f, config, database);
	check_spool(&f, config);
	check_doors(&f, config);
	check_feeds(&f, config);
	return findings_status(&f);
}

int check_command(const struct invocation *in)
{
	return check_all(in->config, in->options->is_json);
}
