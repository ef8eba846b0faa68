/* The private servers of `make demo` and `make run` are private. */
#include "support.h"

#define END_MS 60000

/* $1: the user to try it as. The status says which step went wrong. */
static const char script[] =
	"set -um; . demo/servers.sh; . demo/fleet.sh; servers_find\n"
	"dir=$(mktemp -d) || exit 3; trap 'servers_end \"$redis_pid\" TERM; servers_end \"$postgres_pid\" INT; rm -rf "
	"\"$dir\"' EXIT\n"
	"fleet_start_servers \"$dir\" >/dev/null\n"
	"[ \"$(fleet_sql 'SELECT 1')\" = 1 ] || exit 4\n"
	"[ \"$(redis-cli -s \"$dir/redis.sock\" ping)\" = PONG ] || exit 5\n"
	"chmod 755 \"$dir\" # the folder is not all that keeps others out\n"
	"as=(setpriv --reuid \"$1\" --clear-groups)\n"
	"\"${as[@]}\" psql \"$fleet_postgres\" -AtqXc 'SELECT 1' >/dev/null 2>&1 && exit 6\n"
	"[ \"$(\"${as[@]}\" redis-cli -s \"$dir/redis.sock\" ping 2>/dev/null)\" != PONG ] || exit 7\n"
	"[ $(id -u) != 0 ] || [ \"$redis_port\" = 0 ] || exit 8\n"
	"servers_close_folder \"$dir\"; \"${as[@]}\" test -x \"$dir/.\" && exit 9\n"
	"exit 0\n";

Test(demo, nobody_else_may_use_the_private_servers)
{
	const char *const argv[] = {"bash", "-c", script, "bash", "65534", NULL};

	if (geteuid() != 0)
		cr_skip_test("only root can try it as somebody else");
	cr_assert_eq(process_run(argv, END_MS), 0);
}

/* An ordinary user connects to the database with another name than his own. */
Test(demo, the_private_servers_work_for_who_is_not_root)
{
	static const char own[] = "set -um; . demo/servers.sh; . demo/fleet.sh; servers_find\n"
				  "dir=$(mktemp -d) || exit 3; trap 'servers_end \"$redis_pid\" TERM; servers_end "
				  "\"$postgres_pid\" INT; rm -rf \"$dir\"' "
				  "EXIT\n"
				  "fleet_start_servers \"$dir\" >/dev/null\n"
				  "[ \"$(fleet_sql 'SELECT 1')\" = 1 ] && [ \"$(stat -c %a \"$dir\")\" = 700 ]\n";
	const char *const argv[] = {"bash", "-c", own, NULL};
	struct process_options as_nobody = {.argv = argv, .uid = 65534, .gid = 65534};

	if (geteuid() != 0)
		as_nobody.uid = as_nobody.gid = 0;
	struct process *p = process_start(&as_nobody);
	cr_assert_eq(process_wait(p, END_MS), 0, "%s", process_last_words(p));
}

/* A machine without apt-get, and without hiredis. */
Test(demo, make_says_which_libraries_are_missing_and_installs_nothing)
{
	static const char bare[] =
		"dir=$(mktemp -d) || exit 3; trap 'rm -rf \"$dir\"' EXIT; mkdir \"$dir/bin\"\n"
		"ln -s /usr/bin/* \"$dir/bin\" && rm -f \"$dir\"/bin/{apt-get,dpkg-query,pkg-config}\n"
		"printf '#!/bin/sh\\ncase \"$*\" in *hiredis*) exit 1;; esac\\n' >\"$dir/bin/pkg-config\"\n"
		"chmod 755 \"$dir/bin/pkg-config\"; export PATH=$dir/bin; unset MAKEFLAGS MFLAGS MAKELEVEL CC\n"
		"for target in all deps check demo; do\n"
		"	make $target >\"$dir/out\" 2>&1 && exit 4\n"
		"	[ \"$(grep -c 'not found: hiredis\\. ' \"$dir/out\")\" = 1 ] || { cat \"$dir/out\"; exit 5; }\n"
		"	[ \"$(wc -l <\"$dir/out\")\" = 2 ] || { cat \"$dir/out\"; exit 6; } # the other is make's own\n"
		"done\n"
		"printf '#!/bin/sh\\n' >\"$dir/bin/pkg-config\"\n"
		"make deps >\"$dir/out\" 2>&1 && [ ! -s \"$dir/out\" ] || exit 7\n";
	const char *const argv[] = {"bash", "-c", bare, NULL};
	struct process *p = process_start_argv(argv, NULL);
	int status = process_wait(p, END_MS);

	cr_assert_eq(status, 0, "%d: %s", status, process_last_words(p));
}
