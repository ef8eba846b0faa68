/* profile.h: a profile describes one feed: how to connect, what to send, which frames are events. A profile is data:
 * feed/ interprets it and intake/ keeps the connection. docs/feeds/ describes the language. */
#ifndef WSONCE_PROFILE_H
#define WSONCE_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/timestamp.h"

#define PROFILE_TEXT_MAX   (1 << 20) /* bytes of a profile */
#define PROFILE_RULES_MAX  64
#define PROFILE_PARTS_MAX  16  /* parts of an id, and alternative ids */
#define PROFILE_ID_MAX     512 /* bytes of an id */
#define PROFILE_LINES_MAX  4
#define PROFILE_SHARDS_MAX 256
#define SHARD_TOO_MANY \
	"%zu items need %zu connections of %zu each, more than the %zu of most (up to 256): raise most or " \
	"per_connection"

enum profile_fleet {
	FLEET_BROADCAST, /* every connection gets all events */
	FLEET_SHARED,    /* each event goes to one of the connections */
	FLEET_EXCLUSIVE, /* one listener connects, the others stand by */
	FLEET_SESSION,   /* like broadcast, but each connection has its own sequence numbers */
};

enum profile_action {
	ACTION_IGNORE,
	ACTION_EVENT,
	ACTION_REJECT,    /* a dead letter */
	ACTION_RECONNECT, /* to the rule's url, if it has one */
	ACTION_FATAL,     /* stop, and log it */
};

enum profile_split { SPLIT_NONE, SPLIT_ARRAY, SPLIT_NDJSON };
enum profile_binary { BINARY_PLAIN, BINARY_GZIP, BINARY_ZLIB, BINARY_DEFLATE, BINARY_ZSTD };
enum profile_not_json { NOT_JSON_REJECT, NOT_JSON_IGNORE };
enum profile_cursor_kind { CURSOR_NONE, CURSOR_MAX, CURSOR_LAST };
enum profile_cursor_scope { SCOPE_SOURCE, SCOPE_HOST, SCOPE_SESSION };
enum profile_cursor_format { FORMAT_PLAIN, FORMAT_HEX };
enum profile_ack_mode { ACK_MODE_NONE, ACK_MODE_EACH, ACK_MODE_CUMULATIVE };
enum profile_ack_on { ACK_ON_DURABLE, ACK_ON_RECEIVE };
/* After a close code: wait as usual, connect at once, stop for good, or clear the session's variables and connect. */
enum profile_close { CLOSE_BACKOFF, CLOSE_AT_ONCE, CLOSE_FATAL, CLOSE_RESET };

/* One HTTP call: url_http, or an item of a rule's http. Its texts are templates, rendered by feed/session.h. */
struct profile_http {
	const char *method; /* "GET" by default, "POST" with a body */
	const char *url;
	const json_t *headers; /* object of texts; NULL if none */
	const json_t *body;    /* template; NULL if none */
	const json_t *capture; /* object: variable -> pointer into the answer; NULL if none */
	int64_t every_ms;      /* between two calls, of var_http */
};

/* A rule. Its profile owns the json_t and texts. Members are NULL if absent. */
struct profile_rule {
	const char *name; /* NULL if it has none */
	enum profile_action action;
	const json_t *text;  /* the message, or object: prefix -> its beginning; NULL: the message is JSON */
	const json_t *when;  /* object: pointer -> condition */
	const json_t *where; /* the same, for an element */
	const json_t *id;    /* alternatives, each an array of parts */
	const char *id_join; /* "|" by default */
	const char *type;    /* parts */
	const char *time;
	enum timestamp_unit time_unit;
	const char *payload;   /* "": the element */
	const char *explode;   /* pointer to the elements; * stands for each one */
	const json_t *capture; /* object: variable -> part */
	const json_t *clear;   /* array of variables */
	const json_t *send;    /* array of templates */
	const char *cursor;    /* part */
	const json_t *ack;     /* template */
	const char *url;       /* template, for ACTION_RECONNECT */
	struct profile_http *http;
	size_t http_count;
	bool ready;   /* the frame shows that the connection works */
	bool overlap; /* connect the successor before closing this connection */
};

/* An error in a profile: one sentence with key and line, without secrets. */
struct profile_fault {
	char text[400];
};

