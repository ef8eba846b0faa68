/* The private servers of `make demo` and `make run` are private. */
#include "process.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Who is not root needs a name in the database that is not his own. */
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
	process_free(p);
}
