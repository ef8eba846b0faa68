/* check.c checks settings that depend on each other. */
#include <openssl/ssl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/tls.h"
#include "base/url.h"
#include "config/setting.h"

/* Returns a fault that names a file, valid until the next call. */
__attribute__((format(printf, 1, 2))) static const char *say(const char *format, ...)
{
	static char fault[400];
	va_list args;

	va_start(args, format);
	vsnprintf(fault, sizeof(fault), format, args);
	va_end(args);
	return fault;
}

bool check_is_pair(const char *cert, const char *key)
{
	SSL_CTX *scratch = SSL_CTX_new(TLS_server_method());
	bool result = scratch && !tls_show(scratch, cert, key);

	SSL_CTX_free(scratch);
	return result;
}

/* Checks the files of --NAME-cert and --NAME-key, or that neither is given. */
static const char *check_pair(const char *name, const char *cert, const char *key)
{
	if (!cert != !key)
		return say("--%s-cert and --%s-key go together: one of them is missing", name, name);
	if (cert && !file_is_readable(cert))
		return say("--%s-cert: %s cannot be read: %s", name, cert, strerror(errno));
	if (key && !file_is_readable(key))
		return say("--%s-key: %s cannot be read: %s", name, key, strerror(errno));
	if (cert && !check_is_pair(cert, key))
		return say("--%s-cert, --%s-key: the files are not a certificate and its key (PEM, without a password)",
			   name, name);
	return NULL;
}

/* True if producers must show a token or a certificate, or by HTTP a signature. */
static bool has_key(const struct config *c, bool is_http)
{
	const json_t *own = c->ingest_profile ? c->ingest_profile->tokens : NULL;

	return c->ingest_token || c->ingest_token_file || c->ingest_client_ca || json_array_size(own) ||
	       json_object_size(own) || (is_http && c->ingest_webhook_secret_file);
}

/* True if an address, which stays in use until a restart, would lose its tokens at once. There may be a proxy in front
 * of a loopback address. */
static bool loses_key(const struct config *old, const struct config *now, const char *address, const char *fresh,
		      bool is_http)
{
	return address && has_key(old, is_http) && !has_key(now, is_http) && !now->ingest_open &&
	       !(url_is_loopback(address) && is_same_text(address, fresh));
}

const char *config_judge_change(const struct config *config, const struct config *fresh)
{
	struct config now = *config;

	now.ingest_token = fresh->ingest_token;
	now.ingest_token_file = fresh->ingest_token_file;
	now.ingest_webhook_secret_file = fresh->ingest_webhook_secret_file;
	now.ingest_open = fresh->ingest_open;
	return loses_key(config, &now, now.ingest, fresh->ingest, false) ||
			       loses_key(config, &now, now.ingest_http, fresh->ingest_http, true)
		       ? "without a token anybody could send to the address of --ingest or --ingest-http, which stays "
			 "in use until a restart: restart instead, or keep the token"
		       : NULL;
}

/* Two servers cannot open the same port. */
static const char *check_ports(const struct config *c)
{
	const char *const all[] = {c->ingest, c->ingest_http, c->admin};

	for (size_t i = 0; i < 3; i++)
		for (size_t k = i + 1; k < 3; k++)
			if (all[i] && all[k] && strcmp(all[i], all[k]) == 0 &&
			    (strlen(all[i]) < 2 || strcmp(all[i] + strlen(all[i]) - 2, ":0") != 0))
				return "--ingest, --ingest-http, --admin: two of them have the same address; give each "
				       "its own port";
	return NULL;
}

/* A listener must not accept producers from everywhere by accident. */
static const char *check_ingest(const struct config *c)
{
	if (c->ingest_profile && !c->ingest && !c->ingest_http)
		return "--ingest-profile: needs --ingest, the address for producers";
	if (c->ingest_webhook_secret_file && !c->ingest_http)
		return "--ingest-webhook-secret-file: needs --ingest-http, where webhooks are sent to";
	if (c->ingest_cert && c->ingest_http && !c->ingest)
		return "--ingest-cert: needs --ingest; the port of --ingest-http has no TLS";
	if (c->ingest_http && !has_key(c, true) && !c->ingest_open && !url_is_loopback(c->ingest_http))
		return "--ingest-http: the address is not loopback and there is no token, so anybody could send: give "
		       "--ingest-token-file (or --ingest-token, or --ingest-webhook-secret-file), or --ingest-open if "
		       "that is what you want";
	if (c->ingest_http && c->ingest_client_ca && !c->ingest_token && !c->ingest_token_file &&
	    !c->ingest_webhook_secret_file)
		return "--ingest-http: --ingest-client-ca requires certificates, which HTTP producers cannot send: "
		       "give --ingest-token-file or --ingest-webhook-secret-file, too";
	if (c->ingest_token && c->ingest_token_file)
		return "--ingest-token and --ingest-token-file exclude each other: put the token into the file";
	if (c->ingest && !has_key(c, false) && !c->ingest_open && !url_is_loopback(c->ingest))
		return "--ingest: the address is not loopback and there is no token, so anybody could send: give "
		       "--ingest-token-file (or --ingest-token, or --ingest-client-ca), or --ingest-open if that is "
		       "what you want";
	if (c->ingest_client_ca && !c->ingest_cert)
		return "--ingest-client-ca: needs --ingest-cert, since certificates are part of TLS";
	if (c->ingest_client_ca && !tls_holds_certificates(c->ingest_client_ca))
		return say("--ingest-client-ca: %s cannot be read, or holds no certificate", c->ingest_client_ca);
	return check_pair("ingest", c->ingest_cert, c->ingest_key);
}

