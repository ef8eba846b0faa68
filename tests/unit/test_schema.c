/* The SQL that brings a database up to date, as far as it can be told without one. */
#include "postgres/schema.h"
#include "unit.h"

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static int count(const char *text, const char *part)
{
	int n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

Test(schema, upgrade_of_an_empty_database_runs_every_migration_and_commits)
{
	char *sql = schema_upgrade_sql(0);

	cr_assert_not_null(strstr(sql, "CREATE TABLE IF NOT EXISTS :schema.events"));
	cr_assert_not_null(strstr(sql, "CREATE TABLE IF NOT EXISTS :schema.dead_letters"));
	cr_assert_eq(count(sql, "INSERT INTO :schema.wsonce_schema"), schema_version());
	cr_assert(ends_with(sql, "COMMIT"));
	free(sql);
}

Test(schema, each_migration_records_its_version)
{
	char *sql = schema_upgrade_sql(0), line[100];

	for (int version = 1; version <= schema_version(); version++) {
		snprintf(line, sizeof(line), "INSERT INTO :schema.wsonce_schema (version) VALUES (%d);", version);
		cr_assert_eq(count(sql, line), 1);
	}
	free(sql);
}

Test(schema, upgrade_of_a_current_database_only_commits)
{
	char *sql = schema_upgrade_sql(schema_version());

	cr_assert_str_eq(sql, "COMMIT");
	free(sql);
}

Test(schema, upgrade_of_a_newer_database_only_commits)
{
	char *sql = schema_upgrade_sql(schema_version() + 1);

	cr_assert_str_eq(sql, "COMMIT");
	free(sql);
}

Test(schema, lock_is_taken_inside_a_transaction_and_before_the_version_is_asked_for)
{
	const char *sql = schema_lock_sql();
	const char *lock = strstr(sql, "LOCK TABLE :schema.wsonce_schema");

	cr_assert_eq(strncmp(sql, "BEGIN;", 6), 0);
	cr_assert_not_null(lock);
	cr_assert_lt(lock, strstr(sql, "max(version)"));
	cr_assert(ends_with(sql, schema_ask_sql()));
	cr_assert_null(strstr(sql, "COMMIT"));
}
