/* table.c owns what each command takes: arguments, options, settings, and the session that it needs. */
#include "commands/table.h"

#include <assert.h>
#include <string.h>

/* --- options --- */

/* An option of the commands whose names begin with `of` and that have its flag. The first matching row counts. */
struct row {
	const char *of;
	int64_t preset; /* default of a number */
	struct setting option;
};

/* clang-format off */
#define AT(member) offsetof(struct given, member)
#define SWITCH(of, flag, member, meaning) \
	{of, 0, {flag, NULL, {VALUE_SWITCH, 0, 0, NULL}, AT(member), "", NULL, meaning}}
#define TEXT(of, flag, member, value, meaning) \
	{of, 0, {flag, NULL, {VALUE_TEXT, 0, 0, NULL}, AT(member), value, NULL, meaning}}
#define NUMBER(of, flag, member, value, preset, lowest, highest, meaning) \
	{of, preset, {flag, NULL, {VALUE_NUMBER, lowest, highest, NULL}, AT(member), value, NULL, meaning}}
#define RATE(of, flag, member, highest, meaning) \
	{of, 0, {flag, NULL, {VALUE_RATE, 1, highest, NULL}, AT(member), "N/s", NULL, meaning}}
#define SPAN(of, flag, member, value, lowest, meaning) \
	{of, 0, {flag, NULL, {VALUE_SPAN, lowest, 0, NULL}, AT(member), value, NULL, meaning}}
#define MOMENT(of, flag, member, meaning) \
	{of, 0, {flag, NULL, {VALUE_MOMENT, 0, 0, NULL}, AT(member), "TIME", NULL, meaning}}
#define CHOICE(of, flag, member, value, choices, meaning) \
	{of, 0, {flag, NULL, {VALUE_CHOICE, 0, 0, choices}, AT(member), value, NULL, meaning}}
#define OLDER_THAN(flag, table, meaning) SPAN("purge", flag, retention[table].older_than_us, "AGE", 1, meaning)
#define KEEP(flag, table, meaning) \
	NUMBER("purge", flag, retention[table].keep, "N", 0, 0, INT64_MAX, meaning)
/* clang-format on */

