/* reach.c checks URLs that a feed can influence: a profile may send secrets there, and a request may have side effects
 * on a server that trusts this one. */
#include "feed/reach.h"

#include <string.h>

#include "base/bytes.h"
#include "base/url.h"
#include "feed/template.h"

#define URL_MOST 65536 /* a URL may name a thousand streams */

/* What the profile's own URLs say about a host. */
struct reach {
	const struct profile *profile;
	struct vars first; /* the profile's initial variables */
	struct url to;
	bool is_own;    /* a URL of the profile has this host */
	bool needs_tls; /* every such URL has TLS */
	bool has_tls;   /* a URL of the profile has TLS, on any host */
};

static bool has_tls(const struct url *url)
{
	return url_has_scheme(url, "wss https");
}

/* Adds what one of the profile's URLs says. text is a template or NULL. */
static void take_own(struct reach *r, const char *text)
{
	struct template_scope scope = {.vars = &r->first};
	struct bytes rendered = {NULL, 0, 0};
	struct url own = {0};

	if (!text)
		return;
	template_fill(&rendered, text, &scope);
	if (url_parse(&own, bytes_text(&rendered)) == 0 && own.host[0]) {
		bool is_same = strcasecmp(own.host, r->to.host) == 0;

		r->is_own |= is_same;
		r->needs_tls &= !is_same || has_tls(&own);
		r->has_tls |= has_tls(&own);
	}
	url_clear(&own);
	bytes_free(&rendered);
}

static void take_all(struct reach *r)
{
	const struct profile *p = r->profile;
	size_t i;
	json_t *mirror;

	take_own(r, p->url);
	take_own(r, p->url_resume);
	take_own(r, p->url_http ? p->url_http->url : NULL);
	take_own(r, p->shard.http ? p->shard.http->url : NULL);
	take_own(r, p->fill.http ? p->fill.http->url : NULL);
	json_array_foreach(p->mirrors, i, mirror) take_own(r, json_string_value(mirror));
	for (i = 0; i < p->rule_count; i++)
		for (size_t k = 0; k < p->rules[i].http_count; k++)
			take_own(r, p->rules[i].http[k].url);
}

/* pattern is HOST or *.DOMAIN. */
static bool fits(const char *pattern, const char *host)
{
	size_t len = strlen(host), most;

	if (strncmp(pattern, "*.", 2) != 0)
		return strcasecmp(pattern, host) == 0;
	most = strlen(++pattern);
	return len > most && strcasecmp(host + len - most, pattern) == 0;
}

static bool is_listed(const struct reach *r)
{
	size_t i;
	json_t *pattern;

	json_array_foreach(r->profile->hosts, i, pattern) if (fits(json_string_value(pattern), r->to.host)) return true;
	return false;
}

/* True if the path has . or .. as a segment, which libcurl or a server would resolve: it would lead elsewhere. */
static bool has_dots(const char *path)
{
	for (; *path == '/'; path += 1 + strcspn(path + 1, "/?#")) {
		size_t dots = strspn(path + 1, ".");

		if ((dots == 1 || dots == 2) && strchr("/?#", path[1 + dots]))
			return true;
	}
	return false;
}

static const char *judge(struct reach *r, const char *url)
{
	if (strlen(url) > URL_MOST)
		return "the URL is longer than 64 KiB";
	if (url_parse(&r->to, url) || !r->to.host[0])
		return "the URL contains a blank or a control character, or no valid host";
	if (has_dots(r->to.path))
		return "the URL has . or .. in its path";
	take_all(r);
	if (!r->is_own && !is_listed(r))
		return "the URL leads to a host that the profile does not name: list it in hosts if you trust it";
	if (!has_tls(&r->to) && (r->is_own ? r->needs_tls : r->has_tls))
		return "the URL leads to a connection without TLS";
	return NULL;
}

const char *reach_fault(const struct profile *p, const char *url, bool *is_own)
{
	struct reach r = {.profile = p, .needs_tls = true};
	const char *fault;

	vars_init(&r.first, p->vars);
	fault = judge(&r, url);
	*is_own = r.is_own;
	url_clear(&r.to);
	vars_free(&r.first);
	return fault;
}
