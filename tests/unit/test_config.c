/* Where settings are read from, which origin wins, and the errors about wrong ones. */
#include "config/config.h"
#include "base/memory.h"
#include "unit.h"
#include <sys/stat.h>

static struct config config;
static char error[400];

/* Every setting, with a value that is wrong for it, if there is one. */
static const struct {
	const char *flag;
	const char *env;
	const char *wrong;
} settings[] = {
	{"source", "WSONCE_SOURCE", "http://h"},
	{"feed", "WSONCE_FEED", "?symbols=A"},
	{"source-ca", "WSONCE_SOURCE_CA", NULL},
	{"source-cert", "WSONCE_SOURCE_CERT", "/nowhere/cert.pem"},
	{"source-key", "WSONCE_SOURCE_KEY", "/nowhere/key.pem"},
	{"source-proxy", "WSONCE_SOURCE_PROXY", "https://h:3128"},
	{"source-uncompressed", "WSONCE_SOURCE_UNCOMPRESSED", "perhaps"},
	{"readers", "WSONCE_READERS", "-1"},
	{"ping-interval", "WSONCE_PING_INTERVAL", "0"},
	{"idle-timeout", "WSONCE_IDLE_TIMEOUT", "-1"},
	{"ingest", "WSONCE_INGEST", "8080"},
	{"ingest-token", "WSONCE_INGEST_TOKEN", NULL},
	{"ingest-http", "WSONCE_INGEST_HTTP", "8080"},
	{"ingest-profile", "WSONCE_INGEST_PROFILE", NULL},
	{"ingest-token-file", "WSONCE_INGEST_TOKEN_FILE", "/nowhere/tokens"},
	{"ingest-webhook-secret-file", "WSONCE_INGEST_WEBHOOK_SECRET_FILE", "/nowhere/secrets"},
	{"ingest-open", "WSONCE_INGEST_OPEN", "perhaps"},
	{"ingest-origin", "WSONCE_INGEST_ORIGIN", "example.com"},
	{"ingest-cert", "WSONCE_INGEST_CERT", "/nowhere/cert.pem"},
	{"ingest-key", "WSONCE_INGEST_KEY", "/nowhere/key.pem"},
	{"ingest-client-ca", "WSONCE_INGEST_CLIENT_CA", "/nowhere/ca.pem"},
	{"ingest-max-connections", "WSONCE_INGEST_MAX_CONNECTIONS", "0"},
	{"ingest-max-handshakes", "WSONCE_INGEST_MAX_HANDSHAKES", "0"},
	{"ingest-max-per-address", "WSONCE_INGEST_MAX_PER_ADDRESS", "-1"},
	{"handshake-timeout", "WSONCE_HANDSHAKE_TIMEOUT", "1.5"},
	{"message-timeout", "WSONCE_MESSAGE_TIMEOUT", "0"},
	{"redis", "WSONCE_REDIS", "http://h"},
	{"redis-ca", "WSONCE_REDIS_CA", NULL},
	{"redis-cert", "WSONCE_REDIS_CERT", "/nowhere/cert.pem"},
	{"redis-key", "WSONCE_REDIS_KEY", "/nowhere/key.pem"},
	{"redis-timeout", "WSONCE_REDIS_TIMEOUT", "0"},
	{"store", "WSONCE_STORE", "mysql://h"},
	{"postgres", "WSONCE_POSTGRES", NULL},
	{"redis-file", "WSONCE_REDIS_FILE", "/nowhere/redis"},
	{"source-file", "WSONCE_SOURCE_FILE", "/nowhere/sources"},
	{"feed-file", "WSONCE_FEED_FILE", "/nowhere/feeds"},
	{"source-proxy-file", "WSONCE_SOURCE_PROXY_FILE", "/nowhere/proxy"},
	{"postgres-file", "WSONCE_POSTGRES_FILE", "/nowhere/postgres"},
	{"postgres-timeout", "WSONCE_POSTGRES_TIMEOUT", "soon"},
	{"postgres-connections", "WSONCE_POSTGRES_CONNECTIONS", "3"},
	{"admin", "WSONCE_ADMIN", "localhost:http"},
	{"admin-host", "WSONCE_ADMIN_HOST", "example.com:9090"},
	{"instance-id", "WSONCE_INSTANCE_ID", NULL},
	{"claim-prefix", "WSONCE_CLAIM_PREFIX", NULL},
	{"claim-ttl", "WSONCE_CLAIM_TTL", "86401"},
	{"dedup-window", "WSONCE_DEDUP_WINDOW", "300x"},
	{"marks-key-file", "WSONCE_MARKS_KEY_FILE", "/nowhere/key"},
	{"batch-max", "WSONCE_BATCH_MAX", "99999999999999999999"},
	{"max-inflight-bytes", "WSONCE_MAX_INFLIGHT_BYTES", "1023"},
	{"max-message", "WSONCE_MAX_MESSAGE", "1MB"},
	{"max-attempts", "WSONCE_MAX_ATTEMPTS", "0x5"},
	{"drain-timeout", "WSONCE_DRAIN_TIMEOUT", "nan"},
	{"id-pointer", "WSONCE_ID_POINTER", "event_id"},
	{"type-pointer", "WSONCE_TYPE_POINTER", "/a~2"},
	{"payload-pointer", "WSONCE_PAYLOAD_POINTER", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"},
	{"traceparent-pointer", "WSONCE_TRACEPARENT_POINTER", "trace"},
	{"time-pointer", "WSONCE_TIME_POINTER", "time"},
	{"time-unit", "WSONCE_TIME_UNIT", "minutes"},
	{"max-age", "WSONCE_MAX_AGE", "30"},
	{"unsettled-warning", "WSONCE_UNSETTLED_WARNING", "1m30s"},
	{"lines-keep", "WSONCE_LINES_KEEP", "30"},
	{"handler", "WSONCE_HANDLER", "on_event"},
	{"consumer", "WSONCE_CONSUMER", "a:b"},
	{"log-level", "WSONCE_LOG_LEVEL", "loud"},
	{"log-format", "WSONCE_LOG_FORMAT", "JSON"},
	{"config", "WSONCE_CONFIG", "/nowhere/config.json"},
};

#define SETTINGS (sizeof(settings) / sizeof(*settings))

static void init(void)
{
	for (size_t i = 0; i < SETTINGS; i++)
		unsetenv(settings[i].env);
}

static void fini(void)
{
	config_free(&config);
}

TestSuite(config, .init = init, .fini = fini, .timeout = 60);

static int read_argv(int argc, char **argv)
{
	config_free(&config);
	error[0] = '\0';
	return config_read(&config, NULL, argc, argv, error, sizeof(error));
}

#define READ(...) \
	read_argv(sizeof((char *[]){"listen", __VA_ARGS__}) / sizeof(char *), (char *[]){"listen", __VA_ARGS__, NULL})

/* Adds a source, so that only the other settings can be wrong. */
#define TRY(...) READ("--source", "ws://h", __VA_ARGS__)

/* Returns the path of a file with this text. Both live until the test's process ends. */
static char *file_of(const char *text)
{
	static char path[40];
	int fd = memfd_create("config", 0);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

static void assert_wrong(int result, const char *name)
{
	cr_assert_eq(result, -1, "%s: taken", name);
	cr_assert_not_null(strstr(error, name), "'%s' does not name %s", error, name);
	cr_assert_null(strchr(error, '\n'), "more than one line: %s", error);
}

Test(config, instance_is_named_by_host_and_pid)
{
	char host[200] = "", name[300];

	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "%.127s-%d", host, (int)getpid());
	TRY("--log-level", "info");
	cr_assert_str_eq(config.instance_id, name);
}

/* --- which layer wins --- */

Test(config, flag_wins_over_environment_over_file_over_default)
{
	char *file = file_of("{\"claim-ttl\": 10, \"batch-max\": 10, \"max-attempts\": 10}");

	setenv("WSONCE_CLAIM_TTL", "20", 1);
	setenv("WSONCE_BATCH_MAX", "20", 1);
	cr_assert_eq(TRY("--claim-ttl", "40", "--config", file), 0, "%s", error);
	cr_assert_eq(config.claim_ttl_s, 40);
	cr_assert_eq(config.batch_max, 20);
	cr_assert_eq(config.max_attempts, 10);
	cr_assert_eq(config.dedup_window_s, 300);
}

Test(config, last_of_two_equal_flags_wins)
{
	cr_assert_eq(TRY("--claim-ttl", "1", "--claim-ttl", "2"), 0);
	cr_assert_eq(config.claim_ttl_s, 2);
}

Test(config, file_may_be_named_by_the_environment_and_the_flag_wins)
{
	char weak[40];

	strcpy(weak, file_of("{\"claim-ttl\": 1}"));
	setenv("WSONCE_CONFIG", weak, 1);
	cr_assert_eq(TRY("--log-level", "info"), 0, "%s", error);
	cr_assert_eq(config.claim_ttl_s, 1);
	cr_assert_eq(TRY("--config", file_of("{\"claim-ttl\": 2}")), 0, "%s", error);
	cr_assert_eq(config.claim_ttl_s, 2);
}

Test(config, empty_variable_counts_as_unset)
{
	setenv("WSONCE_CLAIM_TTL", "", 1);
	setenv("WSONCE_REDIS", "", 1);
	setenv("WSONCE_SOURCE", "", 1);
	setenv("WSONCE_ID_POINTER", "", 1);
	setenv("WSONCE_TIME_POINTER", "", 1);
	setenv("WSONCE_MAX_AGE", "", 1);
	cr_assert_eq(TRY("--log-level", "info"), 0, "%s", error);
	cr_assert_null(config.time_pointer);
	cr_assert_eq(config.max_age_s, 0);
	cr_assert_eq(config.claim_ttl_s, 30);
	cr_assert_str_eq(config.redis, "redis://127.0.0.1:6379/0");
	cr_assert_str_eq(config.id_pointers.items[0], "/event_id");
}

Test(config, path_that_is_empty_is_a_mistake)
{
	assert_wrong(TRY("--spool", ""), "--spool: \"\" is empty");
	assert_wrong(TRY("--redis-file="), "--redis-file: \"\" is empty");
	cr_assert_eq(TRY("--payload-pointer", ""), 0, "%s", error);
}

Test(config, empty_pointer_in_the_environment_is_the_whole_message)
{
	setenv("WSONCE_PAYLOAD_POINTER", "", 1);
	cr_assert_eq(TRY("--log-level", "info"), 0, "%s", error);
	cr_assert_str_eq(config.payload_pointer, "");
}

/* Their paths are not shown, since a path may be a secret. */
Test(config, sources_that_look_the_same_are_told_apart_in_rows)
{
	cr_assert_eq(READ("--source", "ws://h/a?k=1", "--source", "ws://me@h/b?k=2", "--source", "ws://h/c?k=3",
			  "--source", "ws://i/a"),
		     0);
	cr_assert_str_eq(config_source_in_rows(&config, 0), "h#1");
	cr_assert_str_eq(config_source_in_rows(&config, 1), "ws://***@h/***?***");
	cr_assert_str_eq(config_source_in_rows(&config, 2), "h#3");
	cr_assert_str_eq(config_source_in_rows(&config, 3), "ws://i/***");
}

/* --- lists --- */

static void assert_list(const struct config_list *l, const char *expected)
{
	char text[300] = "";

	for (size_t i = 0; i < l->count; i++)
		strcat(strcat(text, i ? " " : ""), l->items[i]);
	cr_assert_str_eq(text, expected);
}

Test(config, list_grows_by_repeated_flags)
{
	cr_assert_eq(
		READ("--source", "ws://a", "--source=b.1=wss://b/?x=y", "--id-pointer", "/x", "--id-pointer", "/y"), 0);
	cr_assert_str_eq(config_source_name(&config, 0), "a#1");
	cr_assert_str_eq(config_source_name(&config, 1), "b.1");
	cr_assert_str_eq(config_source_in_rows(&config, 1), "b.1");
	cr_assert_str_eq(config_source_url(&config, 1), "wss://b/?x=y");
	assert_list(&config.sources, "ws://a b.1=wss://b/?x=y");
	assert_list(&config.id_pointers, "/x /y");
}

Test(config, list_has_commas_in_the_environment)
{
	setenv("WSONCE_SOURCE", "ws://a,ws://b,ws://c", 1);
	setenv("WSONCE_ID_POINTER", "/x,/y", 1);
	cr_assert_eq(READ("--log-level", "info"), 0, "%s", error);
	assert_list(&config.sources, "ws://a ws://b ws://c");
	assert_list(&config.id_pointers, "/x /y");
}

Test(config, list_is_an_array_or_a_text_in_the_file)
{
	cr_assert_eq(READ("--config", file_of("{\"source\": [\"ws://a\", \"ws://b\"], \"id-pointer\": \"/x\"}")), 0,
		     "%s", error);
	assert_list(&config.sources, "ws://a ws://b");
	assert_list(&config.id_pointers, "/x");
}

Test(config, list_of_a_stronger_layer_replaces_the_weaker)
{
	char *file = file_of("{\"source\": [\"ws://file1\", \"ws://file2\"], \"id-pointer\": [\"/f1\", \"/f2\"]}");

	cr_assert_eq(READ("--config", file), 0);
	assert_list(&config.sources, "ws://file1 ws://file2");
	assert_list(&config.id_pointers, "/f1 /f2");
	setenv("WSONCE_SOURCE", "ws://env", 1);
	cr_assert_eq(READ("--config", file), 0);
	assert_list(&config.sources, "ws://env");
	cr_assert_eq(READ("--config", file, "--source", "ws://flag", "--id-pointer", "/g"), 0);
	assert_list(&config.sources, "ws://flag");
	assert_list(&config.id_pointers, "/g");
}

Test(config, comma_in_a_flag_is_a_part_of_the_text)
{
	cr_assert_eq(READ("--source", "ws://a/x,y"), 0);
	assert_list(&config.sources, "ws://a/x,y");
}

/* --- forms of values --- */

Test(config, flag_may_have_its_value_behind_an_equals_sign)
{
	cr_assert_eq(TRY("--claim-ttl=7", "--postgres=host=h dbname=d", "--payload-pointer="), 0, "%s", error);
	cr_assert_eq(config.claim_ttl_s, 7);
	cr_assert_str_eq(config.postgres, "host=h dbname=d");
	cr_assert_str_eq(config.payload_pointer, "");
}

/* test_quantity.c has their forms. */
Test(config, sizes_and_durations_may_have_a_unit)
{
	cr_assert_eq(TRY("--max-inflight-bytes", "2GiB", "--max-message", "256MiB", "--redis-timeout", "0.25",
			 "--claim-ttl", "2m", "--drain-timeout", "500ms"),
		     0, "%s", error);
	cr_assert_eq(config.inflight_bytes, INT64_C(2) << 30);
	cr_assert_eq(config.message_bytes, 256 << 20);
	cr_assert_eq(config.redis_timeout_ms, 250);
	cr_assert_eq(config.claim_ttl_s, 120);
	cr_assert_eq(config.drain_timeout_ms, 500);
	cr_assert_eq(
		TRY("--config", file_of("{\"redis-timeout\": 0.5, \"max-message\": \"2KiB\", \"claim-ttl\": \"7\"}")),
		0, "%s", error);
	cr_assert_eq(config.redis_timeout_ms, 500);
	cr_assert_eq(config.message_bytes, 2048);
	cr_assert_eq(config.claim_ttl_s, 7);
	assert_wrong(TRY("--claim-ttl", "1KiB"), "--claim-ttl");
	assert_wrong(TRY("--claim-ttl", "1500ms"), "--claim-ttl"); /* it is kept in seconds */
	cr_assert_str_eq(error,
			 "--claim-ttl: \"1500ms\" is not a duration from 1s to 1d: a whole number and s, m, h or d");
	assert_wrong(TRY("--redis-timeout", "61m"), "--redis-timeout");
}

Test(config, ages_have_bounds)
{
	cr_assert_eq(TRY("--max-age", "30d", "--time-pointer", "/at", "--unsettled-warning", "0s"), 0, "%s", error);
	cr_assert_eq(config.max_age_s, 30 * 86400);
	cr_assert_eq(config.unsettled_warning_s, 0);
	assert_wrong(TRY("--max-age", "0s", "--time-pointer", "/at"), "--max-age");
	assert_wrong(TRY("--max-age", "3651d", "--time-pointer", "/at"), "--max-age");
	cr_assert_str_eq(error,
			 "--max-age: \"3651d\" is not a duration from 1s to 3650d: a whole number and s, m, h or d");
	cr_assert_eq(TRY("--config", file_of("{\"unsettled-warning\": 60}")), 0, "%s", error);
	cr_assert_eq(config.unsettled_warning_s, 60);
}

Test(config, greatest_age_needs_to_know_where_the_time_is)
{
	assert_wrong(TRY("--max-age", "30d"), "--time-pointer");
	cr_assert_eq(TRY("--time-pointer", "/at"), 0, "%s", error);
	setenv("WSONCE_MAX_AGE", "30d", 1);
	assert_wrong(TRY("--log-level", "info"), "--max-age");
	cr_assert_eq(TRY("--time-pointer="), 0, "%s", error);
	cr_assert_str_eq(config.time_pointer, "");
}

/* A profile's rules already say where the time of its events is. */
Test(config, greatest_age_needs_no_time_pointer_if_profiles_describe_all_events)
{
	setenv("WSONCE_MAX_AGE", "30d", 1);
	setenv("WSONCE_PROFILES", "profiles", 1);
	cr_assert_eq(READ("--feed", "coinbase"), 0, "%s", error);
	cr_assert_eq(READ("--ingest", "127.0.0.1:0", "--ingest-profile", "cloudevents"), 0, "%s", error);
	assert_wrong(READ("--ingest", "127.0.0.1:0"), "--max-age");
	assert_wrong(READ("--feed", "coinbase", "--source", "ws://h"), "--max-age");
}

Test(config, tls_of_redis_needs_files_that_are_right)
{
	char *empty = file_of("no certificate\n");

	cr_assert_eq(TRY("--redis", "rediss://h"), 0, "%s", error);
	assert_wrong(TRY("--redis", "rediss://h", "--redis-ca", empty), "--redis-ca");
	assert_wrong(TRY("--redis", "rediss://h", "--redis-ca", "/nowhere/ca.pem"), "--redis-ca");
	assert_wrong(TRY("--redis", "rediss://h", "--redis-cert", empty), "--redis-key");
	assert_wrong(TRY("--redis", "rediss://h", "--redis-cert", empty, "--redis-key", empty), "not a certificate");
	assert_wrong(TRY("--redis", "redis://h", "--redis-cert", empty, "--redis-key", empty), "rediss://");
	assert_wrong(TRY("--redis", "rediss://h?insecure"), "certificates are always verified");
}

Test(config, a_file_needs_no_redis_and_no_postgres)
{
	cr_assert_eq(TRY("--store", "sqlite:///var/e.db"), 0, "%s", error);
	cr_assert_str_eq(config_store_path(&config), "/var/e.db");
	cr_assert_str_eq(config.redis, "none");
	cr_assert_eq(TRY("--store", "sqlite://e.db", "--redis", "redis://h"), 0, "%s", error);
	cr_assert_str_eq(config_store_path(&config), "e.db");
	cr_assert_str_eq(config.redis, "redis://h");
	setenv("WSONCE_REDIS", "redis://env", 1);
	cr_assert_eq(TRY("--store", "sqlite://e.db"), 0, "%s", error);
	cr_assert_str_eq(config.redis, "redis://env");
	cr_assert_eq(TRY("--store", "postgres"), 0, "%s", error);
	cr_assert_null(config_store_path(&config));
	assert_wrong(TRY("--store", "sqlite:///e.db", "--handler", "a.b"), "--handler");
	assert_wrong(TRY("--store", "sqlite:///e.db", "--consumer", "b"), "--consumer");
	cr_assert_eq(TRY("--store", "sqlite:///e.db", "--consumer", ""), 0, "%s", error);
	assert_wrong(TRY("--store", "sqlite:///e.db", "--postgres", "host=h"), "--postgres: needs Postgres");
	assert_wrong(TRY("--store", "sqlite:///e.db", "--postgres-timeout", "5"), "--postgres-timeout: needs");
	assert_wrong(TRY("--store", "sqlite:///e.db", "--traceparent-pointer", "/t"), "--traceparent-pointer: needs");
	setenv("WSONCE_POSTGRES", "host=h", 1);
	cr_assert_eq(TRY("--store", "sqlite:///e.db"), 0, "%s", error); /* the flag replaces it */
	setenv("WSONCE_STORE", "sqlite:///e.db", 1);
	assert_wrong(TRY("--log-level", "info"), "WSONCE_POSTGRES: needs Postgres");
	unsetenv("WSONCE_POSTGRES");
	cr_assert_eq(TRY("--log-level", "info"), 0, "%s", error);
	unsetenv("WSONCE_STORE");
	assert_wrong(TRY("--store", "sqlite:///var/"), "--store");
	assert_wrong(TRY("--store", "sqlite:///e.db?mode=ro"), "--store");
}

Test(config, redis_may_be_none_a_socket_or_a_url)
{
	static char *const good[] = {"none",
				     "unix:///run/redis.sock",
				     "redis://h",
				     "redis://u:p@h:1/15",
				     "rediss://h",
				     "redis://u:p@a:1,b,[::1]:3/2",
				     "redis-sentinel://:p@a,b:1/master",
				     "rediss-sentinel://a/m/1"};
	static char *const bad[] = {"None",
				    "h:6379",
				    "unix://",
				    "unix://run/redis.sock",
				    "unix://,a/run/redis.sock",
				    "redis://h/x",
				    "redis://h:x",
				    "redis://h/0?insecure",
				    "rediss://h?verify=none",
				    "redis-sentinel://h",
				    "redis-sentinel://h/",
				    "redis-sentinel://h/m/x",
				    "redis://a,,b",
				    "redis://a,b:x",
				    ""};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert_eq(TRY("--redis", good[i]), 0, "%s: %s", good[i], error);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_wrong(TRY("--redis", bad[i]), "--redis");
}

Test(config, admin_may_be_a_socket)
{
	cr_assert_eq(TRY("--admin", "unix:/run/wsonce.sock"), 0, "%s", error);
	cr_assert_str_eq(config.admin, "unix:/run/wsonce.sock");
	assert_wrong(TRY("--admin", "unix:"), "--admin");
}

Test(config, handler_is_a_function_with_its_schema)
{
	static char *const good[] = {"public.on_event", "a.b$1", "\"My Schema\".f", "a.\"say \"\"x\"\"\""};
	static char *const bad[] = {"f",     ".f",   "a.",   "a.b.c",   "a.b()", "1a.f",   "a.$b",
				    "\"a.f", "a.f;", "a .f", "\"\"a.f", "",      "\"\".f", "a.\"\""};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert_eq(TRY("--handler", good[i]), 0, "%s: %s", good[i], error);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_wrong(TRY("--handler", bad[i]), "--handler");
}

Test(config, claims_of_a_consumer_are_its_own)
{
	cr_assert_eq(TRY("--claim-prefix", "p:"), 0);
	cr_assert_str_eq(config.claim_prefix, "p:");
	cr_assert_eq(TRY("--claim-prefix", "p"), 0);
	cr_assert_str_eq(config.claim_prefix, "p:");
	cr_assert_eq(TRY("--claim-prefix", ""), 0);
	cr_assert_str_eq(config.claim_prefix, ":");
	cr_assert_eq(TRY("--claim-prefix", "p", "--consumer", "billing-2"), 0);
	cr_assert_str_eq(config.claim_prefix, "consumer:billing-2:p:");
	cr_assert_eq(TRY("--claim-prefix", "p:", "--consumer", "billing-2"), 0);
	cr_assert_str_eq(config.claim_prefix, "consumer:billing-2:p:");
	assert_wrong(TRY("--consumer", "a b"), "--consumer");
}

/* --- webhooks --- */

static int read_webhooks(const char *text)
{
	char *file = file_of(text);

	return TRY("--config", file);
}

#define SECRET "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz" /* 24 digits */

Test(config, webhook_has_the_documented_defaults)
{
	setenv("BILLING_SECRET", SECRET, 1);
	cr_assert_eq(read_webhooks("{\"webhooks\": [{\"name\": \"billing\", \"url\": \"https://h/x\","
				   " \"secret-env\": \"BILLING_SECRET\"}]}"),
		     0, "%s", error);
	cr_assert_eq(config.webhooks.count, 1);
	const struct webhook *w = config.webhooks.items;
	cr_assert_str_eq(w->name, "billing");
	cr_assert_str_eq(w->url, "https://h/x");
	cr_assert_eq(w->type_count, 0);
	cr_assert_eq(w->secret_count, 1);
	cr_assert_eq(w->secrets[0].len, 24);
	cr_assert_eq(memcmp(w->secrets[0].bytes, "012345678901234567890123", 24), 0);
	cr_assert(w->timeout_ms == 15000 && w->concurrency == 16 && w->attempts == 20);
	cr_assert(w->backoff_ms == 2000 && w->backoff_cap_ms == 3600000 && !w->ca);
}

Test(config, webhook_takes_several_secrets_of_a_file)
{
	char path[] = "/tmp/wsonce-secret-XXXXXX", text[300];
	int fd = mkstemp(path);

	cr_assert(fd >= 0);
	cr_assert_eq(dprintf(fd, "%s\n %s\n", SECRET, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNA=="), 83);
	close(fd);
	snprintf(text, sizeof(text),
		 "{\"webhooks\": [{\"name\": \"a\", \"url\": \"http://h\", \"secret-file\": \"%s\", \"types\": [\"x\", "
		 "\"y\"],"
		 " \"timeout\": 0.5, \"attempts\": 3}]}",
		 path);
	cr_assert_eq(read_webhooks(text), 0, "%s", error);
	unlink(path);
	cr_assert_eq(config.webhooks.items[0].secret_count, 2);
	cr_assert_eq(config.webhooks.items[0].secrets[1].len, 25);
	cr_assert_eq(config.webhooks.items[0].timeout_ms, 500);
	cr_assert_str_eq(config.webhooks.items[0].types[1], "y");
}

/* If the file were cut off, deliveries would be signed with its first secrets only. */
Test(config, file_of_secrets_has_no_more_than_4_KiB)
{
	char secrets[4098], text[400];

	memset(secrets, '\n', sizeof(secrets));
	memcpy(secrets, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", 38);
	secrets[4096] = '\0';
	snprintf(text, sizeof(text),
		 "{\"webhooks\": [{\"name\": \"a\", \"url\": \"http://h\", \"secret-file\": \"%s\"}]}",
		 file_of(secrets));
	cr_assert_eq(read_webhooks(text), 0, "%s", error);
	secrets[4096] = '\n';
	secrets[4097] = '\0';
	snprintf(text, sizeof(text),
		 "{\"webhooks\": [{\"name\": \"a\", \"url\": \"http://h\", \"secret-file\": \"%s\"}]}",
		 file_of(secrets));
	assert_wrong(read_webhooks(text), "File too large");
}

#define HOOK(members) "[{\"name\": \"a\", \"url\": \"http://h\", \"secret-env\": \"S\", " members "}]"

Test(config, headers_of_a_webhook_hold_secrets_of_variables_and_files)
{
	char *text = memory_printf("{\"webhooks\": " HOOK("\"headers\": {\"X-Key\": \"a ${env:K} b\"}, "
							  "\"bearer-file\": \"%s\"") "}",
				   file_of("token\n"));

	setenv("S", SECRET, 1);
	setenv("K", "secret", 1);
	cr_assert_eq(read_webhooks(text), 0, "%s", error);
	const struct bytes *lines = &config.webhooks.items[0].header_lines;
	static const char expected[] = "authorization: Bearer token\0X-Key: a secret b";
	cr_assert_eq(lines->len, sizeof(expected));
	cr_assert_eq(memcmp(lines->at, expected, sizeof(expected)), 0);
	free(text);
}

Test(config, name_of_a_bearer_file_is_no_template)
{
	char *path = memory_printf("/tmp/wsonce-%d-${}", (int)getpid());
	char *text = memory_printf("{\"webhooks\": " HOOK("\"bearer-file\": \"%s\"") "}", path);

	cr_assert_eq(symlink(file_of("tok}en${x}\n"), path), 0);
	setenv("S", SECRET, 1);
	int result = read_webhooks(text);
	unlink(path);
	cr_assert_eq(result, 0, "%s", error);
	cr_assert_str_eq(config.webhooks.items[0].header_lines.at, "authorization: Bearer tok}en${x}");
	free(text);
	free(path);
}

Test(config, wrong_webhook_is_named_and_its_secret_is_not_told)
{
	static const struct {
		const char *webhooks;
		const char *named;
	} bad[] = {
		{"{}", "webhooks"},
		{"[1]", "webhooks[0]"},
		{"[{}]", "name"},
		{"[{\"name\": \"a b\"}]", "name"},
		{"[{\"name\": \"a\"}]", "webhooks[0]: url is missing"},
		{"[{\"name\": \"a\", \"url\": \"ftp://h\"}]", "url"},
		{"[{\"name\": \"a\", \"url\": \"http://u:hunter2@\"}]", "url"},
		{"[{\"name\": \"a\", \"url\": \"http://h\"}]", "secret-env"},
		{"[{\"name\": \"a\", \"url\": \"http://h\", \"secret-env\": \"NOT_SET\"}]", "NOT_SET is not set"},
		{"[{\"name\": \"a\", \"url\": \"http://h\", \"secret-env\": \"BAD\"}]", "whsec_"},
		{"[{\"name\": \"a\", \"url\": \"http://h\", \"secret-file\": \"/nowhere\"}]", "/nowhere"},
		{"[{\"name\": \"a\", \"types\": []}]", "types"},
		{"[{\"name\": \"a\", \"types\": [\"x\", \"x\"]}]", "twice"},
		{"[{\"name\": \"a\", \"types\": [\"order.*\"]}]", "compared as a whole"},
		{"[{\"name\": \"a\", \"timeout\": 0}]", "timeout"},
		{"[{\"name\": \"a\", \"concurrency\": 1.5}]", "concurrency"},
		{"[{\"name\": \"a\", \"retries\": 1}]", "retries"},
		{"[{\"name\": \"a\", \"when\": {\"kind\": 1}}]", "webhooks[0].when"},
		{"[{\"name\": \"a\", \"headers\": [\"x\"]}]", "at most 16 headers"},
		{"[{\"name\": \"a\", \"headers\": {\"x y\": \"1\"}}]", "is not the name of a header"},
		{"[{\"name\": \"a\", \"headers\": {\"Webhook-Id\": \"1\"}}]", "that wsonce sets itself"},
		{"[{\"name\": \"a\", \"headers\": {\"x\": 1}}]", "headers.x: must be a string"},
		{HOOK("\"headers\": {\"x\": \"${env:NOT_SET}\"}"), "webhooks[0]: the variable NOT_SET is not set"},
		{HOOK("\"headers\": {\"x\": \"${x}\"}"), "headers.x: ${x} is neither ${env:NAME} nor"},
		{HOOK("\"headers\": {\"x\": \"${env:S} ${env:S\"}"), "headers.x: holds a ${ without its }"},
		{HOOK("\"headers\": {\"x\": \"${text:env:S}\"}"), "is neither"},
		{HOOK("\"headers\": {\"x\": \"a\\r\\nb: c\"}"), "control character"},
		{HOOK("\"headers\": {\"x\": \"\"}"), "would be empty"},
		{HOOK("\"bearer-file\": \"/nowhere\""), "/nowhere cannot be read"},
		{HOOK("\"bearer-file\": \"/x\", \"headers\": {\"Authorization\": \"x\"}"), "remove one"},
		{HOOK("\"key\": \"/x\""), "key needs cert"},
		{HOOK("\"batch\": 101"), "batch: must be a whole number from 1 to 100"},
		{HOOK("\"format\": \"xml\""), "format: must be one of: json cloudevents"},
		{"[{\"name\": \"a\", \"url\": \"http://h\", \"secret-env\": \"S\"}, {\"name\": \"a\", \"url\":"
		 " \"http://h\", \"secret-env\": \"S\"}]",
		 "two webhooks"},
	};
	char text[400];

	setenv("BAD", "hunter2", 1);
	setenv("S", SECRET, 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "{\"webhooks\": %s}", bad[i].webhooks);
		assert_wrong(read_webhooks(text), bad[i].named);
		cr_assert_null(strstr(error, "hunter2"), "%s", error);
	}
}

Test(config, command_needs_no_webhook_secret)
{
	char *argv[] = {
		"replay", "--config",
		file_of("{\"webhooks\": [{\"name\": \"a\", \"url\": \"http://h\", \"secret-env\": \"NOT_SET\"}]}"),
		NULL};

	cr_assert_eq(read_argv(3, argv), 0, "%s", error);
	cr_assert_eq(config.webhooks.items[0].secret_count, 0);
	argv[2] = file_of("{\"webhooks\": " HOOK("\"headers\": {\"x\": \"${env:K\"}") "}");
	assert_wrong(read_argv(3, argv), "webhooks[0].headers.x: holds a ${ without its }");
}

Test(config, pointers_are_checked)
{
	assert_wrong(TRY("--id-pointer", "a"), "--id-pointer");
	assert_wrong(TRY("--id-pointer", "/a~"), "--id-pointer");
	assert_wrong(TRY("--type-pointer", "/~x"), "--type-pointer");
	assert_wrong(TRY("--id-pointer", "/a/*/b"), "--id-pointer: \"/a/*/b\" would name a member");
	assert_wrong(TRY("--time-pointer", "/*"), "write a profile with explode");
	assert_wrong(TRY("--traceparent-pointer", "/a/*"), "write a profile with explode");
	cr_assert_eq(TRY("--id-pointer", "/*a/b*", "--type-pointer", "/**"), 0);
	cr_assert_eq(TRY("--type-pointer", "/~0~1/", "--payload-pointer", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"),
		     0);
}

/* --- wrong values --- */

static void assert_wrong_in_environment(const char *flag, const char *env, const char *value)
{
	setenv(env, value, 1);
	int result = TRY("--log-level", "info");
	assert_wrong(result, strstr(error, env) ? env : flag);
	unsetenv(env);
}

static void assert_wrong_in_file(const char *flag, const char *value)
{
	char text[300];

	snprintf(text, sizeof(text), "{\"%s\": \"%s\"}", flag, value);
	assert_wrong(READ("--ingest", "127.0.0.1:1", "--config", file_of(text)), flag);
}

static void assert_wrong_everywhere(const char *name, const char *env, const char *value)
{
	char text[300], flag[60];

	snprintf(flag, sizeof(flag), "--%s", name);
	snprintf(text, sizeof(text), "%s=%s", flag, value);
	assert_wrong(TRY(text), flag);
	assert_wrong_in_environment(flag, env, value);
	assert_wrong_in_file(name, value);
}

Test(config, wrong_value_is_one_line_that_names_the_option)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (settings[i].wrong)
			assert_wrong_everywhere(settings[i].flag, settings[i].env, settings[i].wrong);
}

#define FEED(name, more) \
	"{\"name\": \"" name "\", \"url\": \"ws://h\", \"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]" more \
	"}"
#define DIVIDED FEED("m", ", \"vars\": {\"v\": [\"x\"]}, \"shard\": {\"var\": \"v\", \"per_connection\": 9}")

/* Names tell leaders, log lines and metrics apart. */
Test(config, two_sources_have_two_names)
{
	assert_wrong(TRY("--source", "a=ws://h", "--source", "a=ws://i"), "two sources");
	assert_wrong(TRY("--source", "a=ws://h", "--config", file_of("{\"sources\": [" FEED("a", "") "]}")),
		     "two sources");
	assert_wrong(TRY("--config", file_of("{\"sources\": [" DIVIDED ", " FEED("m/1", "") "]}")), "(NAME/1)");
	cr_assert_eq(TRY("--source", "a=ws://h", "--source", "ab=ws://h", "--config",
			 file_of("{\"sources\": [" DIVIDED ", " FEED("abc", "") "]}")),
		     0, "%s", error);
}

Test(config, what_may_be_a_secret_is_in_no_error_about_a_wrong_option)
{
	static char *const wrong[] = {
		"--redis://:planted@h",
		"--postgreshost=h password=planted",
		"--postgres host=h password=planted",
		"--ingest-tokenplanted",
		"--postgres:planted",
		"redis://:planted@h",
		"host=h password=planted",
		"-postgres=planted",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(TRY(wrong[i]), -1);
		cr_assert_null(strstr(error, "planted"), "%s", error);
	}
	cr_assert_eq(TRY("--redis-file", "redis://:planted@h"), -1);
	cr_assert_null(strstr(error, "planted"), "%s", error);
	assert_wrong(TRY("--source-proxy", "http://u:planted@"), "http://[USER:PASSWORD@]HOST:PORT");
	assert_wrong(TRY("--redis://:planted@h"), "unknown option --redis...; did you mean --redis?");
	assert_wrong(TRY("--ingest-token-fil", "f"), "did you mean --ingest-token-file?");
}

/* If an argument begins with a brace or a bracket, it is the text of a file, and is replaced by the file's path. */
Test(config, what_is_wrong_is_refused_by_one_line_that_names_it)
{
	static const struct {
		const char *named;
		const char *args[3];
	} wrong[] = {
		/* one line, whatever the error quotes */
		{"--claim-ttl", {"--claim-ttl", "1\n2"}},
		{"--log-level", {"--log-level", "a\nb"}},
		{"unknown option", {"--x\ny"}},
		{"id-pointer in ", {"--config", "{\"id-pointer\": [\"/a\\u0000b\"]}"}},
		{"no such setting", {"--config", "{\"a\\nb\": 1}"}},
		/* not an option */
		{"--no-such-flag", {"--no-such-flag", "1"}},
		{"--claim", {"--claim", "1"}},
		{"--claim-ttl-x", {"--claim-ttl-x=1"}},
		{"-c", {"-c", "x"}},
		{"stray", {"stray"}},
		/* no value */
		{"--claim-ttl", {"--claim-ttl"}},
		{"--config", {"--config"}},
		{"--source", {"--source"}},
		/* files that cannot be read */
		{"/nowhere/config.json", {"--config", "/nowhere/config.json"}},
		{"--config", {"--config", "/"}},
		{"--config", {"--config", ""}},
		/* or are not settings */
		{"line 3", {"--config", "{\n\"claim-ttl\": 1,\n}"}},
		{"not a JSON object", {"--config", "[]"}},
		{"--config", {"--config", "{\"claim-ttl\": 1, \"claim-ttl\": 2}"}},
		/* keys */
		{"claim_ttl", {"--config", "{\"claim_ttl\": 1}"}},
		{"--claim-ttl", {"--config", "{\"--claim-ttl\": 1}"}},
		{"config", {"--config", "{\"config\": \"x\"}"}},
		{"no such setting", {"--config", "{\"\": 1}"}},
		{"did you mean webhooks?", {"--config", "{\"webhook\": []}"}},
		/* values of another kind */
		{"claim-ttl", {"--config", "{\"claim-ttl\": true}"}},
		{"claim-ttl", {"--config", "{\"claim-ttl\": []}"}},
		{"claim-ttl", {"--config", "{\"claim-ttl\": null}"}},
		{"claim-ttl", {"--config", "{\"claim-ttl\": 1.5}"}},
		{"claim-ttl", {"--config", "{\"claim-ttl\": {}}"}},
		{"admin", {"--config", "{\"admin\": 1}"}},
		{"source", {"--config", "{\"source\": [1]}"}},
		{"source", {"--config", "{\"source\": {}}"}},
		/* values; test_quantity.c has more */
		{"--claim-ttl", {"--claim-ttl", "0"}},
		{"--claim-ttl", {"--claim-ttl", ""}},
		{"--max-message", {"--max-message", "257MiB"}},
		{"--log-level", {"--log-level", "debug info"}},
		{"--ingest", {"--ingest", "127.0.0.1:"}},
		{"--ingest", {"--ingest", "127.0.0.1:65536"}},
		{"--ingest", {"--ingest", ":9000"}},
		{"--admin", {"--admin", "nowhere"}},
		{"--source", {"--source", "127.0.0.1:9000"}},
		{"--postgres", {"--postgres", "no_such_keyword=1"}},
	};

	assert_wrong(TRY("--config", file_of("")), "--config");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char *argv[6] = {"listen", "--source", "ws://h"};
		int argc = 3;

		for (const char *const *arg = wrong[i].args; *arg; arg++)
			argv[argc++] = **arg == '{' || **arg == '[' ? file_of(*arg) : (char *)*arg;
		assert_wrong(read_argv(argc, argv), wrong[i].named);
	}
}

Test(config, wrong_value_in_the_file_names_the_file)
{
	char *file = file_of("{\"claim-ttl\": 0}");

	assert_wrong(TRY("--config", file), "claim-ttl");
	cr_assert_not_null(strstr(error, file), "%s", error);
}

Test(config, long_wrong_value_is_cut)
{
	char text[5001];

	memset(text, 'x', 5000);
	text[5000] = '\0';
	assert_wrong(TRY("--claim-ttl", text), "--claim-ttl");
	assert_wrong(TRY("--admin", text), "--admin");
	assert_wrong(TRY("--log-level", text), "--log-level");
	assert_wrong(TRY(text), "not an option");
}

Test(config, listener_needs_something_to_listen_to)
{
	assert_wrong(READ("--claim-ttl", "1"), "--source");
	assert_wrong(READ("--claim-ttl", "1"), "--ingest");
	cr_assert_eq(READ("--ingest", "127.0.0.1:0"), 0, "%s", error);
}

Test(config, certificate_and_key_go_together)
{
	char *none = file_of("no certificate");

	assert_wrong(TRY("--ingest-cert", none), "--ingest-key");
	assert_wrong(TRY("--ingest-key", none), "--ingest-cert");
	assert_wrong(TRY("--ingest-key", none, "--ingest-cert", none), "not a certificate and its key");
	assert_wrong(TRY("--ingest-key", none, "--ingest-cert", "/nowhere/x"), "--ingest-cert");
	assert_wrong(TRY("--ingest-client-ca", none), "--ingest-cert");
	assert_wrong(TRY("--ingest-http", "127.0.0.1:0", "--ingest-key", none, "--ingest-cert", none), "has no TLS");
	assert_wrong(TRY("--ingest-key", none, "--ingest-cert", none, "--ingest-client-ca", none),
		     "--ingest-client-ca");
}

Test(config, id_has_up_to_eight_parts)
{
	setenv("WSONCE_ID_POINTER", "/1,/2,/3,/4,/5,/6,/7,/8", 1);
	cr_assert_eq(TRY("--log-level", "info"), 0, "%s", error);
	setenv("WSONCE_ID_POINTER", "/1,/2,/3,/4,/5,/6,/7,/8,/9", 1);
	assert_wrong(TRY("--log-level", "info"), "--id-pointer");
}

Test(config, instance_id_has_1_to_200_bytes)
{
	char text[202];

	memset(text, 'x', 201);
	text[201] = '\0';
	assert_wrong(TRY("--instance-id", text), "--instance-id");
	assert_wrong(TRY("--instance-id", ""), "--instance-id");
	cr_assert_eq(TRY("--instance-id", text + 1), 0, "%s", error);
	assert_wrong(TRY("--instance-id", "done@host"), "--instance-id");
}

/* With such a prefix, the key of an event could be one of the program's own keys. */
Test(config, the_prefix_of_claims_is_not_that_of_other_keys)
{
	assert_wrong(TRY("--claim-prefix", "wsonce:"), "--claim-prefix");
	assert_wrong(TRY("--claim-prefix", "wsonce:lease:"), "--claim-prefix");
	assert_wrong(TRY("--claim-prefix", "wsonce"), "--claim-prefix");
	cr_assert_eq(TRY("--claim-prefix", "wsonce2"), 0, "%s", error);
}

/* --- who may send --- */

Test(config, an_address_that_is_not_loopback_needs_a_token)
{
	assert_wrong(READ("--ingest", "0.0.0.0:1"), "--ingest-open");
	assert_wrong(READ("--ingest", "h:1"), "--ingest-open");
	cr_assert_eq(READ("--ingest", "h:1", "--ingest-token", "t"), 0, "%s", error);
	cr_assert_eq(READ("--ingest", "h:1", "--ingest-open"), 0, "%s", error);
	cr_assert(config.ingest_open);
	cr_assert_eq(READ("--ingest", "127.1.2.3:1"), 0, "%s", error);
	cr_assert_eq(READ("--ingest", "[::1]:1"), 0, "%s", error);
	cr_assert_eq(READ("--ingest", "localhost:1"), 0, "%s", error);
	cr_assert_eq(READ("--ingest", "unix:/x"), 0, "%s", error);
}

Test(config, secrets_of_webhooks_are_for_http)
{
	char *secrets = strdup(file_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));

	assert_wrong(READ("--ingest-http", "0.0.0.0:1"), "--ingest-webhook-secret-file");
	cr_assert_eq(READ("--ingest-http", "0.0.0.0:1", "--ingest-webhook-secret-file", secrets), 0, "%s", error);
	assert_wrong(READ("--ingest", "0.0.0.0:1", "--ingest-http", "h:1", "--ingest-webhook-secret-file", secrets),
		     "--ingest: the address is not loopback");
	assert_wrong(TRY("--ingest-webhook-secret-file", secrets), "needs --ingest-http");
	assert_wrong(READ("--ingest-http", "h:1", "--ingest-webhook-secret-file", file_of("whsec_x")), "line 1");
}

Test(config, a_switch_needs_no_value)
{
	setenv("WSONCE_INGEST_OPEN", "true", 1);
	cr_assert_eq(READ("--ingest", "h:1"), 0, "%s", error);
	assert_wrong(READ("--ingest-open=no", "--ingest", "h:1"), "--ingest-open");
	unsetenv("WSONCE_INGEST_OPEN");
	cr_assert_eq(READ("--ingest-open", "--ingest", "h:1"), 0, "%s", error);
	cr_assert_eq(READ("--ingest", "h:1", "--config", file_of("{\"ingest-open\": true}")), 0, "%s", error);
	assert_wrong(READ("--ingest", "h:1", "--config", file_of("{\"ingest-open\": false}")), "--ingest-open");
	assert_wrong(READ("--ingest", "h:1", "--config", file_of("{\"ingest-open\": {}}")), "must be true or false");
}

/* --- secrets --- */

Test(config, error_in_a_file_names_the_place_and_quotes_nothing)
{
	assert_wrong(TRY("--config", file_of("{\n\"ingest-token\" \"secret\"}")), "line 2, column 23: ':' expected");
	cr_assert_null(strstr(error, "secret"), "%s", error);
	assert_wrong(TRY("--config", file_of("{\"ingest-token\": \"secret")), "line 1, column 24: premature end");
	cr_assert_null(strstr(error, "secret"), "%s", error);
}

static void expect_secret_kept(int result)
{
	cr_assert_eq(result, -1);
	cr_assert_null(strstr(error, "secret"), "%s", error);
}

Test(config, secrets_are_not_in_error_texts)
{
	expect_secret_kept(READ("--source", "http://u:secret@h"));
	expect_secret_kept(READ("--source", "ws://u:secret@h:port/?token=secret"));
	expect_secret_kept(TRY("--redis", "redis://u:secret@h:port"));
	expect_secret_kept(TRY("--redis", "redis://:secret@h/x"));
	expect_secret_kept(TRY("--ingest-tokn=secret"));
	expect_secret_kept(READ("--ingest-token", "secret", "--postgres", "password=secret"));
	expect_secret_kept(READ("--config", file_of("{\"source\": [\"tcp://u:secret@h\"]}")));
	expect_secret_kept(TRY("--redis", "none", "--postgres", "postgresql://u:secret@[::1/x"));
	setenv("WSONCE_SOURCE", "ws://h,tcp://secret@h", 1);
	expect_secret_kept(READ("--log-level", "info"));
}

Test(config, a_secret_may_be_in_a_file_of_its_own)
{
	cr_assert_eq(TRY("--postgres-file", file_of("host=h password=a-secret\nmore\n")), 0, "%s", error);
	cr_assert_str_eq(config.postgres, "host=h password=a-secret");
	cr_assert_eq(TRY("--redis-file", file_of("redis://:a-secret@h:1/2")), 0, "%s", error);
	cr_assert_str_eq(config.redis, "redis://:a-secret@h:1/2");
	cr_assert_eq(TRY("--redis-file", file_of("redis://h/1\r\n"), "--redis", "none"), 0, "%s", error);
	cr_assert_str_eq(config.redis, "none");
	setenv("WSONCE_REDIS_FILE", file_of("redis://h/3\n"), 1);
	cr_assert_eq(TRY("--claim-ttl", "1"), 0, "%s", error);
	cr_assert_str_eq(config.redis, "redis://h/3");
}

Test(config, a_proxy_speaks_http_or_socks5)
{
	char longest[300] = "socks5://u:", *end = longest + strlen(longest);

	memset(end, 'p', 255);
	strcpy(end + 255, "@h");
	cr_assert_eq(TRY("--source-proxy", longest), 0, "%s", error);
	strcpy(end + 255, "p@h");
	cr_assert_eq(TRY("--source-proxy", longest), -1);
	cr_assert(strstr(error, "of more than 255 bytes"), "%s", error);
	cr_assert_eq(TRY("--source-proxy", "socks5://[::1]:1080/"), 0, "%s", error);
	cr_assert_eq(TRY("--source-proxy", "socks4://h:1"), -1);
	cr_assert(strstr(error, "socks5://") && !strstr(error, "socks4://h"), "%s", error);
}

Test(config, a_list_may_be_in_the_lines_of_a_file)
{
	cr_assert_eq(TRY("--source", "ws://other", "--source-file",
			 file_of("# feeds\nws://h/one?key=a-secret\r\n\nwss://h/two\n")),
		     0, "%s", error);
	cr_assert_eq(config.sources.count, 2);
	cr_assert_str_eq(config.sources.items[0], "ws://h/one?key=a-secret");
	cr_assert_str_eq(config.sources.items[1], "wss://h/two");
	assert_wrong(TRY("--source-file", file_of("ws://h\nhttp://secret\n")), "is neither [NAME=]ws://");
	cr_assert_null(strstr(error, "secret"), "%s", error);
	assert_wrong(TRY("--source-file", file_of("# none\n")), "has no value, only blank lines and comments");
	assert_wrong(TRY("--source-file", "/tmp"), "Is a directory");
	cr_assert_eq(TRY("--source-proxy-file", file_of("http://u:p@h:1\n")), 0, "%s", error);
	cr_assert_str_eq(config.source_proxy, "http://u:p@h:1");
}

/* Makes a folder of credentials with this one. */
static void give_credential(const char *name, const char *text)
{
	static char folder[] = "/tmp/wsonce-credentials-XXXXXX";
	static char path[200];

	if (!getenv("CREDENTIALS_DIRECTORY"))
		cr_assert(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *out = fopen(path, "w");
	cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
}

static void show_one(void *arg, const struct config_redacted *shown)
{
	if (strcmp(shown->flag, "redis") == 0)
		*(enum config_origin *)arg = shown->origin;
}

Test(config, credentials_of_systemd_are_stronger_than_the_file_and_weaker_than_the_environment)
{
	enum config_origin origin = FROM_DEFAULT;

	give_credential("wsonce.redis", "redis://:a-secret@h:1/2\n");
	give_credential("wsonce.source", "ws://h/feed\n");
	give_credential("wsonce.marks-key", "0123456789abcdef\n");
	give_credential("redis", "nothing of ours");
	cr_assert_eq(READ("--config", file_of("{\"redis\": \"none\"}")), 0, "%s", error);
	cr_assert_str_eq(config.redis, "redis://:a-secret@h:1/2");
	cr_assert_str_eq(config.sources.items[0], "ws://h/feed");
	cr_assert_str_eq(config.marks_key, "0123456789abcdef");
	config_each(&config, show_one, &origin);
	cr_assert_str_eq(config_origin_name(origin), "credential");
	setenv("WSONCE_REDIS", "redis://h/3", 1);
	cr_assert_eq(READ("--claim-ttl", "1"), 0, "%s", error);
	cr_assert_str_eq(config.redis, "redis://h/3");
	give_credential("wsonce.redis", "secret");
	assert_wrong(READ("--claim-ttl", "1"), "credential wsonce.redis: the value in ");
	cr_assert_null(strstr(error, "secret"), "%s", error);
	cr_assert_eq(system("rm -r $CREDENTIALS_DIRECTORY"), 0);
}

Test(config, a_wrong_secret_in_a_file_is_not_shown)
{
	assert_wrong(TRY("--redis-file", file_of("secret://h")), "--redis-file");
	cr_assert_null(strstr(error, "secret"), "%s", error);
	assert_wrong(TRY("--postgres-file", file_of("host = 'secret")), "--postgres-file");
	cr_assert_null(strstr(error, "secret"), "%s", error);
	assert_wrong(TRY("--redis-file", file_of("")), "empty");
	assert_wrong(TRY("--redis-file", "/nowhere/x"), "/nowhere/x cannot be read: No such file");
}

Test(config, a_key_of_marks_is_in_a_file_and_not_short)
{
	cr_assert_eq(TRY("--marks-key-file", file_of("0123456789abcdef\nmore\n")), 0, "%s", error);
	cr_assert_str_eq(config.marks_key, "0123456789abcdef");
	assert_wrong(TRY("--marks-key-file", file_of("0123456789abcde\n")), "shorter than 16 bytes");
	cr_assert_null(strstr(error, "0123"), "%s", error);
	assert_wrong(TRY("--marks-key-file", file_of("")), "empty");
}

/* libpq would look up such hosts and print their names in errors. */
Test(config, a_password_that_makes_an_odd_host_or_port_is_refused)
{
	assert_wrong(TRY("--postgres", "postgres://u:p@secret@h/d"), "--postgres");
	assert_wrong(TRY("--postgres", "postgres://u:secret/x@h/d"), "--postgres");
	cr_assert_null(strstr(error, "secret"), "%s", error);
	cr_assert_eq(TRY("--postgres", "host=@abstract,h2 port=1,2"), 0, "%s", error);
	cr_assert_eq(TRY("--postgres", "postgres://u:p%40ss@h:5432/d"), 0, "%s", error);
}

Test(config, secrets_of_a_command_line_are_overwritten)
{
	char *argv[] = {strdup("listen"),
			strdup("--source"),
			strdup("ws://h/secret"),
			strdup("--redis=redis://:secret@h"),
			strdup("--postgres"),
			strdup("password=secret"),
			strdup("--claim-ttl"),
			strdup("30"),
			strdup("--ingest-token=secret")};

	config_hide(9, argv);
	for (int i = 0; i < 9; i++) {
		cr_assert_null(strstr(argv[i], "secret"), "%s", argv[i]);
		cr_assert_eq(strlen(argv[i]) > 0, true);
	}
	cr_assert_str_eq(argv[7], "30");
	cr_assert_str_eq(argv[3], "--redis=*****************");
	for (int i = 0; i < 9; i++)
		free(argv[i]);
}

Test(config, secrets_are_not_in_the_start_up_line)
{
	cr_assert_eq(READ("--source", "ws://u:secret@h/?token=secret", "--redis", "redis://:secret@h", "--postgres",
			  "postgres://u:secret@h/d", "--ingest", "h:1", "--ingest-token", "secret"),
		     0, "%s", error);
	capture_begin();
	config_log(&config);
	const char *text = capture_end();
	cr_assert(*text);
	cr_assert_null(strstr(text, "secret"), "%s", text);
}

/* --- help --- */

static char *print(void (*help)(FILE *out))
{
	static char *text;
	static size_t len;
	FILE *out = open_memstream(&text, &len);

	help(out);
	fclose(out);
	return text;
}

static void print_listen_help(FILE *out)
{
	config_help(out, "listen", NULL);
}

static void print_audit_help(FILE *out)
{
	config_help(out, "audit", NULL);
}

Test(config, help_names_every_flag_and_variable)
{
	char *text = print(print_listen_help), part[80];

	for (size_t i = 0; i < SETTINGS; i++) {
		snprintf(part, sizeof(part), "  --%s ", settings[i].flag);
		cr_expect_not_null(strstr(text, part), "%s", part);
		snprintf(part, sizeof(part), "[%s", settings[i].env);
		cr_expect_not_null(strstr(text, part), "%s", part);
	}
	cr_assert_not_null(strstr(text, "default 30]"));
	free(text);
}

/* --- other commands than listen --- */

Test(config, other_commands_need_nothing_to_listen_to)
{
	char *argv[] = {"audit", "--redis", "none"};

	cr_assert_eq(read_argv(3, argv), 0, "%s", error);
	cr_assert_str_eq(config.redis, "none");
	cr_assert_str_eq(config.log_level, "warn");
}

Test(config, other_commands_do_not_know_the_flags_of_listening)
{
	char *argv[] = {"audit", "--source", "ws://h"};

	cr_assert_eq(read_argv(3, argv), -1);
	cr_assert_str_eq(error, "--source is only for listeners (see wsonce audit --help)");
}

Test(config, other_commands_share_the_environment_and_the_file_with_the_fleet)
{
	char *argv[] = {"audit", "--config", file_of("{\"ingest\": \"h:1\", \"log-level\": \"info\"}")};

	setenv("WSONCE_SOURCE", "ws://h", 1);
	cr_assert_eq(read_argv(3, argv), 0, "%s", error);
	cr_assert_str_eq(config.log_level, "info");
}

Test(config, help_of_other_commands_leaves_out_what_is_of_listening)
{
	char *text = print(print_audit_help);

	cr_assert_null(strstr(text, "--source "));
	cr_assert_null(strstr(text, "--admin "));
	cr_assert_not_null(strstr(text, "--postgres "));
	cr_assert_not_null(strstr(text, "default warn]"));
	free(text);
}

/* --- memory --- */

Test(config, settings_may_be_freed_twice)
{
	cr_assert_eq(TRY("--claim-ttl", "1"), 0);
	config_free(&config);
	config_free(&config);
	cr_assert_null(config.redis);
}

/* --- producers by a profile --- */

#define SINK(members) "{" members "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}"

static char *settings_with(const char *profile)
{
	char text[400];

	snprintf(text, sizeof text, "{\"ingest\": \"127.0.0.1:1\", \"ingest-profile\": %s}", profile);
	return file_of(text);
}

Test(config, profile_of_producers_is_a_file_or_an_object)
{
	char *file = file_of(SINK("\"name\": \"own\", \"ack\": 1, "));

	cr_assert_eq(TRY("--ingest", "127.0.0.1:1", "--ingest-profile", file), 0, "%s", error);
	cr_assert_str_eq(config.ingest_profile->name, "own");
	cr_assert_eq(config.ingest_profile->max_elements, 10000);
	file = settings_with(SINK("\"name\": \"two\", \"ack\": 1, \"max_elements\": 7, "));
	cr_assert_eq(READ("--config", file), 0, "%s", error);
	cr_assert_str_eq(config.ingest_profile->name, "two");
	cr_assert_eq(config.ingest_profile->max_elements, 7);
}

Test(config, profile_of_producers_that_cannot_be_one_is_refused)
{
	assert_wrong(TRY("--ingest-profile", file_of(SINK("\"ack\": 1, "))), "--ingest,");
	assert_wrong(TRY("--ingest", "127.0.0.1:1", "--ingest-profile", "no-such-feed"), "no-such-feed");
	assert_wrong(TRY("--ingest", "127.0.0.1:1", "--ingest-profile", "/nowhere/sink.json"), "/nowhere/sink.json");
	assert_wrong(READ("--config", settings_with(SINK("\"ack\": 1, \"ack_on\": \"receive\", "))), "ack_on");
	assert_wrong(READ("--config", settings_with(SINK("\"tokens\": {\"a\": \"secret\"}, "))),
		     "ingest-profile.tokens.a");
	cr_assert_null(strstr(error, "secret"));
	assert_wrong(READ("--config", file_of("{\"sources\": [" SINK("\"name\": \"sink\", \"ack\": 1, ") "]}")),
		     "--ingest-profile");
}

static void write_into(const char *folder, const char *name, const char *text)
{
	FILE *out = fopen(memory_printf("%s/%s", folder, name), "w");

	cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* For each of them to be another file, each has a name of its own. */
Test(config, path_of_a_profile_is_relative_to_the_file_that_names_it)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	char folder[] = "/tmp/wsonce-config-XXXXXX";

	cr_assert(mkdtemp(folder) && !mkdir(memory_printf("%s/in", folder), 0700));
	for (size_t i = 0; i < 4; i++)
		write_into(folder, memory_printf("in/%s.json", names[i]),
			   memory_printf("{\"name\": \"%s\", \"vars\": {\"v\": 1}, \"url\": \"ws://h/${v}\", "
					 "\"rules\": [{\"action\": \"event\", \"id\": [[\"/id\"]]}]}",
					 names[i]));
	write_into(folder, "in/list", "./a.json\nb.json?v=2\n");
	write_into(folder, "in/settings", "{\"feed-file\": \"list\", \"sources\": [{\"profile\": \"c.json\"}]}");
	write_into(folder, "in/feeds", "{\"feed\": [\"a.json\"], \"sources\": [{\"profile\": \"./b.json\"}]}");
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(READ("--config", "in/feeds"), 0, "%s", error);
	cr_assert_eq(config.feed_count, 2);
	cr_assert_eq(READ("--feed", "in/a.json?v=7", "--feed-file", "in/list"), 0, "%s", error);
	assert_wrong(READ("--feed", "a.json"), "a.json: cannot be read");
	cr_assert_eq(chdir("in"), 0);
	cr_assert_eq(READ("--feed", "d.json"), 0, "%s", error);
	cr_assert_eq(READ("--config", memory_printf("%s/in/settings", folder)), 0, "%s", error);
	cr_assert_eq(config.feed_count, 3);
	cr_assert_eq(system(memory_printf("rm -r %s", folder)), 0);
}

/* With tokens in the profile, an address that is not loopback may be used. */
Test(config, profile_with_tokens_opens_an_address_to_all)
{
	char *with = file_of(SINK("\"tokens\": {\"a\": \"${env:SINK_TOKEN}\"}, "));

	cr_assert_eq(TRY("--ingest", "0.0.0.0:1", "--ingest-profile", with), 0, "%s", error);
	assert_wrong(TRY("--ingest", "0.0.0.0:1", "--ingest-profile", file_of(SINK("\"ack\": 1, "))), "--ingest");
}
