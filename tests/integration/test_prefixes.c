/* One Redis for several databases: a prefix of claims belongs to one of them, and no two prefixes make the same key. */
#include "support.h"

#define ACK_MS 20000
#define KEY    "wsonce:{alive}:"
#define OTHER  "0fab1cde-0000-4000-8000-000000000002"

static struct database *db, *other;
static char prefix[80]; /* without its colon */

static void set_up(void)
{
	db = database_new();
	other = database_new();
	snprintf(prefix, sizeof prefix, "%.*s", (int)strlen(redisd_prefix()) - 1, redisd_prefix());
}

TestSuite(prefixes, .init = set_up, .timeout = 120);

static long announced(struct redisd *redis, const char *with);

static struct listener *start(struct database *on, const char *with)
{
	struct listener *l = listener_start(&(struct listener_options){.database = on, .prefix = with}, NULL);
	char *key = suite_text("%s%s", with, with[strlen(with) - 1] == ':' ? "" : ":");
	await(announced(redisd_shared(), key), ACK_MS);
	return l;
}

static void store(struct listener *l, const char *id)
{
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	cr_assert(peer_sendf(p, "{\"event_id\":\"%s\"}", id));
	ack_expect(p, id, "persisted");
	peer_free(p);
}

/* What a listener of another database says each second, with this prefix. */
static bool say_as_another(struct redisd *redis, const char *with)
{
	free(redisd_command(redis, "EVAL %s 1 " KEY "%s",
			    "return redis.call('HSET', KEYS[1], 'other.0123456789abcdef@', "
			    "redis.call('TIME')[1] .. '000 2 - w " OTHER " 0.1.0 ' .. string.char(10))",
			    with));
	return true;
}

/* How many listeners with this prefix say which database they use. */
static long announced(struct redisd *redis, const char *with)
{
	return redisd_long(redis, "EVAL %s 1 " KEY "%s",
			   "local n = 0 for _, said in ipairs(redis.call('HVALS', KEYS[1])) do "
			   "if string.find(said, ' 2 [^ ]+ w %x+%-') then n = n + 1 end end return n",
			   with);
}

/* Expects a listener for the other database to exit with status 2 and an error that says why. */
static void expect_refusal(const char *with)
{
	struct listener *l = listener_start(
		&(struct listener_options){.database = other, .prefix = with, .without_waiting = true}, NULL);

	cr_assert_eq(process_wait(listener_process(l), 20000), 2, "%s", process_last_words(listener_process(l)));
	char *log = process_errors(listener_process(l));
	cr_assert(strstr(log, "another database") && strstr(log, "choose another prefix"), "%s", log);
}

Test(prefixes, a_second_database_needs_a_prefix_of_its_own)
{
	struct listener *first = start(db, redisd_prefix()), *of_same = start(db, redisd_prefix()), *second;

	expect_refusal(redisd_prefix());
	char *own = suite_text("%s-staging", prefix);
	second = start(other, own);
	store(first, "id");
	store(of_same, "same");
	store(second, "id");
	cr_assert_not(listener_has_logged(first, "not using redis"), "who is refused disturbs those at work");
	cr_assert_eq(listener_stop(first), 0);
	/* One that is left works on. */
	expect_refusal(redisd_prefix());
	cr_assert_eq(listener_stop(of_same), 0);
	/* At once, as in a restart with another database. */
	listener_free(start(other, prefix));
}

/* Without the colon, both would have claimed <prefix>2-id. */
Test(prefixes, a_prefix_ends_where_the_id_begins)
{
	char key[120];
	char *longer = suite_text("%s2", prefix);
	struct listener *first = start(db, prefix);
	struct listener *second = start(other, longer);
	store(first, "2-id");
	store(second, "-id");
	snprintf(key, sizeof key, "%s:2-id", prefix);
	await(redisd_long(redisd_shared(), "EXISTS %s", key), ACK_MS, "%s is not there", key);
	snprintf(key, sizeof key, "%s2:-id", prefix);
	await(redisd_long(redisd_shared(), "EXISTS %s", key), ACK_MS, "%s is not there", key);
}

/* <prefix>:a:id is id for the one and a:id for the other. */
Test(prefixes, a_prefix_may_not_begin_with_that_of_another_database)
{
	start(db, prefix);
	char *longer = suite_text("%s:a", prefix);
	expect_refusal(longer);
}

/* Another fleet took the prefix. The listener keeps the events it has. */
Test(prefixes, a_listener_that_works_goes_on_without_redis_until_it_is_alone)
{
	struct redisd *redis = redisd_new();
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, NULL);

	store(l, "a");
	await(announced(redis, "p:"), ACK_MS);
	await(say_as_another(redis, "p:") && listener_has_logged(l, "not using redis"), ACK_MS);
	say_as_another(redis, "p:");
	await(listener_page_has(l, "/readyz", "degraded: redis is not used, because another database"), ACK_MS);
	say_as_another(redis, "p:");
	store(l, "b");
	cr_assert_eq(redisd_long(redis, "EXISTS p:b"), 0);
	await(listener_has_logged(l, "using redis again"), ACK_MS);
	store(l, "c");
	await(redisd_long(redis, "EXISTS p:c"), ACK_MS);
}

/* When Redis comes up, they have received events that exist nowhere else. */
Test(prefixes, listeners_that_received_without_redis_go_on_without_it)
{
	struct redisd *redis = redisd_new();
	struct listener_options options = {
		.database = db, .redis = redisd_url(redis), .prefix = "p", .is_redis_away = true};
	struct listener *l[3];
	char id[20];

	redisd_stop(redis);
	for (int i = 0; i < 3; i++) {
		l[i] = listener_start(&options, "--claim-ttl 2");
		snprintf(id, sizeof id, "before-%d", i);
		store(l[i], id);
	}
	redisd_start(redis);
	for (int i = 0; i < 3; i++)
		await(say_as_another(redis, "p:") && listener_has_logged(l[i], "not using redis"), ACK_MS);
	for (int i = 0; i < 3; i++) {
		say_as_another(redis, "p:");
		snprintf(id, sizeof id, "after-%d", i);
		store(l[i], id);
		cr_assert_eq(redisd_long(redis, "EXISTS p:%s", id), 0);
	}
	await(listener_has_logged(l[0], "using redis again"), ACK_MS);
	store(l[0], "last");
	await(redisd_long(redis, "EXISTS p:last"), ACK_MS);
}

/* Without its entry, another database could take the prefix. */
Test(prefixes, what_was_flushed_is_said_again)
{
	struct redisd *redis = redisd_new();
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, NULL);

	await(announced(redis, "p:") == 1, ACK_MS);
	redisd_command(redis, "FLUSHALL");
	await(announced(redis, "p:") == 1, ACK_MS);
	cr_assert_eq(listener_metric(l, "wsonce_redis_connects_total"), 1);
}

Test(prefixes, a_redis_that_refuses_beats_is_a_warning)
{
	struct redisd *redis = redisd_new();

	redisd_command(redis, "SET " KEY "p: text");
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, NULL);
	store(l, "a");
	await(redisd_long(redis, "EXISTS p:a"), ACK_MS);
	await(listener_has_logged(l, "redis rejects the beat"), ACK_MS);
}
