/* colour.c decides when states have a colour, and has the escape sequences for it (ECMA-48, SGR). */
#include "commands/colour.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_wanted(void)
{
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return !(no && *no) && !(terminal && strcmp(terminal, "dumb") == 0) && isatty(STDOUT_FILENO);
}

void colour_print(enum colour colour, int width, const char *state)
{
	static const char *const begins[] = {"\033[32m", "\033[33m", "\033[31m"};
	bool is_coloured = is_wanted();

	printf("%s%-*s%s", is_coloured ? begins[colour] : "", width, state, is_coloured ? "\033[0m" : "");
}
