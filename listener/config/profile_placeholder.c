/* profile_placeholder.c owns the grammar of ${...}. Most placeholders end at the first closing brace. A
 * signature ends at the first one without its opening brace in TEXT, where ${...} are skipped as a whole. */
#include "config/profile_placeholder.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 12 /* digits of the number added to a time */

static bool skip(const char **at, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*at, word, len) != 0)
		return false;
	*at += len;
	return true;
}

static bool read_time(struct placeholder *p)
{
	const char *at = p->name.at, *end = at + p->name.len;
	char *behind;

	p->unit_ms = skip(&at, "now_ms") ? 1 : skip(&at, "now_s") ? 1000 : 0;
	p->more = 0;
	if (!p->unit_ms || at == end)
		return p->unit_ms;
	p->more = strtoll(at, &behind, 10);
	return (*at == '+' || *at == '-') && end - at <= 1 + DIGITS_MAX && behind == end;
}

/* Returns the brace that ends the TEXT of a signature, or NULL. */
static const char *find_close(const char *at)
{
	long open = 0;

	for (at = strpbrk(at, "${}"); at; at = strpbrk(at + 1, "${}")) {
		if (*at == '}' && !open--)
			return at;
		open += *at == '{';
		if (*at == '$' && at[1] == '{' && !(at = strchr(at, '}')))
			return NULL;
	}
	return NULL;
}

/* Reads KEY:TEXT. */
static void read_signature(struct placeholder *p, const char *at)
{
	const char *close = strchr(at, '}');
	bool is_env = strncmp(at, "${env:", 6) == 0, is_file = strncmp(at, "${file:", 7) == 0;

	p->kind = PLACEHOLDER_SIGNATURE;
	if (!(is_file || (is_env && p->how != SIGN_RSA_PSS)) || !close || close[1] != ':') {
		p->fault = p->how == SIGN_RSA_PSS
				   ? "the key of an RSA signature must be ${file:/path}, and then a colon"
				   : "the key of a signature must be ${env:NAME} or ${file:/path}, and "
				     "then a colon";
		return;
	}
	p->key = (struct slice){at + 2, (size_t)(close - at - 2)};
	p->text.at = close + 2;
	close = find_close(p->text.at);
	p->text.len = close ? (size_t)(close - p->text.at) : 0;
	p->end = close ? close + 1 : NULL;
}

static bool is_signature(struct placeholder *p, const char **at)
{
	static const char *const words[] = {"hmac_sha256_hex:", "hmac_sha256_base64:", "rsa_pss_sha256_base64:"};

	for (p->how = SIGN_HMAC_HEX; p->how <= SIGN_RSA_PSS; p->how++)
		if (skip(at, words[p->how]))
			return true;
	return false;
}

bool placeholder_find(const char *text, struct placeholder *p)
{
	const char *at, *close;

	*p = (struct placeholder){.begin = strstr(text, "${")};
	if (!p->begin)
		return false;
	at = p->begin + 2;
	close = strchr(at, '}');
	p->is_text = skip(&at, "text:");
	p->name = (struct slice){at, close ? (size_t)(close - at) : 0};
	p->end = close ? close + 1 : NULL;
	if (strncmp(at, "env:", 4) == 0 || strncmp(at, "file:", 5) == 0)
		p->kind = PLACEHOLDER_SECRET;
	else if (read_time(p))
		p->kind = PLACEHOLDER_TIME;
	else if (is_signature(p, &at))
		read_signature(p, at);
	if (!p->end && !p->fault)
		p->fault = "a ${ without its }";
	return !p->fault;
}
