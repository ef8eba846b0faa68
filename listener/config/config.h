/* config.h: the settings of `wsonce listen` and of other commands, from flags, environment and a JSON file. */
#ifndef WSONCE_CONFIG_H
#define WSONCE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/profile.h"
#include "config/webhook.h"

struct json_t;
struct setting;

#define ENVELOPE_ID_MAX     512 /* bytes of an id */
#define POINTER_STEPS_MAX   16  /* reference tokens of one pointer (RFC 6901) */
#define CONFIG_CONSUMER_MAX 64  /* bytes of a consumer's name */
#define SOURCE_NAME_MAX     64  /* bytes */

/* Texts, in the order given. */
struct config_list {
	char **items;
	size_t count;
};

/* Where a value comes from. Later origins override earlier ones. */
enum config_origin { FROM_DEFAULT, FROM_FILE, FROM_CREDENTIAL, FROM_ENV, FROM_FLAG };

#define CONFIG_SETTINGS_MAX 96

struct config {
	struct config_list sources;    /* URLs, some with NAME= before them */
	struct config_list feed_specs; /* --feed, as written */
	struct profile **feeds;        /* from --feed and from "sources" in the file; only in listen */
	size_t feed_count;
	char *ingest;                   /* ADDR:PORT; NULL if not given */
	char *ingest_profile_spec;      /* --ingest-profile, as written */
	struct profile *ingest_profile; /* from the spec or the file, only in listen; NULL: messages are envelopes */
	char *ingest_http;              /* ADDR:PORT; NULL if not given */
	char *ingest_token;             /* NULL if not given */
	char *ingest_token_file;
	char *ingest_webhook_secret_file;
	bool ingest_open; /* anybody may send, not only on loopback */
	struct config_list ingest_origins;
	char *ingest_cert;
	char *ingest_key;
	char *ingest_client_ca; /* signs producers' certificates; NULL if they need none */
	int64_t ingest_connections;
	int64_t ingest_handshakes;
	int64_t ingest_per_address; /* 0: no limit */
	int64_t handshake_timeout_s;
	int64_t message_timeout_s;
	char *source_ca;
	char *source_cert; /* NULL, like the key, if there is none */
	char *source_key;
	char *source_proxy;       /* URL; NULL if not given */
	bool source_uncompressed; /* do not offer permessage-deflate */
	int64_t readers;          /* most listeners that read one source; 0: all */
	int64_t ping_interval_s;
	int64_t idle_timeout_s; /* 0: no limit while the source answers pings */
	char *redis;            /* URL, or "none" */
	char *redis_ca;
	char *redis_cert; /* NULL, like the key, if there is none */
	char *redis_key;
	int64_t redis_timeout_ms;
	char *store;    /* "postgres" or sqlite://PATH; see config_store_path() */
	char *postgres; /* conninfo; "" is libpq's default */
	int64_t postgres_timeout_ms;
	char *admin;
	struct config_list admin_hosts;
	char *instance_id;
	char *claim_prefix; /* includes the consumer's name, if there is one */
	int64_t claim_ttl_s;
	int64_t dedup_window_s;
	char *marks_key; /* contents of the key file; NULL if marks have no MAC */
	int64_t batch_max;
	int64_t postgres_connections;
	int64_t inflight_bytes;
	char *spool; /* directory, or NULL */
	int64_t spool_bytes;
	int64_t spool_after_ms;
	int64_t spool_sync_ms;
	int64_t message_bytes;
	int64_t max_attempts;
	int64_t drain_timeout_ms;
	struct config_list id_pointers;
	char *type_pointer;
	char *payload_pointer;
	char *traceparent_pointer;   /* into the payload; NULL: webhooks get no traceparent */
	char *time_pointer;          /* NULL: events have no time */
	char *time_unit;             /* one of TIMESTAMP_UNITS */
	int64_t max_age_s;           /* 0: no limit */
	char *order_pointer;         /* NULL: events do not wait for each other */
	int64_t unsettled_warning_s; /* 0: never */
	int64_t lines_keep_s;
	char *handler;            /* SCHEMA.FUNCTION; NULL if not given */
	char *consumer;           /* "" if the fleet has no name */
	struct webhooks webhooks; /* only from the file */
	char *log_level;
	char *log_format;
	char *file;                                 /* --config */
	unsigned char origins[CONFIG_SETTINGS_MAX]; /* enum config_origin of each setting, in the order of the table */
	char *files[CONFIG_SETTINGS_MAX]; /* paths that -file settings read, in the same order; NULL if none */
};

