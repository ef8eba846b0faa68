/* reload.c owns what a listener does on SIGHUP. It reads all files before it changes anything; then each part takes
 * over what was read. */
#include "reload.h"

#include <string.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/tls.h"

struct names {
	struct bytes taken;
	struct bytes waiting; /* settings that need a restart */
};

static void on_change(void *arg, const char *name, bool is_taken)
{
	struct names *n = arg;
	struct bytes *b = is_taken ? &n->taken : &n->waiting;

	if (b->len)
		bytes_add_text(b, " ");
	bytes_add_text(b, name);
}

/* --- reading --- */

/* Returns 0, or drops what was read and returns -1 with a sentence in error. */
static int read_parts(const struct reload_parts *p, const struct config *fresh, char *error, size_t size)
{
	const char *why = config_judge_change(p->config, fresh);

	if (why)
		snprintf(error, size, "%s", why);
	if (why || tls_trusts_read(error, size))
		return -1;
	if (!p->ingest || !ingest_read_again(p->ingest, fresh, error, size)) {
		if (!p->posts || !posts_read_again(p->posts, fresh, error, size))
			return 0;
		if (p->ingest)
			ingest_leave(p->ingest);
	}
	tls_trusts_leave();
	return -1;
}

/* --- taking over --- */

static const char *text_of(struct bytes *b)
{
	return b->len ? bytes_text(b) : NULL;
}

static size_t count_tokens(const struct reload_parts *p)
{
	if (p->ingest)
		return tokens_count(ingest_token_list(p->ingest));
	return p->posts ? tokens_count(posts_tokens(p->posts)) : 0;
}

/* Logs the reload at the more verbose of the old and the new log level. */
static void tell(const struct reload_parts *p, const struct config *old, struct names *n, size_t certificates)
{
	const char *levels = "debug info warn error";
	bool is_louder = strstr(levels, p->config->log_level) < strstr(levels, old->log_level);

	if (is_louder)
		config_start_log(p->config);
	log_info("reloaded", "changed=%s tokens=%zu certificates=%zu webhooks=%zu needs_restart=%s", text_of(&n->taken),
		 count_tokens(p), certificates, p->config->webhooks.count, text_of(&n->waiting));
	if (!is_louder)
		config_start_log(p->config);
}

/* Keeps the limits that raise_limits() lowered, if their settings are unchanged. */
static void keep_limits(const struct reload_parts *p, struct config *fresh)
{
	if (fresh->ingest_connections == p->asked_connections && fresh->ingest_handshakes == p->asked_handshakes) {
		fresh->ingest_connections = p->config->ingest_connections;
		fresh->ingest_handshakes = p->config->ingest_handshakes;
	}
}

static void take(const struct reload_parts *p, struct config *fresh)
{
	struct names n = {.taken = {.len = 0}};
	size_t certificates = tls_trusts_take();
	unsigned int version = p->config->webhooks.version;

	keep_limits(p, fresh);
	config_change(p->config, fresh, on_change, &n);
	if (p->ingest) {
		ingest_take(p->ingest);
		certificates += p->config->ingest_cert != NULL;
	}
	if (p->posts)
		posts_take(p->posts);
	if (p->relay)
		relay_change(p->relay);
	if (p->sources)
		sources_reload(p->sources);
	if (p->config->webhooks.version != version)
		storing_hasten_checkin(pipeline_storing(p->pipeline));
	counters.reloads++;
	has_reload_failed = false;
	tell(p, fresh, &n, certificates);
	bytes_free(&n.taken);
	bytes_free(&n.waiting);
}

void reload(const struct reload_parts *p)
{
	struct config fresh;
	char error[400];

	if (config_read(&fresh, NULL, p->argc, p->argv, error, sizeof(error)) == 0 &&
	    read_parts(p, &fresh, error, sizeof(error)) == 0) {
		take(p, &fresh);
	} else {
		counters.reloads_failed++;
		has_reload_failed = true;
		log_error("cannot reload, keeping all settings", "reason=%s", error);
	}
	config_free(&fresh);
}
