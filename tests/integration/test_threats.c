/* Every test that SECURITY.md names exists. */
#include "support.h"

static char *read_command(const char *command)
{
	FILE *in = popen(command, "r");
	char *text = calloc(1, 1 << 20);

	cr_assert_not_null(in);
	cr_assert_gt(fread(text, 1, (1 << 20) - 1, in), 0, "%s", command);
	pclose(in);
	return text;
}

Test(threats, each_test_that_security_md_names_is_there)
{
	char *tests = read_command("sed -n 's/^Test(\\([a-z_0-9]*\\), *\\([a-z_0-9]*\\).*/`\\1\\/\\2`/p' tests/*/*.c");
	char *names = read_command("sed '1,/^## A stranger/d' SECURITY.md | grep -o '`[a-z_]*/[a-z_0-9]*`'"), *at;
	int count = 0;

	for (char *name = strtok_r(names, "\n", &at); name; name = strtok_r(NULL, "\n", &at)) {
		cr_expect(strstr(tests, name), "SECURITY.md names %s", name);
		count++;
	}
	cr_assert_geq(count, 40);
}
