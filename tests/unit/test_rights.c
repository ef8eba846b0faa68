/* Finds the missing right in the errors of Redis 7 and 8. */
#include "unit.h"

#include "redis/rights.h"

static const char *missing(const char *error)
{
	static char text[60];

	return rights_read(error, text, sizeof(text)) ? text : "none";
}

Test(rights, the_command_is_in_the_error)
{
	cr_expect_str_eq(missing("NOPERM this user has no permissions to run the 'set' command"), "set");
	cr_expect_str_eq(missing("NOPERM User w has no permissions to run the 'script|load' command"), "script|load");
	cr_expect_str_eq(missing("NOPERM No permissions to access a key"), "~");
	cr_expect_str_eq(missing("ERR ACL failure in script: User w has no permissions to run the 'zadd' command "
				 "script: 0, on @user_script:1."),
			 "zadd");
	cr_expect_str_eq(missing("ERR ACL failure in script: No permissions to access a key script: 0, on "
				 "@user_script:1."),
			 "~");
	cr_expect_str_eq(missing("NOPERM as you like"), "?");
}

Test(rights, of_a_script_the_line_tells_the_command)
{
	static const char text[] = "ERR The user executing the script can't run this command or subcommand script: %s, "
				   "on @user_script:%s.";
	char error[200];

	snprintf(error, sizeof(error), text, "0000000000000000000000000000000000000000", "1");
	cr_expect_str_eq(missing(error), "?");
	cr_expect_str_eq(missing("ERR The user executing the script can't access at least one of the keys mentioned "
				 "in the command arguments script: 0, on @user_script:1."),
			 "~");
}

Test(rights, other_errors_say_nothing_of_rights)
{
	cr_expect_str_eq(missing("READONLY You can't write against a read only replica."), "none");
	cr_expect_str_eq(missing("ERR to run the 'set' command"), "none");
}
