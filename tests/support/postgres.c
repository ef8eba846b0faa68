/* A Postgres server for one test: a copy of the suite's template cluster, and its processes. */
#include "postgres.h"
#include "support.h"

#include <libgen.h>
#include <limits.h>
#include <libpq-fe.h>

#define START_MS 30000
#define STOP_MS  30000

struct postgres {
	char *directory; /* contains the socket and the data directory */
	char *data;
	char *conninfo;
	char *full; /* the disk is full while this file exists; NULL if it never is */
	uid_t uid;  /* the owner of the cluster, and user of the server */
	gid_t gid;
	struct process *process; /* the postmaster; NULL while stopped */
	struct database *database;
};

static void copy_cluster(struct postgres *pg, const char *template)
{
	const char *copy[] = {"cp", "-a", "--reflink=auto", template, pg->data, NULL};
	struct stat st;

	if (stat(template, &st) == -1)
		cr_assert_fail("no cluster to copy at %s: %s", template, strerror(errno));
	pg->uid = st.st_uid;
	pg->gid = st.st_gid;
	if (mkdir(pg->directory, 0755) == -1 || (geteuid() == 0 && chown(pg->directory, pg->uid, pg->gid) == -1))
		cr_assert_fail("cannot make %s: %s", pg->directory, strerror(errno));
	if (process_run(copy, 30000) != 0)
		cr_assert_fail("cannot copy %s to %s", template, pg->data);
}

/* The server, whatever its state, and its files. */
static void end_server(void *server)
{
	struct postgres *pg = server;

	if (pg->process && process_is_alive(pg->process)) {
		postgres_resume(pg);
		postgres_kill(pg);
	}
	suite_remove(pg->directory);
}

static struct postgres *new_server(const char *template)
{
	struct postgres *pg = calloc(1, sizeof *pg);

	pg->directory = suite_path("pg%d", suite_number());
	pg->data = suite_text("%s/data", pg->directory);
	pg->conninfo = suite_text("host=%s port=5432 user=postgres dbname=postgres", pg->directory);
	copy_cluster(pg, template);
	pg->database = database_open(pg->conninfo);
	suite_at_end(end_server, pg);
	return pg;
}

struct postgres *postgres_new(void)
{
	struct postgres *pg = new_server(suite_env("WSONCE_TEST_PGTEMPLATE"));

	postgres_start(pg);
	database_lay_out(pg->database);
	return pg;
}

struct postgres *postgres_new_on_disk(void)
{
	struct postgres *pg = new_server(suite_env("WSONCE_TEST_PGTEMPLATE"));
	const char *copy[] = {"cp", NULL, pg->directory, NULL};
	char program[PATH_MAX] = "";

