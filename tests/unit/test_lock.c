/* The lock beside an SQLite file. Locks belong to open files, so one process can play two. */
#include "unit.h"

#include "sqlite/lock.h"

static char folder[] = "/tmp/wsonce-lock-XXXXXX", path[40], leases[50];

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/e.db", folder);
	snprintf(leases, sizeof(leases), "%s-leases", path);
}

static void tear_down(void)
{
	unlink(leases);
	rmdir(folder);
}

TestSuite(lock, .init = set_up, .fini = tear_down);

Test(lock, one_of_two_has_it_until_it_lets_go)
{
	struct sqlite_lock *a = sqlite_lock_new(path, 7), *b = sqlite_lock_new(path, 7);

	cr_assert(sqlite_lock_take(a));
	cr_assert_not(sqlite_lock_take(b));
	cr_assert(sqlite_lock_take(a), "it does not keep it");
	sqlite_lock_free(a);
	cr_assert(sqlite_lock_take(b));
	sqlite_lock_free(b);
}

Test(lock, other_numbers_are_other_locks)
{
	struct sqlite_lock *a = sqlite_lock_new(path, UINT64_MAX), *b = sqlite_lock_new(path, 0);

	cr_assert(sqlite_lock_take(a));
	cr_assert(sqlite_lock_take(b));
	sqlite_lock_free(a);
	sqlite_lock_free(b);
}

Test(lock, in_a_file_that_is_deleted_it_is_nobodys)
{
	struct sqlite_lock *a = sqlite_lock_new(path, 7), *b = sqlite_lock_new(path, 7);

	cr_assert(sqlite_lock_take(a));
	unlink(leases);
	cr_assert(sqlite_lock_take(b));
	cr_assert_not(sqlite_lock_take(a), "two have it");
	sqlite_lock_free(a);
	sqlite_lock_free(b);
}

Test(lock, without_a_folder_there_is_none)
{
	struct sqlite_lock *a = sqlite_lock_new("/nowhere/e.db", 7);

	cr_assert_not(sqlite_lock_take(a));
	sqlite_lock_free(a);
}
