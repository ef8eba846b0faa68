/* profile.h: what one feed wants, read from a profile: how to connect, what to say, which frames are events. A profile
 * is data; feed/ does what it says, intake/ keeps the connection. docs/feeds/ has the language. */
#ifndef WSONCE_PROFILE_H
#define WSONCE_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/timestamp.h"

#define PROFILE_TEXT_MAX  (1 << 20) /* bytes of a profile */
#define PROFILE_RULES_MAX 64
#define PROFILE_PARTS_MAX 16  /* parts of an id, and alternatives of it */
#define PROFILE_ID_MAX    512 /* bytes of an id */

enum profile_fleet {
	FLEET_BROADCAST, /* every connection gets everything */
	FLEET_SHARED,    /* each event goes to one of the connections */
	FLEET_EXCLUSIVE, /* one listener connects, the others stand by */
	FLEET_SESSION,   /* as broadcast, but its numbering belongs to one connection */
};

enum profile_action {
	ACTION_IGNORE,
	ACTION_EVENT,
	ACTION_REJECT,    /* a dead letter */
	ACTION_RECONNECT, /* to the rule's url, if it has one */
	ACTION_FATAL,     /* stop, and say so */
};

enum profile_split { SPLIT_NONE, SPLIT_ARRAY, SPLIT_NDJSON };
enum profile_cursor_kind { CURSOR_NONE, CURSOR_MAX, CURSOR_LAST };
enum profile_cursor_scope { SCOPE_SOURCE, SCOPE_HOST, SCOPE_SESSION };
enum profile_cursor_format { FORMAT_PLAIN, FORMAT_HEX };
enum profile_ack_mode { ACK_MODE_NONE, ACK_MODE_EACH, ACK_MODE_CUMULATIVE };
enum profile_ack_on { ACK_ON_DURABLE, ACK_ON_RECEIVE };
/* What a close code calls for: wait as usual, connect at once, stop, or drop the session's variables and connect. */
enum profile_close { CLOSE_BACKOFF, CLOSE_AT_ONCE, CLOSE_FATAL, CLOSE_RESET };

/* One HTTP call: url_http, or an item of a rule's http. Its texts are templates (feed/session.h renders them). */
struct profile_http {
	const char *method; /* "GET" or what is written */
	const char *url;
	const json_t *headers; /* object of texts; NULL: none */
	const json_t *body;    /* a template; NULL: none */
	const json_t *capture; /* object: variable -> pointer into the answer; NULL: none */
	uint16_t accept_status[8];
	size_t accept_count;
};

/* The json_t and texts of a rule are its profile's. NULL is what is not there. */
struct profile_rule {
	const char *name; /* NULL: it has none */
	enum profile_action action;
	const json_t *when;  /* object: pointer -> condition */
	const json_t *where; /* the same, on an element */
	const json_t *id;    /* alternatives, each an array of parts */
	const char *id_join; /* "|" */
	const char *type;    /* parts */
	const char *time;
	enum timestamp_unit time_unit;
	const char *payload;   /* "": the element */
	const char *explode;   /* a pointer with stars */
	const json_t *capture; /* object: variable -> part */
	const json_t *clear;   /* array of variables */
	const json_t *send;    /* array of templates */
	const char *cursor;    /* part */
	const json_t *ack;     /* template */
	const char *url;       /* template, of ACTION_RECONNECT */
	struct profile_http *http;
	size_t http_count;
	bool ready;   /* this frame makes the connection a good one */
	bool overlap; /* connect the successor before this connection is closed */
};

/* Where errors of a profile go: one sentence that names key and line, without secrets. */
struct profile_fault {
	char text[400];
};

/* Where a profile, or what replaces its members, is written: for the lines that errors name. */
struct profile_origin {
	const char *file;
	const char *path;   /* in front of each key: "sources[1]"; "": the value is the whole file */
	struct slice value; /* its JSON; at is NULL if there is none */
	int line;           /* of its first byte */
};

