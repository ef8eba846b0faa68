/* One Redis for several databases: a prefix of claims belongs to one of them, and no two prefixes make the same key. */
#include "support.h"

#define ACK_MS 20000
#define KEY    "wsonce:prefixes"

static struct database *db, *other;
static char prefix[80]; /* without its colon */

static void set_up(void)
{
	db = database_new();
	other = database_new();
	snprintf(prefix, sizeof prefix, "%.*s", (int)strlen(redisd_prefix()) - 1, redisd_prefix());
}

TestSuite(prefixes, .init = set_up, .timeout = 120);

static struct listener *start(struct database *on, const char *with)
{
	return listener_start(&(struct listener_options){.database = on, .prefix = with}, NULL);
}

static void store(struct listener *l, const char *id)
{
	struct peer *p = peer_open_events(listener_ingest_port(l), "wsonce.ack.v1");

	cr_assert(peer_sendf(p, "{\"event_id\":\"%s\"}", id));
	ack_expect(p, id, "persisted");
	peer_free(p);
}

/* Expects a listener for the other database to exit with status 2 and an error that names the conflicting prefix. */
static void expect_refusal(const char *with, const char *in_the_way)
{
	struct listener *l = listener_start(
		&(struct listener_options){.database = other, .prefix = with, .without_waiting = true}, NULL);
	char way_out[200];

	cr_assert_eq(process_wait(listener_process(l), 20000), 2, "%s", process_last_words(listener_process(l)));
	char *log = process_errors(listener_process(l));
	snprintf(way_out, sizeof way_out, "redis-cli HDEL " KEY " %s", in_the_way);
	cr_assert(strstr(log, "another database") && strstr(log, way_out), "%s", log);
}

Test(prefixes, a_second_database_needs_a_prefix_of_its_own)
{
	struct listener *first = start(db, redisd_prefix()), *second;
	char own[100];

	expect_refusal(redisd_prefix(), redisd_prefix());
	snprintf(own, sizeof own, "%s-staging", prefix);
	second = start(other, own);
	store(first, "id");
	store(second, "id");
}

Test(prefixes, the_same_database_may_be_used_by_many)
{
	struct listener *first = start(db, redisd_prefix()), *second = start(db, redisd_prefix());

	store(first, "a");
	store(second, "b");
}

/* Without the colon, both would have claimed <prefix>2-id. */
Test(prefixes, a_prefix_ends_where_the_id_begins)
{
	struct listener *first, *second;
	char longer[100], key[120];

	snprintf(longer, sizeof longer, "%s2", prefix);
	first = start(db, prefix);
	second = start(other, longer);
	store(first, "2-id");
	store(second, "-id");
	snprintf(key, sizeof key, "%s:2-id", prefix);
	cr_assert(wait_until(redisd_long(redisd_shared(), "EXISTS %s", key), ACK_MS), "%s is not there", key);
	snprintf(key, sizeof key, "%s2:-id", prefix);
	cr_assert(wait_until(redisd_long(redisd_shared(), "EXISTS %s", key), ACK_MS), "%s is not there", key);
}

/* <prefix>:a:id is id for the one and a:id for the other. */
Test(prefixes, a_prefix_may_not_begin_with_that_of_another_database)
{
	char longer[100];

	start(db, prefix);
	snprintf(longer, sizeof longer, "%s:a", prefix);
	expect_refusal(longer, redisd_prefix());
}

Test(prefixes, a_prefix_whose_database_is_no_more_can_be_freed)
{
	struct listener *first = start(db, prefix);

	cr_assert(wait_until(redisd_long(redisd_shared(), "HEXISTS " KEY " %s", redisd_prefix()), ACK_MS));
	listener_free(first);
	expect_refusal(prefix, redisd_prefix());
	cr_assert_eq(redisd_long(redisd_shared(), "HDEL " KEY " %s", redisd_prefix()), 1);
	listener_free(start(other, prefix));
}

Test(prefixes, a_prefix_that_a_shell_would_run_is_no_part_of_a_command)
{
	struct listener *l;

	redisd_command(redisd_shared(), "HSET " KEY " %s:$(id) another-database", redisd_prefix());
	l = listener_start(&(struct listener_options){.database = db, .without_waiting = true}, NULL);
	cr_assert_eq(process_wait(listener_process(l), 20000), 2, "%s", process_last_words(listener_process(l)));
	cr_assert(strstr(process_errors(listener_process(l)), "delete that field of the hash " KEY) &&
			  !strstr(process_errors(listener_process(l)), "HDEL"),
		  "%s", process_errors(listener_process(l)));
	redisd_command(redisd_shared(), "HDEL " KEY " %s:$(id)", redisd_prefix());
}

