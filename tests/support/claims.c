/* Claims seen from outside: plain commands on keys of this test's prefix. */
#include "claims.h"
#include "support.h"

char *claims_value(struct redisd *r, const char *id)
{
	return redisd_command(r, "GET %s%s", redisd_prefix(), id);
}

bool claims_has(struct redisd *r, const char *id)
{
	return redisd_long(r, "EXISTS %s%s", redisd_prefix(), id) == 1;
}

bool claims_is(struct redisd *r, const char *id, const char *value)
{
	char *now = claims_value(r, id);
	return now && strcmp(now, value) == 0;
}

bool claims_begins(struct redisd *r, const char *id, const char *head)
{
	char *now = claims_value(r, id);
	return now && strncmp(now, head, strlen(head)) == 0;
}

void claims_put(struct redisd *r, const char *id, const char *value, long ttl_ms)
{
	if (ttl_ms)
		redisd_command(r, "SET %s%s %s PX %ld", redisd_prefix(), id, value, ttl_ms);
	else
		redisd_command(r, "SET %s%s %s", redisd_prefix(), id, value);
}

void claims_put_mark(struct redisd *r, struct database *db, const char *id, const char *head, const char *tail)
{
	char *epoch = database_text(db, "select epoch from wsonce_epoch where xmin = home"), value[80];

	snprintf(value, sizeof value, "%s9700000000000.%s%s", head, epoch, tail);
	claims_put(r, id, value, 60000);
}

long claims_ttl_ms(struct redisd *r, const char *id)
{
	return redisd_long(r, "PTTL %s%s", redisd_prefix(), id);
}

long claims_open(struct redisd *r)
{
	const char *script =
		"local n = 0 local at = '0' repeat local page = redis.call('SCAN', at, 'MATCH', ARGV[1] .. '*', "
		"'COUNT', 1000) at = page[1] for _, key in ipairs(page[2]) do local value = redis.call('GET', key) if "
		"value and value:sub(1, 5) ~= 'done@' and value:sub(1, 5) ~= 'dead@' then n = n + 1 end end until at "
		"== '0' return n";

	return redisd_long(r, "EVAL %s 0 %s", script, redisd_prefix());
}
