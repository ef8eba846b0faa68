/* config.h: the settings of `wsonce listen`, many of which the other commands have too, read from
 * flags, environment and a JSON file. */
#ifndef WSONCE_CONFIG_H
#define WSONCE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/profile.h"
#include "config/webhook.h"

#define ENVELOPE_ID_MAX     512 /* bytes of an id */
#define POINTER_STEPS_MAX   16  /* reference tokens of one pointer */
#define CONFIG_CONSUMER_MAX 64  /* bytes of a consumer's name */

/* Texts in the order in which they were given. */
struct config_list {
	char **items;
	size_t count;
};

/* Where a value comes from; a later one is stronger. */
enum config_origin { FROM_DEFAULT, FROM_FILE, FROM_CREDENTIAL, FROM_ENV, FROM_FLAG };

#define CONFIG_SETTINGS_MAX 96

struct config {
	struct config_list sources;
	struct config_list feed_specs; /* --feed, as written */
	struct profile **feeds;        /* of --feed, and of "sources" in the file; in listen alone */
	size_t feed_count;
	char *ingest;              /* ADDR:PORT, NULL: none */
	char *ingest_profile_spec; /* --ingest-profile, as written */
	struct profile *
		ingest_profile; /* of it, or of the file; NULL: the pointers say what producers send; in listen alone */
	char *ingest_http;      /* ADDR:PORT, NULL: none */
	char *ingest_token;     /* NULL, like the file: everybody may send who reaches the port */
	char *ingest_token_file;
	bool ingest_open; /* to everybody, and not on loopback alone */
	struct config_list ingest_origins;
	char *ingest_cert;
	char *ingest_key;
	char *ingest_client_ca; /* of the certificates that producers show; NULL: they show none */
	int64_t ingest_connections;
	int64_t ingest_handshakes;
	int64_t ingest_per_address; /* 0: no limit */
	int64_t handshake_timeout_s;
	int64_t message_timeout_s;
	char *source_ca;
	char *source_cert; /* NULL, like the key: none is shown */
	char *source_key;
	char *source_proxy;       /* URL; NULL: none */
	bool source_uncompressed; /* permessage-deflate is not offered */
	int64_t readers;          /* listeners that read each source; 0: all */
	int64_t ping_interval_s;
	int64_t idle_timeout_s; /* 0: a silent source is fine as long as it answers pings */
	char *redis;            /* URL, or "none" */
	char *redis_ca;
	char *redis_cert; /* NULL, like the key: none is shown */
	char *redis_key;
	int64_t redis_timeout_ms;
	char *store;    /* "postgres", or sqlite://PATH: see config_store_path() */
	char *postgres; /* conninfo; "" is libpq's own defaults */
	int64_t postgres_timeout_ms;
	char *admin;
	struct config_list admin_hosts;
	char *instance_id;
	char *claim_prefix; /* that of a consumer has its name in it */
	int64_t claim_ttl_s;
	int64_t dedup_window_s;
	char *marks_key; /* the text of the file; NULL: marks have no seal */
	int64_t batch_max;
	int64_t postgres_connections;
	int64_t inflight_bytes;
	int64_t message_bytes;
	int64_t max_attempts;
	int64_t drain_timeout_ms;
	struct config_list id_pointers;
	char *type_pointer;
	char *payload_pointer;
	char *traceparent_pointer;   /* into the payload; NULL: none is sent to webhooks */
	char *time_pointer;          /* NULL: events have no time */
	char *time_unit;             /* one of TIMESTAMP_UNITS */
	int64_t max_age_s;           /* 0: events of any age are taken */
	int64_t unsettled_warning_s; /* 0: never */
	char *handler;               /* SCHEMA.FUNCTION; NULL: none */
	char *consumer;              /* "": the fleet without a name */
	struct webhooks webhooks;    /* of the file alone */
	char *log_level;
	char *log_format;
	char *file;                                 /* --config */
	unsigned char origins[CONFIG_SETTINGS_MAX]; /* enum config_origin of each, in the order of the table */
	char *files[CONFIG_SETTINGS_MAX]; /* of those that take the value of another from a file; NULL: none */
};

/* A setting as it is in force. Lives for the call. */
struct config_shown {
	const char *flag; /* without the dashes */
	const char *env;
	const char *value; /* as --flag takes it, secrets as ***; NULL: there is none */
	enum config_origin origin;
	bool is_secret; /* value does not say it */
	bool is_file;   /* value is the path of a file, */
	bool is_key;    /* which holds a secret */
};

/* Calls each for each setting, in the order of the table. */
void config_each(const struct config *c, void (*each)(void *arg, const struct config_shown *shown), void *arg);

/* Calls each for each variable of the environment that begins with WSONCE_ and is no setting; meant is "", or asks
 * "; did you mean ...?". */
void config_each_unknown(const struct config *c, void (*each)(void *arg, const char *variable, const char *meant),
			 void *arg);

/* default, file, credential, environment or flag. */
const char *config_origin_name(enum config_origin origin);

/* Fills c: defaults, then the file, then the environment, then the flags argv[1..argc-1]. argv[0]
 * is the command: "listen" has all settings, every other one those that are not of listening alone.
 * Returns 0; or -1 with one sentence in error that names the option. The texts are on the heap
 * until config_free, which may be called in both cases. */
int config_read(struct config *c, int argc, char **argv, char *error, size_t size);
void config_free(struct config *c);

/* The SQLite file in which events are stored; NULL: they are in Postgres. Lives as long as c. */
static inline const char *config_store_path(const struct config *c)
{
	return c->store && strncmp(c->store, "sqlite://", 9) == 0 ? c->store + 9 : NULL;
}

/* Tells of a setting that has changed; taken: config has the fresh one now, else it needs a restart. */
typedef void config_change_cb(void *arg, const char *name, bool is_taken);

/* Compares the settings of a running listener with fresh ones, read in the same way, and takes over from them those
 * that can change while it runs: log-level, log-format, tokens and webhooks. fresh gets the old ones, and is to be
 * freed when nobody uses them any more. */
void config_change(struct config *config, struct config *fresh, config_change_cb *each, void *arg);

/* Overwrites what is secret in a command line, which others on this machine can read (/proc/PID/cmdline). The words
 * must be copies no more in use, or never used again. */
void config_hide(int argc, char **argv);

/* Prints the table of settings: of a command for its --help, or all as the README's Markdown table. */
void config_help(FILE *out, const char *command);
void config_help_markdown(FILE *out);
/* Is it a setting that takes no value on the command line? The name has no dashes in front. */
bool config_is_switch(const char *name, size_t len);
/* Calls each for each setting of a command; value is how its value is called, empty for a switch. */
void config_each_flag(const char *command,
		      void (*each)(void *arg, const char *flag, const char *value, const char *meaning), void *arg);

/* From here on the log has this level, format and instance. */
void config_start_log(const struct config *c);

/* Logs what the listener is about to do, as one line, secrets left out; and a warning of WSONCE_ variables that are
 * not settings. */
void config_log(const struct config *c);

#endif