static const struct row rows[] = {
	SWITCH("dead-letters show", "json", is_json,
	       "print one JSON object; a message that is not UTF-8 is in raw_base64"),
	SWITCH("try", "json", is_json, "without --frames: print JSON"),
	SWITCH("", "json", is_json, "print one JSON object"),
	SWITCH("config print", "all", is_all, "also settings with their default values"),
	SWITCH("dead-letters reopen", "all", is_all, "all that were discarded"),
	SWITCH("", "all", is_all, "all that are open"),
	SWITCH("listen", "dry-run", is_dry, "check everything that a listener needs, as wsonce check does, and exit"),
	SWITCH("webhooks", "dry-run", is_dry, "only print how many it would queue"),
	SWITCH("purge", "dry-run", is_dry, "only print how many it would remove"),

	MOMENT("dead-letters", "since", since_us,
	       "last seen (a delivery: dead) since TIME: RFC 3339, or an age: 30m, 12h, 7d"),
	MOMENT("dead-letters", "until", until_us, "last seen before TIME"),
	MOMENT("webhooks", "since", since_us, "events stored since TIME: RFC 3339, or an age: 30m, 12h, 7d"),
	MOMENT("webhooks", "until", until_us, "events stored before TIME (now)"),
	MOMENT("export", "since", since_us, "events received since TIME: RFC 3339, or an age: 30m, 12h, 7d"),
	MOMENT("export", "until", until_us, "events received before TIME; default: up to when all are stored"),
	MOMENT("lines", "since", since_us, "minutes from then on: RFC 3339, or an age such as 12h; default: 1h"),
	MOMENT("lines", "until", until_us,
	       "minutes before then; default: up to the last one that all listeners have reported"),
	MOMENT("stats", "since", since_us,
	       "only days (UTC) from this one on: RFC 3339, or an age such as 7d; default: all days"),
	TEXT("dead-letters", "type", type, "TYPE", "only events of this type; dead letters are read by --type-pointer"),
	TEXT("", "type", type, "TYPE", "only events of this type"),
	TEXT("lines", "source", source, "NAME", "only this source"),
	TEXT("", "source", source, "NAME", "only events of this source"),
	TEXT("", "reason", reason, "TEXT", "only those whose reason contains TEXT"),
	TEXT("", "target", target, "NAME", "with --deliveries: only those to this webhook"),
	CHOICE("", "state", state, "STATE", "open resolved all", "open (the default), resolved or all"),
	NUMBER("audit", "limit", limit, "N", 100, 0, INT64_MAX, "print at most N missing ids (100); --json prints all"),
	NUMBER("dead-letters list", "limit", groups, "N", 20, 1, 1000000,
	       "at most N reasons, the most frequent first (20)"),
	NUMBER("", "limit", limit, "N", 0, 1, INT64_MAX, "at most N, the oldest first"),
	NUMBER("", "newest", newest, "N", 20000, 0, 1000000000, "look at the newest N only (20000); 0: at all"),
	SWITCH("dead-letters show", "deliveries", is_deliveries, "ID is that of a webhook delivery"),
	SWITCH("", "deliveries", is_deliveries, "dead deliveries to webhooks, not dead letters"),
	SWITCH("", "pending", is_pending, "with --deliveries and --target: those that wait for this webhook"),

	TEXT("webhooks", "note", note, "TEXT", "why; wsonce webhooks list shows it"),
	TEXT("", "note", note, "TEXT", "keep TEXT with the record of the action"),
	RATE("webhooks", "rate", rate, INT64_C(1000000), "queue at most N in a second"),
	RATE("", "rate", rate, 100000000, "at most N lines a second; by default, as fast as Postgres stores"),
	CHOICE("audit", "format", format, "FORMAT", "ids csv events",
	       "ids, csv (KEY,TIME as in an S3 inventory) or events; default: events if the first line begins with {, "
	       "else ids"),
	CHOICE("", "format", format, "FORMAT", "ndjson", "ndjson: a JSON object in each line"),
	TEXT("profile", "frames", frames, "FILE",
	     "warn of parts that no message of this recording has; -: standard input"),
	TEXT("", "frames", frames, "FILE", "read a recording, not the feed; -: standard input"),

	SWITCH("", "watch", is_watching, "repeat until interrupted"),
	SPAN("", "every", every_us, "TIME", 1, "with --watch: how often; default 2s"),
	TEXT("", "listen", address, "ADDR:PORT", "address to listen on, or unix:/path; default 127.0.0.1:9090"),
	TEXT("", "host", hosts, "NAMES",
	     "host names that browsers may use, besides the address and localhost; separated by commas"),
	TEXT("", "admin-token-file", token_file, "FILE",
	     "allow retry, discard and reopen with one of the tokens in FILE, lines \"name token\"; reloaded when it "
	     "changes"),
	SWITCH("", "open", is_open,
	       "allow an address that is not loopback; everybody who can reach it can read all events and dead "
	       "letters"),
	TEXT("", "layout", layout, "LAYOUT", "plain, or partitioned=N (2 to 1024 hash partitions)"),

	NUMBER("", "examples", examples, "N", 3, 0, 1000, "name the latest N of each reason (3)"),
	TEXT("", "raw-file", raw_file, "FILE", "with --id: feed this edited message instead of the kept one"),
	TEXT("", "id", id, "ID", "the letter that --raw-file replaces"),
	SWITCH("", "raw", is_raw,
	       "print only the message, byte for byte (edit it, then retry --raw-file), or the payload"),
	TEXT("", "event", event, "ID", "only the event with this id"),

	TEXT("", "expected", expected, "FILE|-", "the expected ids or whole events, one per line"),
	SPAN("", "grace", grace_us, "AGE", 0,
	     "leave out events younger than this (12h), by --time-pointer: they may be on their way"),
	SPAN("", "horizon", horizon_us, "AGE", 1,
	     "leave out events older than this (30d), by --time-pointer: their rows may be deleted"),
	SWITCH("", "from-lines", is_from_lines,
	       "leave out events of minutes that wsonce lines calls verified, by --time-pointer"),
	SWITCH("", "resubmit", is_resubmit, "store missing events and retry dead letters; needs whole events"),
	TEXT("", "missing-to", missing_to, "FILE", "write all missing ids to FILE, one per line"),
	TEXT("", "after", after, "POSITION", "go on after the position that an earlier run has printed"),
	SWITCH("", "live", is_live, "also rows among which others may still be stored"),
	SWITCH("", "dead-letters", is_letters, "open dead letters, in the order of their ids"),
	TEXT("", "checkpoint", checkpoint, "FILE", "keep the position in FILE, and go on from it if FILE exists"),

	OLDER_THAN("older-than", PASS_EVENTS, "remove payloads of events stored longer ago than this: 30d, 12h"),
	SWITCH("", "delete-rows", is_deleting, "remove whole rows; only where --max-age guards every listener"),
	OLDER_THAN("dead-letters-older-than", PASS_DEAD_LETTERS,
		   "remove dead letters last seen longer ago than this, unless they are open"),
	KEEP("dead-letters-keep", PASS_DEAD_LETTERS, "keep the N dead letters last seen, and all that are open"),
	OLDER_THAN("outbox-older-than", PASS_OUTBOX,
		   "remove deliveries settled longer ago than this; dead and pending ones stay"),
	KEEP("outbox-keep", PASS_OUTBOX, "keep the N deliveries settled last, and all that are dead"),
	OLDER_THAN("processed-older-than", PASS_PROCESSED,
		   "forget what consumers processed longer ago than this; guarded as --delete-rows"),
	KEEP("processed-keep", PASS_PROCESSED, "keep the N rows processed last; guarded too"),
	OLDER_THAN("actions-older-than", PASS_ACTIONS,
		   "remove older records of operators' actions whose letter or delivery is gone"),
	SWITCH("", "open-too", is_open_too, "also remove open dead letters and dead deliveries"),
	NUMBER("", "batch", batch, "N", 1000, 1, 20000, "rows in one transaction (1000)"),

	TEXT("", "profile", profile, "FILE", "a profile: a file, or the name of a shipped one"),
	TEXT("", "feed", feed, "NAME", "a shipped profile, NAME or NAME?var=value&...; wsonce profile list"),
	TEXT("", "connections", connections, "LINES",
	     "with --frames: the lines with which connections begin, such as 1,9"),
	NUMBER("", "now", now_s, "SECONDS", NOT_GIVEN, 0, INT64_C(1) << 40,
	       "with --frames: the time, in seconds since 1970"),
	NUMBER("try", "seconds", seconds, "S", NOT_GIVEN, 0, 86400,
	       "without --frames: listen for S seconds (20); 0: until Ctrl-C"),
	NUMBER("", "seconds", seconds, "S", 0, 0, 86400, "stop after S seconds; 0 (default): on Ctrl-C"),
	SPAN("", "expect", expect_us, "TIME", 1000000,
	     "listen for TIME, and print nothing if the feed fits its profile; else exit with 1"),
	NUMBER("", "messages", messages, "N", 0, 0, INT64_C(1) << 40, "stop after N messages; 0 (default): on Ctrl-C"),
	SWITCH("", "segments", is_segments,
	       "write segments (docs/spool.md), which have times of arrival, into the directory FILE"),
	SPAN("", "rotate", rotate_us, "TIME", 1, "with --segments: begin a new segment after TIME, as after 64 MiB"),
};

