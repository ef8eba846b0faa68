/* docker-compose.yml, as far as it can be read without an engine: no default secret, every setting passed through,
 * every container hardened. */
#include "support.h"

static char *text;

static void set_up(void)
{
	text = suite_read("docker-compose.yml");
}

TestSuite(compose, .init = set_up);

static int count(const char *part)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	return n;
}

Test(compose, no_secret_has_a_default)
{
	static const char *const secrets[] = {"POSTGRES_PASSWORD", "OWNER_PASSWORD", "LISTENER_PASSWORD",
					      "REDIS_PASSWORD", "WSONCE_INGEST_TOKEN"};
	char part[80];

	for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
		snprintf(part, sizeof part, "${%s:?", secrets[i]);
		cr_assert_geq(count(part), 1, "%s is not demanded", secrets[i]);
		snprintf(part, sizeof part, "${%s:-", secrets[i]);
		cr_assert_eq(count(part), 0, "%s has a default", secrets[i]);
	}
}

Test(compose, each_container_is_hardened)
{
	cr_assert_eq(count("\n    <<: *hardened\n"), 5);
	cr_assert_eq(count("\n    image: "), 5);
	cr_assert_eq(count("read_only: true"), 1);
	cr_assert_eq(count("cap_drop: [ALL]"), 1);
	cr_assert_eq(count("no-new-privileges:true"), 1);
	cr_assert_eq(count("\n    user: \""), 4, "all but Postgres, whose entrypoint begins as root");
	cr_assert_eq(count("profiles: [feed]"), 1);
}

/* Except those that differ for each listener, and those for files that a container does not have. */
Test(compose, each_setting_is_passed_to_the_listeners)
{
	static const char left_out[] =
		"WSONCE_INSTANCE_ID WSONCE_REDIS_FILE WSONCE_POSTGRES_FILE WSONCE_INGEST_TOKEN_FILE "
		"WSONCE_SOURCE_FILE WSONCE_FEED_FILE WSONCE_SOURCE_PROXY_FILE";
	struct run run = run_in(NULL, "listen --help=all");
	const char *at = run.output;
	int settings = 0;

	while ((at = strstr(at, "[WSONCE_"))) {
		char name[64];

		cr_assert_eq(sscanf(at, "[%63[A-Z_]", name), 1);
		at += strlen(name);
		char *part = suite_text("\n      %s:", name);
		settings++;
		cr_assert(strstr(left_out, name) || count(part) == 1, "%s is not passed", name);
	}
	cr_assert_geq(settings, 40);
}