/* True if a source of --source and another source have the same NAME. */
static bool has_namesakes(const struct config *c)
{
	for (size_t i = 0; i < c->sources.count; i++) {
		const char *text = c->sources.items[i];
		size_t len = (size_t)(config_source_url(c, i) - text);

		for (size_t k = i + 1; len && k < c->sources.count; k++)
			if (strncmp(text, c->sources.items[k], len) == 0)
				return true;
		for (size_t k = 0; len && k < c->feed_count; k++)
			if (strlen(c->feeds[k]->name) == len - 1 && memcmp(text, c->feeds[k]->name, len - 1) == 0)
				return true;
	}
	return false;
}

/* True if a feed may have the name of another one's connection, NAME/1. */
static bool has_name_of_shard(const struct config *c)
{
	for (size_t i = 0; i < c->feed_count; i++) {
		const char *name = c->feeds[i]->name;
		size_t len = strlen(name);

		for (size_t k = 0; k < c->feed_count && c->feeds[i]->shard.var; k++)
			if (strncmp(c->feeds[k]->name, name, len) == 0 && c->feeds[k]->name[len] == '/')
				return true;
	}
	return false;
}

static const char *check_sources(const struct config *c)
{
	if (has_namesakes(c))
		return "--source: two sources have the same NAME";
	if (has_name_of_shard(c))
		return "sources: a source has the name of a connection of another source (NAME/1): give it another "
		       "\"name\"";
	return check_pair("source", c->source_cert, c->source_key);
}

/* With TLS, checks the authorities we trust and our own certificate. */
static const char *check_redis(const struct config *c)
{
	struct tls_trust *trust;
	const char *fault = NULL;

	if (!c->redis_cert != !c->redis_key)
		return "--redis-cert and --redis-key go together: one of them is missing";
	if (strncmp(c->redis, "rediss", 6) != 0)
		return c->redis_cert ? "--redis-cert: needs TLS, a --redis that begins with rediss://" : NULL;
	trust = tls_trust_new(c->redis_ca);
	if (!trust)
		return say("--redis-ca: %s cannot be read, or holds no certificates", c->redis_ca);
	if (c->redis_cert && tls_trust_identify(trust, c->redis_cert, c->redis_key))
		fault = "--redis-cert, --redis-key: the files are not a certificate and its key (PEM)";
	tls_trust_free(trust);
	return fault;
}

/* True if some events may come without a profile. Commands other than listen do not read the feeds in the file. */
static bool has_plain_events(const struct config *c, bool is_listen)
{
	if (!is_listen)
		return !c->file && !c->feed_specs.count;
	return c->sources.count || (!c->ingest_profile && (c->ingest || c->ingest_http));
}

const char *check_settings(const struct config *c, bool is_listen)
{
	const char *fault;

	if (is_listen && c->sources.count == 0 && c->feed_count == 0 && !c->ingest && !c->ingest_http)
		return "nothing to listen to: give --source URL, --feed NAME, --ingest ADDR:PORT or several of them";
	if (c->id_pointers.count > 8)
		return "--id-pointer: an id has at most 8 parts";
	if (strlen(c->instance_id) == 0 || strlen(c->instance_id) > 200)
		return "--instance-id: must have 1 to 200 bytes";
	if (strchr(c->instance_id, '@'))
		return "--instance-id: must not contain @, which ends the name in a claim";
	if (strncmp(c->claim_prefix, "wsonce", 6) == 0 && strchr(":", c->claim_prefix[6]))
		return "--claim-prefix: must not begin with wsonce:, like the program's own keys";
	if (c->max_age_s && !c->time_pointer && has_plain_events(c, is_listen))
		return "--max-age: needs --time-pointer, which says where an event's time is";
	if (*c->consumer && config_store_path(c))
		return "--consumer: needs Postgres; it does not work with --store sqlite://";
	if (c->webhooks.count && config_store_path(c))
		return "webhooks: need Postgres, which has the outbox; they do not work with --store sqlite://";
	fault = check_redis(c);
	if (fault || !is_listen)
		return fault;
	if (c->readers && strcmp(c->redis, "none") == 0)
		return "--readers: needs --redis, through which the listeners find each other";
	fault = check_ports(c);
	fault = fault ? fault : check_ingest(c);
	return fault ? fault : check_sources(c);
}
