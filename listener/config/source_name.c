/* source_name.c counts lines, names the sources of --source, and tells those of consumers apart. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/url.h"
#include "config/config.h"

size_t config_lines_most(const struct config *c)
{
	size_t most = c->sources.count;

	for (size_t i = 0; i < c->feed_count; i++)
		most += (size_t)(c->feeds[i]->shard.var ? c->feeds[i]->shard.most : c->feeds[i]->lines);
	return most;
}

char *config_consumer_scope(const char *consumer)
{
	return *consumer ? memory_printf("consumer:%s:", consumer) : memory_strdup("");
}

char *config_source_name(const struct config *c, size_t i)
{
	const char *text = c->sources.items[i], *at = config_source_url(c, i);
	struct url url = {0};
	char *name = at > text ? memory_strndup(text, (size_t)(at - text - 1)) : NULL;

	if (!name && url_parse(&url, at) == 0)
		name = memory_printf("%s#%zu", url.host, i + 1);
	url_clear(&url);
	return name;
}

char *config_source_in_rows(const struct config *c, size_t i)
{
	char *redacted = url_redact(config_source_url(c, i));
	bool is_shared = config_source_url(c, i) != c->sources.items[i];

	for (size_t k = 0; k < c->sources.count && !is_shared; k++) {
		char *other = k == i ? NULL : url_redact(config_source_url(c, k));

		is_shared = other && strcmp(other, redacted) == 0;
		free(other);
	}
	if (!is_shared)
		return redacted;
	free(redacted);
	return config_source_name(c, i);
}