/* After a flush of Redis, another fleet took the prefix. The listener keeps the events it has. */
Test(prefixes, a_listener_that_works_goes_on_without_redis)
{
	struct redisd *redis = redisd_new();
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, NULL);

	store(l, "a");
	cr_assert_eq(redisd_long(redis, "HSET " KEY " p: %s", "another"), 0);
	redisd_command(redis, "CLIENT KILL TYPE normal SKIPME yes");
	cr_assert(wait_until(listener_has_logged(l, "not using redis"), ACK_MS));
	store(l, "b");
	cr_assert_eq(redisd_long(redis, "EXISTS p:b"), 0);
}

/* When Redis comes up, they have received events that exist nowhere else. */
Test(prefixes, listeners_that_received_without_redis_go_on_without_it)
{
	struct redisd *redis = redisd_new();
	struct listener_options options = {
		.database = db, .redis = redisd_url(redis), .prefix = "p", .is_redis_away = true};
	struct listener *l[3];
	char id[20];

	cr_assert_eq(redisd_long(redis, "HSET " KEY " p: %s", "another"), 1);
	free(redisd_command(redis, "SAVE"));
	redisd_stop(redis);
	for (int i = 0; i < 3; i++) {
		l[i] = listener_start(&options, "--claim-ttl 2");
		snprintf(id, sizeof id, "before-%d", i);
		store(l[i], id);
	}
	redisd_start(redis);
	for (int i = 0; i < 3; i++) {
		cr_assert(wait_until(listener_has_logged(l[i], "not using redis"), ACK_MS));
		snprintf(id, sizeof id, "after-%d", i);
		store(l[i], id);
		cr_assert_eq(redisd_long(redis, "EXISTS p:%s", id), 0);
	}
	cr_assert_eq(redisd_long(redis, "HDEL " KEY " p:"), 1);
	cr_assert(wait_until(listener_has_logged(l[0], "using redis again"), ACK_MS));
	store(l[0], "last");
	cr_assert(wait_until(redisd_long(redis, "EXISTS p:last"), ACK_MS));
}

static long entries(struct redisd *redis)
{
	return redisd_long(redis, "HEXISTS " KEY " p:");
}

/* With producers only, there are no heartbeats. Without its entry, another database could take the prefix. */
Test(prefixes, a_flushed_registry_is_made_again)
{
	struct redisd *redis = redisd_new();
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, "--claim-ttl 2");

	cr_assert(wait_until(entries(redis) == 1, ACK_MS));
	redisd_command(redis, "FLUSHALL");
	cr_assert(wait_until(entries(redis) == 1, ACK_MS));
	cr_assert_eq(listener_metric(l, "wsonce_redis_connects_total"), 1);
}

Test(prefixes, a_prefix_that_another_database_gives_up_is_used_again)
{
	struct redisd *redis = redisd_new();
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, "--claim-ttl 2");

	cr_assert(wait_until(entries(redis) == 1, ACK_MS));
	redisd_long(redis, "HSET " KEY " p: %s", "another");
	cr_assert(wait_until(listener_has_logged(l, "not using redis"), ACK_MS));
	cr_assert_eq(redisd_long(redis, "HDEL " KEY " p:"), 1);
	cr_assert(wait_until(listener_has_logged(l, "using redis again"), ACK_MS));
	store(l, "a");
	cr_assert(wait_until(redisd_long(redis, "EXISTS p:a"), ACK_MS));
}

Test(prefixes, a_registry_that_cannot_be_written_is_a_warning)
{
	struct redisd *redis = redisd_new();

	redisd_command(redis, "SET " KEY " text");
	struct listener *l = listener_start(
		&(struct listener_options){.database = db, .redis = redisd_url(redis), .prefix = "p"}, NULL);
	store(l, "a");
	cr_assert(wait_until(redisd_long(redis, "EXISTS p:a"), ACK_MS));
	cr_assert(listener_has_logged(l, "cannot register the claim prefix"));
}