static const struct row *find_row(const char *name, const char *flag, size_t len)
{
	const struct row *r = rows;

	while (strlen(r->option.flag) != len || strncmp(r->option.flag, flag, len) != 0 ||
	       strncmp(name, r->of, strlen(r->of)) != 0) {
		r++;
		assert(r < rows + sizeof(rows) / sizeof(rows[0]));
	}
	return r;
}

size_t table_options(const struct subcommand *c, struct setting own[TABLE_OPTIONS_MAX], struct given *given)
{
	size_t n = 0, len;

	for (const char *flag = c->options; *flag; flag += len + (flag[len] == ' ')) {
		const struct row *r = find_row(c->name, flag, len = strcspn(flag, " "));

		assert(n < TABLE_OPTIONS_MAX);
		own[n++] = r->option;
		if (r->preset)
			*(int64_t *)((char *)given + r->option.offset) = r->preset;
	}
	return n;
}

/* --- commands --- */

/* Settings of commands that use no server, only the store, both servers, or both for the events of one consumer. */
#define NONE    ""
#define STORE   "store postgres postgres-file postgres-timeout log-level log-format config"
#define SERVERS STORE " redis redis-file redis-ca redis-cert redis-key redis-timeout"
#define BOTH    SERVERS " claim-prefix consumer"
#define FEED    "max-message log-level log-format config"

