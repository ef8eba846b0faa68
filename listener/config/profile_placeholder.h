/* profile_placeholder.h: finds ${...} in templates. profile_check.c checks them, feed/template.c fills them. */
#ifndef WSONCE_PROFILE_PLACEHOLDER_H
#define WSONCE_PROFILE_PLACEHOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum placeholder_kind {
	PLACEHOLDER_VALUE,     /* ${variable}, or ${/p}: a pointer into the frame */
	PLACEHOLDER_SECRET,    /* ${env:NAME}, ${file:/path} */
	PLACEHOLDER_TIME,      /* ${now_s}, ${now_ms+10000} */
	PLACEHOLDER_SIGNATURE, /* ${hmac_sha256_hex:KEY:TEXT}; KEY is a secret's placeholder */
};

enum placeholder_signature { SIGN_HMAC_HEX, SIGN_HMAC_BASE64, SIGN_RSA_PSS };

/* All texts point into the template. */
struct placeholder {
	enum placeholder_kind kind;
	bool is_text;      /* ${text:...}: never a number */
	const char *begin; /* its $ */
	const char *end;   /* after its closing brace */
	struct slice name; /* what the braces hold, without text: */
	int64_t unit_ms;   /* times: the unit, 1 or 1000 */
	int64_t more;      /* times: units to add */
	enum placeholder_signature how;
	struct slice key;  /* signatures: the name of the secret, as env:NAME */
	struct slice text; /* signatures: a template without signatures */
	const char *fault; /* why it is malformed; NULL: it is not */
};

/* Finds the first placeholder in text. Returns false if there is none, or after setting p->fault if it is malformed. */
bool placeholder_find(const char *text, struct placeholder *p);

#endif