struct profile {
	const char *name;
	json_t *root; /* the whole; owns what the others point to */
	const char *about;
	const char *url;               /* template */
	const char *url_resume;        /* template; NULL: none */
	int64_t resume_window_s;       /* 0: for ever */
	const json_t *mirrors;         /* array of templates of URLs; NULL: none */
	const json_t *hosts;           /* array of HOST or *.DOMAIN, where it may lead, too; NULL: none */
	const json_t *headers;         /* object of templates; NULL: none */
	const json_t *subprotocols;    /* array of texts; NULL: none */
	const json_t *vars;            /* object: the first variables; NULL: none */
	const json_t *on_open;         /* array of templates; NULL: none */
	struct profile_http *url_http; /* NULL: none */
	struct {
		int64_t every_ms; /* 0: none, or by var */
		const char *var;  /* the variable that says it; NULL: none */
		int64_t unit_ms;  /* of var */
		bool first_jitter;
		const json_t *send; /* NULL: no ping of the application */
	} ping;
	int64_t counter_start;
	int64_t ws_ping_s; /* 0: never; -1: as the setting says */
	struct {
		int64_t ms;      /* 0: never; -1: as the setting says */
		const char *var; /* NULL: none; then ms is for as long as it is not set */
		int64_t unit_ms;
		double factor;
	} idle_timeout;
	enum profile_fleet fleet;
	struct {
		int64_t min_ms; /* -1: as all sources */
		int64_t max_ms;
		bool jitter;
	} backoff;
	const json_t *fatal_close;  /* array of codes; NULL: none */
	const json_t *reset_codes;  /* of reset_close; the same */
	const json_t *reset_clear;  /* variables; NULL: none */
	const json_t *close_policy; /* object: code or range -> word; NULL: none */
	int64_t close_code_on_stop; /* 1000 */
	struct {
		enum profile_cursor_kind kind;
		enum profile_cursor_scope scope;
		int64_t rewind;
		enum profile_cursor_format format;
		bool clamp_now;
		const json_t *hold_until; /* object of conditions; NULL: none */
	} cursor;
	enum profile_ack_mode ack_mode;
	enum profile_ack_on ack_on;
	int64_t ack_deadline_ms;    /* 0: none */
	int64_t max_unacked;        /* 0: no limit */
	const json_t *json_strings; /* array of pointers; NULL: none */
	enum profile_split split;
	int64_t overlap_s; /* 0: no rule overlaps */
	bool never_send;
	double send_rate_per_s; /* 0: no limit */
	int64_t max_age_s;      /* of a connection; 0: no limit */
	bool redirect_keeps_subscriptions;
	struct {
		const char *key; /* parts; NULL: gaps are not looked for */
		const char *seq;
		bool contiguous;
	} gap;
	int64_t max_message_bytes; /* 0: as the setting says */
	int64_t id_max_len;        /* a longer id becomes its SHA-256; 0: the profile does not say */
	int64_t max_elements;      /* of one frame; more are rejected */
	struct profile_rule *rules;
	size_t rule_count;
	struct profile_rule fallback; /* for frames that match no rule: the profile's default */
	struct profile_fault
		doubt; /* what the language allows and nobody can mean, such as a variable that nothing sets;
			* "": none. Not for listening. */
	/* Of a listener whose producers the profile describes: */
	const json_t *accept_subprotocols; /* beside none and the listener's own; NULL: no others */
	const json_t *tokens;        /* object: name -> template of a secret, or an array of templates; NULL: none */
	const json_t *ack;           /* template: what is said of a message that has been stored, */
	const json_t *ack_duplicate; /* if it was there, */
	const json_t *ack_error;     /* or has become a dead letter; NULL: nothing */
};

/* Is there anything in it that is for producers alone? */
bool profile_is_server(const struct profile *p);

/* Reads a profile from its text. source names it in errors: a file, or a name. overrides, an object or NULL, replaces
 * members of the profile, and those of vars by themselves. NULL after filling fault. */
struct profile *profile_parse(const char *text, size_t len, const char *source, const json_t *overrides,
			      struct profile_fault *fault);
struct profile *profile_read_file(const char *path, const json_t *overrides, struct profile_fault *fault);
/* spec: NAME or NAME?var=value&..., of a shipped profile. */
struct profile *profile_read_named(const char *spec, const json_t *overrides, struct profile_fault *fault);
/* The same, or the path of a file, which has a slash. */
struct profile *profile_read_any(const char *spec, struct profile_fault *fault);
void profile_free(struct profile *p);

/* A member of "sources" in the settings: {"profile": NAME, "vars": {...}, overrides...}, or a whole profile; given:
 * where it is written. */
struct profile *profile_read_source(const json_t *source, const struct profile_origin *given,
				    struct profile_fault *fault);
/* The origin of a member of the text of a settings file. */
struct profile_origin profile_origin_of_member(const char *file, struct slice text, const char *key);
/* The origin of sources[i] in the text of a settings file; path is filled for it, and lives as long as it does. */
struct profile_origin profile_origin_of_source(const char *file, struct slice text, size_t i, char *path, size_t size);

/* What close code means, by fatal_close, reset_close and close_policy; -1: the profile says nothing of it. */
int profile_close(const struct profile *p, int code);

/* The folder with the shipped profiles, and the names in it, sorted; the caller frees each and the array. */
const char *profile_folder(void);
char **profile_names(size_t *count);
/* The text of a shipped profile, on the heap; NULL after filling fault, which names the nearest. */
char *profile_text(const char *name, struct profile_fault *fault);

#endif
