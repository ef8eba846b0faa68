/* change.c compares the settings in use with fresh ones, and changes those that a running listener can change. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/setting.h"

/* Other settings, such as sizes and addresses, need a restart. The contents of files, such as tokens and certificates,
 * are reloaded elsewhere. */
static const char changeable[] = "log-level log-format ingest-token ingest-token-file "
				 "ingest-webhook-secret-file";

struct change {
	struct config *config;
	struct config *fresh;
	config_change_cb *each;
	void *arg;
};

static bool is_same_list(const struct config_list *a, const struct config_list *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && strcmp(a->items[i], b->items[i]) == 0)
		i++;
	return i == a->count && i == b->count;
}

static bool is_same(const struct change *c, const struct setting *s)
{
	const void *a = setting_member(c->config, s), *b = setting_member(c->fresh, s);

	if (s->form.type == VALUE_FILE_OF)
		return true; /* its text is compared as the value of the other setting */
	if (s->form.type == VALUE_SWITCH)
		return *(const bool *)a == *(const bool *)b;
	if (value_is_number(s->form.type))
		return *(const int64_t *)a == *(const int64_t *)b;
	if (value_is_list(s->form.type))
		return is_same_list(a, b);
	return is_same_text(*(char *const *)a, *(char *const *)b);
}

static void change_setting(const struct change *c, const struct setting *s, size_t i)
{
	char **at = setting_member(c->config, s), **fresh = setting_member(c->fresh, s), *old = *at;
	unsigned char origin = c->config->origins[i];

	*at = *fresh;
	*fresh = old;
	c->config->origins[i] = c->fresh->origins[i];
	c->fresh->origins[i] = origin;
}

/* --- webhooks --- */

/* Going from no webhook to some, or back, needs a restart: what a listener checks and prepares in Postgres when it
 * connects depends on it. */
static void change_webhooks(const struct change *c)
{
	struct webhooks old = c->config->webhooks;
	bool is_taken = !old.count == !c->fresh->webhooks.count;

	if (webhooks_are_same(&old, &c->fresh->webhooks))
		return;
	if (is_taken) {
		c->config->webhooks = c->fresh->webhooks;
		c->config->webhooks.version = old.version + 1;
		c->fresh->webhooks = old;
	}
	c->each(c->arg, "webhooks", is_taken);
}

/* --- profiles --- */

static bool is_same_profile(const struct profile *a, const struct profile *b)
{
	return a == b || (a && b && json_equal(a->root, b->root));
}

static void name_profile(const struct change *c, const struct profile *p, bool is_taken)
{
	AUTO_FREE char *name = memory_printf("profile:%s", p->name);

	c->each(c->arg, name, is_taken);
}

/* Takes over another list for the connections of a shard, if nothing else has changed. */
static bool take_list(struct profile *p, const struct profile *fresh)
{
	json_t *vars = (json_t *)p->vars, *list;

	if (!fresh || !p->shard.var || !fresh->vars || !(list = json_object_get(vars, p->shard.var)))
		return false;
	json_incref(list);
	json_object_set(vars, p->shard.var, json_object_get(fresh->vars, p->shard.var));
	bool has_new_list_only = is_same_profile(p, fresh);

	if (!has_new_list_only)
		json_object_set(vars, p->shard.var, list);
	json_decref(list);
	return has_new_list_only;
}

static void compare_profiles(const struct change *c)
{
	const struct config *old = c->config, *fresh = c->fresh;

	for (size_t i = 0; i < old->feed_count; i++) {
		const struct profile *now = config_find_feed(fresh, old->feeds[i]->name);

		if (!is_same_profile(old->feeds[i], now))
			name_profile(c, old->feeds[i], take_list(old->feeds[i], now));
	}
	for (size_t i = 0; i < fresh->feed_count; i++)
		if (!config_find_feed(old, fresh->feeds[i]->name))
			name_profile(c, fresh->feeds[i], false);
	if (!is_same_profile(old->ingest_profile, fresh->ingest_profile))
		c->each(c->arg, "ingest-profile", false);
}

void config_change(struct config *config, struct config *fresh, config_change_cb *each, void *arg)
{
	const struct change c = {config, fresh, each, arg};
	const struct setting *s;

	for (size_t i = 0; (s = setting_at(i)); i++) {
		bool is_taken = is_one_of(changeable, s->flag);

		if (is_same(&c, s) || strcmp(s->flag, "feed") == 0 || /* compare_profiles() names both */
		    (strcmp(s->flag, "ingest-profile") == 0 && fresh->ingest_profile))
			continue;
		if (is_taken)
			change_setting(&c, s, i);
		each(arg, s->flag, is_taken);
	}
	change_webhooks(&c);
	compare_profiles(&c);
}
