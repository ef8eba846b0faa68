/* completion.c owns `wsonce completion`: what a shell needs to complete wsonce's words, from the same tables as --help.
 */
#include <stdio.h>
#include <string.h>

#include "commands/dispatch.h"

/* In each shell the words so far name the command: one word, or two. */
static const char bash_head[] = "# bash completion of wsonce: source <(wsonce completion bash)\n"
				"_wsonce() {\n"
				"	local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
				"	case \"${COMP_WORDS[*]:1:COMP_CWORD-1} \" in\n";
static const char bash_end[] = "	esac\n"
			       "	[[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
			       "}\n"
			       "complete -o default -F _wsonce wsonce\n";

static void print_flag(void *arg, const char *flag, const char *meaning)
{
	(void)arg;
	(void)meaning;
	printf(" --%s", flag);
}

static void print_first_word(void *arg, const struct subcommand *c)
{
	char *last = arg;
	int n = (int)strcspn(c->name, " ");

	if (strncmp(last, c->name, (size_t)n) == 0 && !last[n])
		return;
	snprintf(last, 40, "%.*s", n, c->name);
	printf(" %s", last);
}

/* The second words of a family, or the flags of a command; that of the longer name comes first. */
static void print_bash_case(void *arg, const struct subcommand *c)
{
	(void)arg;
	printf("	\"%s \"*) words=\"--help", c->name);
	dispatch_each_flag(c, print_flag, NULL);
	printf("\" ;;\n");
}

static void print_bash_family(void *arg, const struct subcommand *c)
{
	const char *second = strchr(c->name, ' ');

	(void)arg;
	if (second)
		printf("	\"%.*s \") words+=\" %s\" ;;&\n", (int)(second - c->name), c->name, second + 1);
}

static void print_bash(void)
{
	char last[40] = "";

	fputs(bash_head, stdout);
	printf("	\" \") words=\"listen help --help --version");
	dispatch_each(print_first_word, last);
	printf("\" ;;\n");
	dispatch_each(print_bash_family, NULL);
	dispatch_each(print_bash_case, NULL);
	printf("	\"listen \"*) words=\"--help --dry-run");
	dispatch_each_flag(NULL, print_flag, NULL);
	printf("\" ;;\n");
	fputs(bash_end, stdout);
}

/* zsh has bash's functions. */
static void print_zsh(void)
{
	printf("#compdef wsonce\nautoload -U +X bashcompinit && bashcompinit\n");
	print_bash();
}

/* Inside single quotes. */
static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++)
		if (*text == '\'' || *text == '\\')
			printf("\\%c", *text);
		else
			putchar(*text);
	putchar('\'');
}

static void print_fish_flag(void *arg, const char *flag, const char *meaning)
{
	const char *name = arg;

	printf("complete -c wsonce -n '");
	for (const char *at = name; *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' '))
		printf("%s__fish_seen_subcommand_from %.*s", at == name ? "" : "; and ", (int)strcspn(at, " "), at);
	printf("' -l %s -d ", flag);
	print_quoted(meaning);
	putchar('\n');
}

static void print_fish(void *arg, const struct subcommand *c)
{
	const char *second = strchr(c->name, ' ');
	int n = (int)strcspn(c->name, " ");

	(void)arg;
	if (second)
		printf("complete -c wsonce -f -n '__fish_seen_subcommand_from %.*s' -a %s -d ", n, c->name, second + 1);
	else
		printf("complete -c wsonce -f -n __fish_use_subcommand -a %s -d ", c->name);
	print_quoted(c->summary);
	putchar('\n');
	if (second)
		printf("complete -c wsonce -f -n __fish_use_subcommand -a %.*s\n", n, c->name);
	dispatch_each_flag(c, print_fish_flag, (void *)c->name);
}

static const char *check_shell(const struct invocation *in)
{
	const char *shell = in->words[0];

	return strcmp(shell, "bash") != 0 && strcmp(shell, "zsh") != 0 && strcmp(shell, "fish") != 0
		       ? "completion takes bash, zsh or fish"
		       : NULL;
}

static int run_completion(const struct invocation *in)
{
	static char listen[] = "listen";

	if (strcmp(in->words[0], "bash") == 0) {
		print_bash();
	} else if (strcmp(in->words[0], "zsh") == 0) {
		print_zsh();
	} else {
		printf("complete -c wsonce -f -n __fish_use_subcommand -a listen -d 'run a listener'\n");
		dispatch_each(print_fish, NULL);
		dispatch_each_flag(NULL, print_fish_flag, listen);
	}
	return STATUS_FINE;
}

const struct subcommand completion_command = {
	.name = "completion",
	.arguments = "SHELL",
	.least_words = 1,
	.most_words = 1,
	.summary = "what bash, zsh or fish needs to complete words",
	.help = "Prints a script for the shell: source <(wsonce completion bash), or wsonce completion fish | "
		"source.\n",
	.check = check_shell,
	.run = run_completion,
};
