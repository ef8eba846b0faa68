/* A `wsonce listen` process, with an admin port and an ingest port of its own. The program is
 * WSONCE_TEST_BIN, or build/wsonce. */
#ifndef SUPPORT_LISTENER_H
#define SUPPORT_LISTENER_H

#include <stdbool.h>

struct database;
struct listener;
struct process;

/* How to start one; zeros are the defaults. */
struct listener_options {
	const struct database *database; /* --postgres: required, unless .postgres is given */
	const char *postgres;            /* --postgres, as conninfo, or --store sqlite://PATH, instead of .database */
	const char *redis;               /* --redis; NULL = the shared server; "none" works */
	const char *prefix;              /* --claim-prefix; NULL = redisd_prefix() */
	const char *source;              /* --source; NULL = none; more of them as printf-like flags */
	const char *spool;               /* --spool; in a fleet the number of the listener is added; NULL = none */
	const char *const *env;          /* more environment, as in process.h */
	int ingest_port;                 /* 0 = a free one */
	int admin_port;                  /* 0 = a free one */
	bool without_ingest;             /* do not give --ingest */
	bool without_waiting;            /* return at once, without waiting for /readyz */
	bool is_redis_away;              /* /readyz may say degraded; else it has to say ready */
};

/* Starts a listener with the printf-like flags added (split at spaces; NULL for none) and waits until /readyz says
 * ready, so Redis is up too. Fails the test, and prints the last log lines, if that takes more than 15 s (stretched)
 * or the process ends. listener_free ends it. */
struct listener *listener_start(const struct listener_options *options, const char *flags, ...)
	__attribute__((format(printf, 2, 3)));

/* Wait until /readyz says ready, or fail as listener_start does. */
void listener_wait_ready(struct listener *l);

/* Its process: signals, waiting, memory, output (the log is its standard error). Belongs to l. */
struct process *listener_process(struct listener *l);

/* The port of --ingest, for peer_open(). */
int listener_ingest_port(const struct listener *l);

/* The port of --admin. */
int listener_admin_port(const struct listener *l);

/* GET path from the admin port within 5 s (stretched). Returns the body, and
 * sets *status (may be NULL); or NULL and 0 if there was no answer. */
char *listener_http(struct listener *l, const char *path, int *status);

/* The HTTP status of path on the admin port; 0 if there was no answer. */
int listener_status(struct listener *l, const char *path);

/* Does the answer to path on the admin port, or the listener's log, contain this text? */
bool listener_page_has(struct listener *l, const char *path, const char *text);
bool listener_has_logged(struct listener *l, const char *text);

/* How often its log has this text. */
int listener_count_logged(struct listener *l, const char *text);

/* The value of a metric in /metrics, by its name, or by its name with labels as printed there. A name without labels
 * is the sum over all labels. Fails the test if there is no such line or no answer. */
double listener_metric(struct listener *l, const char *name);

/* SIGTERM and wait up to 30 s (stretched). Returns the exit status, 128 + signal; fails the test if
 * it does not end. */
int listener_stop(struct listener *l);

/* SIGKILL, and wait for its end. */
void listener_kill(struct listener *l);

/* Kill it if it is alive and free l. NULL is allowed. */
void listener_free(struct listener *l);

#endif
