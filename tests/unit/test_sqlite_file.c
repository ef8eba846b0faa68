/* Whose an SQLite file is, and where its path may lead. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sqlite/file.h"
#include "unit.h"

static char folder[] = "/tmp/wsonce-file-XXXXXX";
static char path[64], other[64];

static void set_up(void)
{
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.db", folder);
	snprintf(other, sizeof(other), "%s/other.db", folder);
}

static void tear_down(void)
{
	unlink(path);
	unlink(other);
	rmdir(folder);
}

TestSuite(sqlite_file, .init = set_up, .fini = tear_down, .timeout = 60);

static struct sqlite_file *open_file(const char *at)
{
	enum sqlite_result result;
	char why[SQLITE_FILE_WHY];

	return sqlite_file_open(at, true, NULL, &result, why);
}

Test(sqlite_file, a_new_one_is_its_user_s_alone)
{
	struct sqlite_file *f;
	struct stat st;

	umask(0);
	f = open_file(path);
	cr_assert(f);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	sqlite_file_close(f);
}

Test(sqlite_file, a_link_is_not_followed)
{
	cr_assert_eq(symlink(other, path), 0);
	cr_assert_null(open_file(path));
	cr_assert_neq(access(other, F_OK), 0);
}

Test(sqlite_file, a_link_to_its_folder_is)
{
	char link[80], at[100];
	struct sqlite_file *f;

	snprintf(link, sizeof(link), "%s.link", folder);
	snprintf(at, sizeof(at), "%s/events.db", link);
	cr_assert_eq(symlink(folder, link), 0);
	f = open_file(at);
	unlink(link);
	cr_assert(f);
	sqlite_file_close(f);
}