#define CHOSEN "deliveries since until type reason target"
#define CHANGE CHOSEN " limit all note json"

/* clang-format off */
const struct subcommand command_table[] = {
	{"listen", "", "dry-run", NULL, SESSION_NONE, NULL, listen_command},
	{"status", "", "json watch every", SERVERS " consumer unsettled-warning", SESSION_NONE, status_check, status_command},
	{"dashboard", "", "listen host admin-token-file open", NULL, SESSION_NONE, dashboard_check, dashboard_command},
	{"explain", "EVENT_ID", "json", SERVERS " claim-prefix", SESSION_READ, NULL, explain_command},
	{"lines", "", "since until source json", STORE, SESSION_NONE, NULL, lines_command},
	{"check", "", "json", SETTINGS_OF_LISTEN, SESSION_NONE, NULL, check_command},
	{"config print", "", "json all", SETTINGS_OF_LISTEN, SESSION_NONE, NULL, config_print},
	{"config lint", "", "", SETTINGS_OF_LISTEN, SESSION_NONE, NULL, config_lint},
	{"dead-letters list", "", CHOSEN " state limit newest examples json", STORE " consumer", SESSION_UPGRADE,
	 dead_letters_check, dead_letters_list},
	{"dead-letters show", "ID", "deliveries raw json", STORE, SESSION_UPGRADE, dead_letters_check, dead_letters_show},
	{"dead-letters retry", "[ID ...]", CHANGE " raw-file id", NULL, SESSION_UPGRADE, dead_letters_check,
	 dead_letters_retry},
	{"dead-letters discard", "[ID ...]", CHANGE " pending", BOTH " instance-id", SESSION_UPGRADE, dead_letters_check,
	 dead_letters_change},
	{"dead-letters reopen", "[ID ...]", CHANGE, BOTH " instance-id", SESSION_UPGRADE, dead_letters_check,
	 dead_letters_change},
	{"webhooks list", "", "json", STORE, SESSION_UPGRADE, NULL, webhooks_list},
	{"webhooks show", "NAME", "json", STORE, SESSION_UPGRADE, NULL, webhooks_show},
	{"webhooks pause", "NAME", "note", STORE, SESSION_UPGRADE, NULL, webhooks_pause},
	{"webhooks resume", "NAME", "", STORE, SESSION_UPGRADE, NULL, webhooks_resume},
	{"webhooks resend", "NAME", "since until type event rate dry-run json", STORE, SESSION_UPGRADE, webhooks_check,
	 webhooks_resend},
	{"audit", "", "expected format grace horizon from-lines resubmit limit missing-to json", NULL, SESSION_NONE,
	 audit_check, audit_command},
	{"export", "", "since until source type after live dead-letters format", STORE " consumer", SESSION_READ,
	 export_check, export_command},
	{"replay", "FILE|-", "rate checkpoint json", NULL, SESSION_CREATE, NULL, replay_command},
	{"spool", "DIR list|export|drop", "", NONE, SESSION_NONE, NULL, spool_command},
	{"purge", "",
	 "older-than delete-rows dead-letters-older-than dead-letters-keep outbox-older-than outbox-keep "
	 "processed-older-than processed-keep actions-older-than open-too batch dry-run json",
	 BOTH " time-pointer max-age", SESSION_UPGRADE, purge_check, purge_command},
	{"stats duplicates", "", "since json", STORE " dedup-window", SESSION_UPGRADE, NULL, stats_duplicates},
	{"schema", "", "layout", NONE, SESSION_NONE, schema_check, schema_command},
	{"migrate", "", "", STORE, SESSION_CREATE, NULL, migrate_command},
	{"try", "", "profile feed frames connections now seconds expect json", FEED, SESSION_NONE, try_check, try_command},
	{"record", "FILE", "profile feed seconds messages segments rotate", FEED, SESSION_NONE, record_check,
	 record_command},
	{"profile list", "", "", NONE, SESSION_NONE, NULL, profile_list},
	{"profile show", "NAME", "", NONE, SESSION_NONE, NULL, profile_show},
	{"profile check", "PROFILE", "frames", NONE, SESSION_NONE, NULL, profile_check},
};
/* clang-format on */

const size_t command_count = sizeof(command_table) / sizeof(command_table[0]);
