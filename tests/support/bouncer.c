/* A PgBouncer. Like Postgres, it refuses to run as root. */
#include "bouncer.h"
#include "support.h"

#include <libpq-fe.h>

#define START_MS 15000

struct bouncer {
	char *directory; /* directory of its socket */
	struct process *process;
};

/* The value of host= in a conninfo without quotes. */
static char *host_of(const char *conninfo)
{
	const char *at = strstr(conninfo, "host=");

	cr_assert_not_null(at);
	at += strlen("host=");
	return strndup(at, strcspn(at, " "));
}

static char *write_settings(const struct bouncer *b, int connections, const char *mode)
{
	char *host = host_of(suite_env("WSONCE_TEST_POSTGRES")), *text, *path;

	text = suite_text("[databases]\n* = host=%s port=5432 user=postgres\n[pgbouncer]\nlisten_addr =\n"
			  "listen_port = 6432\nunix_socket_dir = %s\nunix_socket_mode = 0777\nauth_type = any\n"
			  "pool_mode = %s\ndefault_pool_size = %d\n",
			  host, b->directory, mode, connections);
	path = suite_file("pgbouncer.ini", text);
	return path;
}

static bool is_answering(struct bouncer *b)
{
	char conninfo[300];

	if (!process_is_alive(b->process))
		cr_assert_fail("PgBouncer has ended: %s", process_last_words(b->process));
	snprintf(conninfo, sizeof conninfo, "host=%s port=6432 user=postgres dbname=postgres", b->directory);
	return PQping(conninfo) == PQPING_OK;
}

struct bouncer *bouncer_in_mode_new(int connections, const char *mode)
{
	struct bouncer *b = calloc(1, sizeof *b);
	struct stat servers;

	b->directory = suite_path("pgbouncer%d", suite_number());
	cr_assert_eq(stat(suite_env("WSONCE_TEST_PGTEMPLATE"), &servers), 0);
	cr_assert_eq(mkdir(b->directory, 0755), 0);
	cr_assert(geteuid() != 0 || chown(b->directory, servers.st_uid, servers.st_gid) == 0);
	char *settings = write_settings(b, connections, mode);
	const char *argv[] = {"pgbouncer", settings, NULL};
	b->process = process_start(&(struct process_options){
		.argv = argv, .directory = b->directory, .uid = servers.st_uid, .gid = servers.st_gid});
	await(is_answering(b), START_MS, "%s", process_last_words(b->process));
	return b;
}

struct bouncer *bouncer_new(int connections)
{
	return bouncer_in_mode_new(connections, "transaction");
}

char *bouncer_conninfo(const struct bouncer *b, const struct database *db)
{
	const char *name = strstr(database_conninfo(db), "dbname=");
	char *conninfo = suite_text("host=%s port=6432 user=postgres %s", b->directory, name);
	return conninfo;
}