/* A setting in force. Valid during the call. */
struct config_redacted {
	const char *flag; /* without the dashes */
	const char *env;
	const char *value; /* as --flag takes it, with secrets as ***; NULL if there is none */
	enum config_origin origin;
	bool is_secret; /* value is *** */
	bool is_file;   /* value is a path */
	bool is_key;    /* value is the path of a file that holds a secret */
};

/* Calls each for every setting, in the order of the table. */
void config_each(const struct config *c, void (*each)(void *arg, const struct config_redacted *setting), void *arg);

/* Calls each for every unknown environment variable that begins with WSONCE_. meant is "; did you mean ...?" or "". */
void config_each_unknown(const struct config *c, void (*each)(void *arg, const char *variable, const char *meant),
			 void *arg);

/* Returns default, file, credential, environment or flag. */
const char *config_origin_name(enum config_origin origin);

/* What a command takes besides the settings. Texts are those of argv; a switch is a bool; NULL, 0 and false: not given.
 */
struct config_own {
	const char *command; /* for errors */
	const struct setting *table;
	size_t count;
	void *into;
	char **words;   /* arguments that are not options, up to argc; "-" and everything after "--" are words */
	int word_count; /* unchanged if a flag is wrong */
};

/* Fills c from the defaults, then the file, credentials, the environment, and the flags argv[1..argc-1]. argv[0] is the
 * command: "listen" has all settings; others lack those that only a listener uses. If c is NULL, settings are refused.
 * If own is NULL, the command has no options of its own. Returns 0, or -1 with a sentence in error that names the
 * option. Call config_free in both cases; the texts in c are valid until then. */
int config_read(struct config *c, struct config_own *own, int argc, char **argv, char *error, size_t size);
void config_free(struct config *c);

/* Returns what a consumer's own keys and names begin with, on the heap. consumer may be "". */
char *config_consumer_scope(const char *consumer);
/* Returns the prefix of a consumer's keys in Redis, on the heap; claim_prefix is our own. consumer may be "". */
char *config_claim_prefix(const struct config *c, const char *consumer);

/* Returns the path of the SQLite file that stores events, or NULL if Postgres does. Valid as long as c. */
static inline const char *config_store_path(const struct config *c)
{
	return c->store && strncmp(c->store, "sqlite://", 9) == 0 ? c->store + 9 : NULL;
}

/* Called for a setting that has changed. is_taken: config has the new value; else the change needs a restart. */
typedef void config_change_cb(void *arg, const char *name, bool is_taken);

/* Compares a running listener's settings with fresh ones, and moves those that can change at run time (log-level,
 * log-format, tokens and webhooks) to config. fresh gets the old values: free it once they are no longer used. */
void config_change(struct config *config, struct config *fresh, config_change_cb *each, void *arg);

/* Returns why the change must not be made while the listener runs, or NULL. */
const char *config_judge_change(const struct config *config, const struct config *fresh);

/* Overwrites secrets in argv, which other users can see. Do not use argv afterwards. */
void config_hide(int argc, char **argv);

/* Prints the settings of a command for its --help. only: names separated by blanks; NULL: all. */
void config_help(FILE *out, const char *command, const char *only);
/* Appends {flag, value, meaning} to flags for each setting of a command. value names its value, "" for a switch. */
void config_describe(const char *command, const char *only, struct json_t *flags);

/* Sets the log's level, format and instance. */
void config_start_log(const struct config *c);

/* Logs the main settings in one line, without secrets, and warns about WSONCE_ variables that are not settings. */
void config_log(const struct config *c);

/* Returns the URL of [NAME=]URL. */
static inline const char *config_behind_name(const char *text)
{
	const char *sign = strpbrk(text, "=:");

	return sign && *sign == '=' ? sign + 1 : text;
}

static inline const char *config_source_url(const struct config *c, size_t i)
{
	return config_behind_name(c->sources.items[i]);
}

/* Returns how many lines the sources may have together. */
size_t config_lines_most(const struct config *config);

/* Returns the name of source i: its NAME, or its host and number (feed.example.com#3). Free it. */
char *config_source_name(const struct config *c, size_t i);
/* Returns what rows, lines and presence call it: its URL without secrets, or its name if it has a NAME or another
 * source's URL looks the same. Free it. */
char *config_source_in_rows(const struct config *c, size_t i);

#endif