/* Where a profile, or what overrides its members, is written, for the line numbers in errors. */
struct profile_origin {
	const char *file;
	const char *path;   /* precedes each key: "sources[1]"; "" if the value is the whole file */
	struct slice value; /* its JSON; at is NULL if there is no text */
	int line;           /* line of its first byte */
};

struct profile {
	const char *name;
	json_t *root; /* the whole profile; owns what other members point to */
	const char *about;
	const char *url;            /* template */
	const char *url_resume;     /* template; NULL if none */
	int64_t resume_window_s;    /* 0: forever */
	const json_t *mirrors;      /* array of URL templates; NULL if none */
	int64_t lines;              /* connections that a listener keeps, each to another URL; 1 or more */
	const json_t *hosts;        /* array of HOST or *.DOMAIN to which the feed may redirect; NULL if none */
	const json_t *headers;      /* object of templates; NULL if none */
	const json_t *subprotocols; /* array of texts; NULL if none */
	const json_t *vars;         /* object: initial variables; NULL if none */
	struct {
		const char *var;           /* the list that several connections share; NULL: one has all of it */
		int64_t per_connection;    /* items */
		int64_t most;              /* connections */
		struct profile_http *http; /* brings the list; NULL: none */
		const json_t *subscribe;   /* messages about new and removed items; NULL: connect again */
		const json_t *unsubscribe;
		size_t number;   /* in a connection's profile (feed/shard.h): which, from 1; else 0 */
		bool is_idle;    /* it has no items */
		bool is_joining; /* others still have its items */
	} shard;
	const json_t *on_open;         /* array of templates; NULL if none */
	struct profile_http *url_http; /* NULL: none */
	struct {
		int64_t every_ms; /* 0 if there is none, or var sets it */
		const char *var;  /* variable with the interval; NULL if none */
		int64_t unit_ms;  /* unit of var */
		bool first_jitter;
		const json_t *send; /* NULL if the application does not ping */
	} ping;
	int64_t counter_start;
	int64_t ws_ping_s; /* 0: never; -1: use the setting */
	struct {
		int64_t ms;      /* 0: never; -1: use the setting */
		const char *var; /* NULL if none; else ms applies until it is set */
		int64_t unit_ms;
		double factor;
	} idle_timeout;
	enum profile_fleet fleet;
	struct {
		int64_t min_ms; /* -1: like other sources */
		int64_t max_ms;
		bool jitter;
	} backoff;
	const json_t *fatal_close;  /* array of codes; NULL if none */
	const json_t *reset_codes;  /* codes of reset_close; NULL if none */
	const json_t *reset_clear;  /* variables of reset_close; NULL if none */
	const json_t *close_policy; /* object: code or range -> word; NULL if none */
	int64_t close_code_on_stop; /* 1000 by default */
	struct {
		enum profile_cursor_kind kind;
		enum profile_cursor_scope scope;
		int64_t rewind;
		enum profile_cursor_format format;
		bool clamp_now;
		const json_t *hold_until; /* object of conditions; NULL if none */
		bool is_for_fill;         /* the feed is not told it */
	} cursor;
	enum profile_ack_mode ack_mode;
	enum profile_ack_on ack_on;
	int64_t ack_deadline_ms;    /* 0: no deadline */
	int64_t max_unacked;        /* 0: no limit */
	const json_t *json_strings; /* array of pointers; NULL if none */
	enum profile_split split;
	struct {
		const json_t *strip; /* text that precedes the JSON; NULL: none */
		const json_t *after; /* text after which the JSON begins; NULL: at the start */
		const json_t *until; /* text that ends each JSON of a message; NULL: a message has one */
	} frame;
	enum profile_not_json not_json;
	enum profile_binary binary; /* how binary messages are compressed */
	char *dictionary_path;      /* NULL: none */
	struct slice dictionary;    /* the file, on the heap */
	int64_t overlap_s;          /* 0 if no rule overlaps */
	bool never_send;
	double send_rate_per_s; /* 0: no limit */
	int64_t max_age_s;      /* maximum age of a connection; 0: no limit */
	bool redirect_keeps_subscriptions;
	struct {
		const char *key; /* part; NULL: do not look for gaps */
		const char *seq;
		bool contiguous;
	} gap;
	struct {
		struct profile_http *http; /* NULL: what is missing is not asked for */
		const char *needs;         /* variable without which nothing is asked; NULL: none */
		const char *events;        /* pointer to the array in the answer */
		const json_t *frame;       /* template of an element's frame; NULL: the element itself */
		const json_t *on;          /* array of "hole" and "reconnect" */
		bool on_hole, on_reconnect;
		int64_t max; /* elements of a full page */
		int64_t every_ms;
	} fill;
	int64_t max_message_bytes; /* 0: use the setting */
	int64_t max_elements;      /* elements of one frame; further ones are rejected */
	struct profile_rule *rules;
	size_t rule_count;
	bool resends;                 /* the feed sends again what was not acked, */
	bool forgets;                 /* but not to another process */
	struct profile_rule fallback; /* the profile's default, for frames that match no rule */
	/* Something valid that must be a mistake, such as a variable that nothing sets; "" if none. With a doubt, a
	 * listener does not start. */
	struct profile_fault doubt;
	/* For producers that the profile describes: */
	const json_t *accept_subprotocols; /* accepted besides none and the listener's own; NULL if no others */
	const json_t *tokens;        /* object: name -> template of a secret; or an array of templates; NULL if none */
	const json_t *ack;           /* template of the answer to a message that was stored, */
	const json_t *ack_duplicate; /* was a duplicate, */
	const json_t *ack_error;     /* or became a dead letter; NULL: no answer */
	/* Only from profile_of_url, whose messages are envelopes that no rule reads: */
	char *redacted_url; /* without secrets; NULL in other profiles */
	char *row_source;   /* as config_source_in_rows() says; all shards of a source have the same */
};