	cr_assert_gt(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
	copy[1] = suite_text("%s/full_disk.so", dirname(program));
	cr_assert_eq(process_run(copy, 10000), 0, "cannot copy %s", copy[1]);
	pg->full = suite_text("%s/full", pg->directory);
	postgres_start(pg);
	database_lay_out(pg->database);
	return pg;
}

void postgres_fill_disk(struct postgres *pg)
{
	FILE *file = fopen(pg->full, "we");

	cr_assert(file && fclose(file) == 0, "cannot make %s: %s", pg->full, strerror(errno));
}

void postgres_empty_disk(struct postgres *pg)
{
	cr_assert_eq(unlink(pg->full), 0, "cannot remove %s: %s", pg->full, strerror(errno));
}

static void make_standby(struct postgres *pg)
{
	char *path = suite_text("%s/standby.signal", pg->data);
	FILE *file = fopen(path, "we");
	if (!file || (geteuid() == 0 && fchown(fileno(file), pg->uid, pg->gid) == -1) || fclose(file))
		cr_assert_fail("cannot make %s: %s", path, strerror(errno));
}

struct postgres *postgres_standby_new(struct postgres *pg)
{
	database_exec(pg->database, "alter system set wal_level = replica");
	postgres_restart(pg); /* writes the new wal_level, which the copy needs */
	postgres_stop(pg);
	struct postgres *standby = new_server(pg->data);
	make_standby(standby);
	postgres_start(pg);
	postgres_start(standby);
	return standby;
}

void postgres_promote(struct postgres *pg)
{
	cr_assert(database_long(pg->database, "select pg_promote()"), "the standby is not promoted");
}

const char *postgres_conninfo(const struct postgres *pg)
{
	return pg->conninfo;
}

const char *postgres_directory(const struct postgres *pg)
{
	return pg->directory;
}

struct database *postgres_database(struct postgres *pg)
{
	return pg->database;
}

static bool is_accepting(struct postgres *pg)
{
	if (!process_is_alive(pg->process))
		cr_assert_fail("Postgres has ended instead of starting: %s", process_last_words(pg->process));
	return PQping(pg->conninfo) == PQPING_OK;
}

void postgres_start(struct postgres *pg)
{
	cr_assert_null(pg->process, "postgres_start: it is running");
	char *program = suite_text("%s/postgres", suite_env("WSONCE_TEST_PGBIN"));
	const char *argv[] = {program, "-D", pg->data, "-k", pg->directory, NULL};
	const char *const env[] = {pg->full ? suite_text("LD_PRELOAD=%s/full_disk.so", pg->directory) : NULL,
				   suite_text("WSONCE_FULL_DISK=%s", pg->full), NULL};
	pg->process = process_start(&(struct process_options){
		.argv = argv,
		.env = env,
		.directory = pg->data,
		.uid = pg->uid,
		.gid = pg->gid,
		.death_signal = SIGQUIT, /* on SIGKILL it would leave its shared memory behind */
	});
	if (!wait_until(is_accepting(pg), START_MS))
		cr_assert_fail("Postgres does not accept connections: %s", process_last_words(pg->process));
}

static void end(struct postgres *pg, int signo)
{
	cr_assert_not_null(pg->process, "Postgres is not running");
	process_signal(pg->process, signo);
	if (process_wait(pg->process, STOP_MS) == -1)
		cr_assert_fail("Postgres did not stop: %s", process_last_words(pg->process));
	process_free(pg->process);
	pg->process = NULL;
}

void postgres_stop(struct postgres *pg)
{
	end(pg, SIGINT);
}

void postgres_kill(struct postgres *pg)
{
	end(pg, SIGQUIT);
}

void postgres_restart(struct postgres *pg)
{
	postgres_stop(pg);
	postgres_start(pg);
}

/* The state letter and the parent of a process, from /proc; false if it is gone. */
static bool has_stat(pid_t pid, char *state, pid_t *parent)
{
	char path[64], line[512];

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	bool ok = fgets(line, sizeof line, file);
	fclose(file);
	const char *rest = ok ? strrchr(line, ')') : NULL; /* the process name before it may contain anything */
	return rest && sscanf(rest, ") %c %d", state, parent) == 2;
}

static bool is_still(pid_t pid)
{
	char state;
	pid_t parent;

	return !has_stat(pid, &state, &parent) || state == 'T' || state == 'Z';
}

static void signal_one(pid_t pid, int signo)
{
	kill(pid, signo);
	if (signo == SIGSTOP && !wait_until(is_still(pid), 5000))
		cr_assert_fail("process %d of Postgres does not stand still", (int)pid);
}

/* Every process of Postgres except the postmaster is its direct child. */
static void signal_children(pid_t postmaster, int signo)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while ((entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name), parent;
		char state;

		if (isdigit((unsigned char)entry->d_name[0]) && has_stat(pid, &state, &parent) && parent == postmaster)
			signal_one(pid, signo);
	}
	closedir(proc);
}

void postgres_pause(struct postgres *pg)
{
	cr_assert_not_null(pg->process, "Postgres is not running");
	signal_one(process_id(pg->process), SIGSTOP); /* first, so that it makes no more children */
	signal_children(process_id(pg->process), SIGSTOP);
}

void postgres_resume(struct postgres *pg)
{
	cr_assert_not_null(pg->process, "Postgres is not running");
	signal_children(process_id(pg->process), SIGCONT);
	signal_one(process_id(pg->process), SIGCONT);
}

long postgres_terminate_backends(struct postgres *pg)
{
	return database_terminate_backends(pg->database);
}
