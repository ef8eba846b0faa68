/* registry.c owns the entry of our prefix in Redis's table of prefixes and databases. The keys themselves are
 * claim.c's. */
#include "road/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "redis/reply.h"
#include "register.lua.h"

#define KEY "wsonce:prefixes"

/* A shell would run what is in it, if the command were copied. */
static bool is_plain(const char *text)
{
	return !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._-")];
}

static void find_foreign(struct registry *r, const char *prefix, const char *database)
{
	char sentence[1200];

	snprintf(sentence, sizeof(sentence),
		 "--claim-prefix %.300s: in this Redis %.300s is the prefix of another database, with the id %.40s; "
		 "choose "
		 "another prefix, or, if that database is no more, %s%.300s",
		 r->prefix, prefix, database,
		 is_plain(prefix) ? "run redis-cli HDEL " KEY " " : "delete that field of the hash " KEY,
		 is_plain(prefix) ? prefix : "");
	redis_mask(r->redis, sentence);
	if (r->is_foreign)
		return; /* that is known */
	if (!r->was_ours)
		r->on_foreign(r->arg, sentence);
	log_warn("not using redis; the unique key decides", "reason=%s", sentence);
}

/* A prefix that is in the way, and its database? */
static bool is_foreign(const struct redis_reply *reply)
{
	return reply->type == REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REPLY_STRING &&
	       reply->element[1]->type == REPLY_STRING;
}

static void on_entered(void *owner, void *arg, const struct redis_reply *reply)
{
	struct registry *r = arg;

	(void)owner;
	if (!reply)
		return;
	if (reply->type == REPLY_ERROR)
		log_write(r->has_error_logged ? LOG_DEBUG : LOG_WARN, "cannot register the claim prefix in redis",
			  "reason=%s", reply->str);
	r->has_error_logged = reply->type == REPLY_ERROR;
	if (is_foreign(reply)) {
		find_foreign(r, reply->element[0]->str, reply->element[1]->str);
		r->is_foreign = true;
	} else if (reply->type == REPLY_NIL) {
		if (r->is_foreign)
			log_info("using redis again", "prefix=%s", r->prefix);
		r->is_foreign = false;
		r->was_ours = true;
	}
}

void registry_enter(struct registry *r)
{
	if (!*r->database || !r->redis || redis_state(r->redis) != REDIS_READY)
		return;
	resp_start(&r->command, 6);
	resp_word(&r->command, "EVAL");
	resp_word(&r->command, LUA_REGISTER);
	resp_word(&r->command, "1");
	resp_word(&r->command, KEY);
	resp_word(&r->command, r->prefix);
	resp_word(&r->command, r->database);
	redis_send(r->redis, r->command.bytes, r->command.len, on_entered, r);
}

void registry_set_database(struct registry *r, const char *id)
{
	if (strcmp(r->database, id) == 0)
		return;
	snprintf(r->database, sizeof(r->database), "%s", id);
	registry_enter(r);
}

void registry_free(struct registry *r)
{
	resp_free(&r->command);
}