/* Returns the source in the rows of its events. */
static inline const char *profile_row_source(const struct profile *p)
{
	return p->row_source ? p->row_source : p->name;
}

/* The place of a rule; rule_count for the fallback. */
static inline size_t profile_rule_index(const struct profile *p, const struct profile_rule *rule)
{
	return rule >= p->rules && rule < p->rules + p->rule_count ? (size_t)(rule - p->rules) : p->rule_count;
}

/* Returns the length of PATH if text is only ${file:PATH}, else 0. NULL is allowed. */
size_t profile_file_len(const char *text);

/* Reads a profile from text. source, a file or a name, is used in errors. overrides is an object or NULL; its members
 * replace those of the profile, except that vars replaces only the variables it names. On error, this and the functions
 * below fill fault and return NULL. */
struct profile *profile_parse(const char *text, size_t len, const char *source, const json_t *overrides,
			      struct profile_fault *fault);
/* Reads a shipped profile or a file. spec: NAME, or a path, which has a / or ends in .json; then ?var=value&... */
struct profile *profile_read_named(const char *spec, struct profile_fault *fault);
/* The same, but reads any file that is there if no shipped profile has this name. */
struct profile *profile_read_any(const char *spec, struct profile_fault *fault);
/* Returns spec on the heap: a relative path as seen from the folder of file, anything else as it is. */
char *profile_beside(const char *file, const char *spec);
/* Returns the profile of a plain --source. name: NAME or host, as in log and status; idle_s: --idle-timeout. */
struct profile *profile_of_url(const char *url, const char *name, const char *row_source, int64_t idle_s);
void profile_free(struct profile *p);

/* Reads a member of "sources" in the settings: {"profile": NAME, "vars": {...}, overrides...} or a whole profile. given
 * is where it is written. */
struct profile *profile_read_source(const json_t *source, const struct profile_origin *given,
				    struct profile_fault *fault);
/* Returns the origin of a member in the text of a settings file. */
struct profile_origin profile_origin_of_member(const char *file, struct slice text, const char *key);
/* Returns the origin of sources[i] in the text of a settings file. Writes its path to path, which must outlive it. */
struct profile_origin profile_origin_of_source(const char *file, struct slice text, size_t i, char *path, size_t size);

/* Returns the enum profile_close for a close code, or -1 if the profile does not mention it. */
int profile_close(const struct profile *p, int code);

/* Return the folder of the shipped profiles, and their names, sorted. The caller frees each name and the array. */
const char *profile_folder(void);
char **profile_names(size_t *count);
/* Returns the text of a shipped profile, on the heap; or NULL after filling fault, which suggests the nearest name. */
char *profile_text(const char *name, struct profile_fault *fault);

#endif
