/* value.h: the kinds of values that settings have, and what is wrong with a text as one of them. Pure, but for
 * libpq's opinion of a conninfo. */
#ifndef WSONCE_VALUE_H
#define WSONCE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

enum value_type {
	VALUE_TEXT,
	VALUE_SECRET,   /* a text that is never shown */
	VALUE_REDIS,    /* a URL that is shown without its password, or none */
	VALUE_PROXY,    /* the URL of an HTTP proxy, likewise */
	VALUE_STORE,    /* postgres, or sqlite://PATH */
	VALUE_CONNINFO, /* what libpq connects by; never shown */
	VALUE_URLS,     /* URLs; the flag may be repeated, commas in the environment */
	VALUE_ORIGINS,  /* of web pages: scheme://host[:port]; a list like URLs */
	VALUE_FEEDS,    /* shipped profiles with their variables, which hold commas: blanks in the environment */
	VALUE_SWITCH,   /* a flag without a value */
	VALUE_HOSTS,    /* names, repeated likewise */
	VALUE_FILE_OF,  /* a file, whose first line is the value of the setting of that name without -file */
	VALUE_KEY_FILE, /* a file, whose first line is a key, of which only the file can be told */
	VALUE_NUMBER,
	VALUE_BYTES,   /* a number that may have a unit: 64M, 64MiB */
	VALUE_SECONDS, /* a duration such as 90, 90s, 15m, 12h or 30d, kept in seconds */
	VALUE_MS,      /* the same, kept in milliseconds */
	VALUE_POINTER, /* RFC 6901 */
	VALUE_POINTERS,
	VALUE_ADDRESS,  /* ADDR:PORT, or unix:/path */
	VALUE_FUNCTION, /* the name of an SQL function, with its schema */
	VALUE_NAME,     /* of a consumer; may be empty */
	VALUE_CHOICE,   /* one of some words */
};

/* What a value must be. */
struct value_form {
	enum value_type type;
	int64_t lowest; /* numbers and durations, as they are kept */
	int64_t highest;
	const char *choices; /* VALUE_CHOICE: words with one blank between */
};

bool value_is_list(enum value_type type);
bool value_is_number(enum value_type type);
/* What the user writes there is nobody else's business. */
bool value_is_secret(enum value_type type);

/* Is text one of the words in choices, which blanks keep apart? */
bool value_is_choice(const char *choices, const char *text);

/* What is wrong with text as such a value, as the rest of a sentence that begins with the text; NULL if it is fine.
 * It lives until the next call. Of a number, *number, if number is not NULL, gets it. */
const char *value_fault(const struct value_form *form, const char *text, int64_t *number);

#endif
