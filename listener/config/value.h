/* value.h: the kinds of values that settings have, and checks of their text. */
#ifndef WSONCE_VALUE_H
#define WSONCE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

enum value_type {
	VALUE_TEXT,
	VALUE_SECRET,   /* a text, never printed */
	VALUE_REDIS,    /* a URL, printed without its password; or none */
	VALUE_PROXY,    /* the URL of a proxy, printed without its password */
	VALUE_STORE,    /* postgres, or sqlite://PATH */
	VALUE_CONNINFO, /* a connection string for libpq, never printed */
	VALUE_URLS,     /* URLs: the flag is repeatable; separated by commas in the environment */
	VALUE_ORIGINS,  /* origins of web pages, scheme://host[:port]; a list like URLs */
	VALUE_FEEDS,    /* shipped profiles with variables; separated by blanks, since a variable may contain a comma */
	VALUE_PROFILE,  /* a profile with variables, which are not printed */
	VALUE_SWITCH,   /* a flag without a value */
	VALUE_HOSTS,    /* host names; a list like URLs */
	VALUE_FILE_OF,  /* a file whose first line is the value of another setting */
	VALUE_KEY_FILE, /* a file whose first line is a key; only the path is printed */
	VALUE_NUMBER,
	VALUE_BYTES,   /* a number with an optional unit: 64M, 64MiB */
	VALUE_SECONDS, /* a duration such as 90, 90s, 15m, 12h or 30d, kept in seconds */
	VALUE_MS,      /* a duration, kept in milliseconds */
	VALUE_SPAN,    /* microseconds: 90s, 30m, 12h or 7d; lowest 1: not 0 */
	VALUE_MOMENT,  /* microseconds since 1970: RFC 3339, or a span before now; never 0 */
	VALUE_RATE,    /* a number per second: 500/s or 500 */
	VALUE_POINTER, /* RFC 6901 */
	VALUE_POINTERS,
	VALUE_ADDRESS,  /* ADDR:PORT, or unix:/path */
	VALUE_FUNCTION, /* the name of an SQL function, with its schema */
	VALUE_NAME,     /* the name of a consumer; may be empty */
	VALUE_CHOICE,   /* one of the words in choices */
};

/* What a value must be. */
struct value_form {
	enum value_type type;
	int64_t lowest; /* for numbers and durations, in the unit in which they are kept */
	int64_t highest;
	const char *choices; /* VALUE_CHOICE: words separated by one blank */
};

bool value_is_list(enum value_type type);
bool value_is_number(enum value_type type);
/* True if the value may contain a secret and must not be printed. */
bool value_is_secret(enum value_type type);

/* Returns NULL if text is valid, else a predicate for an error ("is not a number ..."), valid until the next call.
 * Writes a number to *number unless number is NULL. */
const char *value_fault(const struct value_form *form, const char *text, int64_t *number);

#endif
