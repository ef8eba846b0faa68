/* completion.c owns `wsonce completion`: what a shell needs to complete wsonce's words, from the same tables as --help.
 */
#include <stdio.h>
#include <string.h>

#include "commands/dispatch.h"

#define FAMILY_SIZE 40

/* In each shell the words so far name the command: one word, or two. */
static const char bash_head[] = "# bash completion of wsonce: source <(wsonce completion bash)\n"
				"_wsonce() {\n"
				"	local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
				"	case \"${COMP_WORDS[*]:1:COMP_CWORD-1} \" in\n";
static const char bash_end[] = "	esac\n"
			       "	[[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
			       "}\n"
			       "complete -o default -F _wsonce wsonce\n";
/* Of a command's own words, _arguments sees the last one of its name and what follows. */
static const char zsh_head[] = "#compdef wsonce\n"
			       "# zsh completion of wsonce: source <(wsonce completion zsh)\n"
			       "_wsonce() {\n"
			       "	local -a found\n"
			       "	case \"${words[2,CURRENT-1]} \" in\n";
static const char zsh_end[] = "	esac\n"
			      "	(( $#found )) && _describe command found\n"
			      "}\n"
			      "if [[ $funcstack[1] = _wsonce ]]; then _wsonce; else compdef _wsonce wsonce; fi\n";
static const char fish_head[] = "# fish completion of wsonce: wsonce completion fish | source\n"
				"function __wsonce_after\n"
				"	set -l said (commandline -opc)\n"
				"	test \"$said[2..]\" = \"$argv\"\n"
				"end\n"
				"function __wsonce_of\n"
				"	set -l said (commandline -opc)\n"
				"	set -l last (math 1 + (count $argv))\n"
				"	test \"$said[2..$last]\" = \"$argv\"\n"
				"end\n";

/* The first word of the command becomes *family, which has that of the one before, and *second is the other word or
 * NULL. Returns whether it is another family. */
static bool is_first_of(char *family, const struct subcommand *c, const char **second)
{
	size_t n = strcspn(c->name, " ");
	bool is_first = strncmp(family, c->name, n) != 0 || family[n];

	*second = c->name[n] ? c->name + n + 1 : NULL;
	snprintf(family, FAMILY_SIZE, "%.*s", (int)n, c->name);
	return is_first;
}

/* For between single quotes: what is in special gets a backslash, and quote stands for a single quote. */
static void print_quoted(const char *text, const char *special, const char *quote)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs(quote, stdout);
		else
			printf(strchr(special, *text) ? "\\%c" : "%c", *text);
}

/* --- bash --- */

static void print_bash_flag(void *arg, const char *flag, const char *value, const char *meaning)
{
	(void)arg;
	(void)value;
	(void)meaning;
	printf(" --%s", flag);
}

static void print_bash_word(void *arg, const struct subcommand *c)
{
	const char *second;

	if (is_first_of(arg, c, &second))
		printf(" %s", (char *)arg);
}

static void print_bash_action(void *arg, const struct subcommand *c)
{
	const char *second;

	is_first_of(arg, c, &second);
	if (second)
		printf("	\"%s \" | \"help %s \") words+=\" %s\" ;;&\n", (char *)arg, (char *)arg, second);
}

static void print_bash_case(void *arg, const struct subcommand *c)
{
	(void)arg;
	printf("	\"%s \"*) words=\"--help", c->name);
	dispatch_each_flag(c, print_bash_flag, NULL);
	printf("\" ;;\n");
}

static void print_bash(void)
{
	char family[FAMILY_SIZE] = "";

	fputs(bash_head, stdout);
	printf("	\" \") words=\"help --help --version\" ;;&\n	\" \" | \"help \") words+=\" listen");
	dispatch_each(print_bash_word, family);
	printf("\" ;;\n");
	dispatch_each(print_bash_action, family);
	dispatch_each(print_bash_case, NULL);
	printf("	\"listen \"*) words=\"--help --dry-run");
	dispatch_each_flag(NULL, print_bash_flag, NULL);
	printf("\" ;;\n");
	fputs(bash_end, stdout);
}

/* --- zsh --- */

static void print_zsh_text(const char *text)
{
	print_quoted(text, "\\:]", "'\\''");
}

static void print_zsh_flag(void *arg, const char *flag, const char *value, const char *meaning)
{
	(void)arg;
	printf(" \\\n\t\t'*--%s%s[", flag, *value ? "=" : "");
	print_zsh_text(meaning);
	putchar(']');
	if (*value) {
		putchar(':');
		print_zsh_text(value);
		printf(":_files");
	}
	putchar('\'');
}

static void print_zsh_word(void *arg, const struct subcommand *c)
{
	const char *second;

	if (!is_first_of(arg, c, &second))
		return;
	printf(" '%s", (char *)arg);
	if (!second) {
		putchar(':');
		print_zsh_text(c->summary);
	}
	putchar('\'');
}

static void print_zsh_action(void *arg, const struct subcommand *c)
{
	const char *second;

	is_first_of(arg, c, &second);
	if (!second)
		return;
	printf("	\"%s \" | \"help %s \") found+=('%s:", (char *)arg, (char *)arg, second);
	print_zsh_text(c->summary);
	printf("') ;|\n");
}

static void print_zsh_flags(const char *name, const struct subcommand *c)
{
	int before = strchr(name, ' ') ? 2 : 1;

	printf("	\"%s \"*)\n\t\tshift %d words; (( CURRENT -= %d ))\n\t\t_arguments '--help[show what it does]'",
	       name, before, before);
	dispatch_each_flag(c, print_zsh_flag, NULL);
	printf(" \\\n\t\t'*:file:_files' ;;\n");
}

static void print_zsh_case(void *arg, const struct subcommand *c)
{
	(void)arg;
	print_zsh_flags(c->name, c);
}

static void print_zsh(void)
{
	char family[FAMILY_SIZE] = "";

	fputs(zsh_head, stdout);
	printf("	\" \") found=('help:show what a command does' --help --version) ;|\n"
	       "	\" \" | \"help \") found+=('listen:run a listener'");
	dispatch_each(print_zsh_word, family);
	printf(") ;;\n");
	dispatch_each(print_zsh_action, family);
	dispatch_each(print_zsh_case, NULL);
	print_zsh_flags("listen", NULL);
	fputs(zsh_end, stdout);
}

/* --- fish --- */

/* A word that may come after others, and no file. */
static void print_fish_word(const char *after, const char *word, const char *meaning)
{
	printf("complete -c wsonce -f -n '__wsonce_after%s%s; or __wsonce_after help%s%s' -a %s", *after ? " " : "",
	       after, *after ? " " : "", after, word);
	if (meaning) {
		printf(" -d '");
		print_quoted(meaning, "\\", "\\'");
		putchar('\'');
	}
	putchar('\n');
}

static void print_fish_flag(void *arg, const char *flag, const char *value, const char *meaning)
{
	printf("complete -c wsonce -n '__wsonce_of %s' -l %s%s -d '", (const char *)arg, flag, *value ? " -r" : "");
	print_quoted(meaning, "\\", "\\'");
	printf("'\n");
}

static void print_fish_command(void *arg, const struct subcommand *c)
{
	const char *second;

	if (is_first_of(arg, c, &second))
		print_fish_word("", arg, second ? NULL : c->summary);
	if (second)
		print_fish_word(arg, second, c->summary);
	dispatch_each_flag(c, print_fish_flag, (void *)c->name);
}

static void print_fish(void)
{
	static char listen[] = "listen";
	char family[FAMILY_SIZE] = "";

	fputs(fish_head, stdout);
	printf("complete -c wsonce -f -n __wsonce_after -a help -d 'show what a command does'\n"
	       "complete -c wsonce -l help -d 'show what it does'\ncomplete -c wsonce -n __wsonce_after -l version\n");
	print_fish_word("", listen, "run a listener");
	dispatch_each(print_fish_command, family);
	print_fish_flag(listen, "dry-run", "", "check what it needs, and end");
	dispatch_each_flag(NULL, print_fish_flag, listen);
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
	if (strcmp(in->words[0], "bash") == 0)
		print_bash();
	else if (strcmp(in->words[0], "zsh") == 0)
		print_zsh();
	else
		print_fish();
	return STATUS_FINE;
}

const struct subcommand completion_command = {
	.name = "completion",
	.arguments = "SHELL",
	.least_words = 1,
	.most_words = 1,
	.summary = "print a completion script for bash, zsh or fish",
	.help = "Prints a script for the shell: source <(wsonce completion bash), or wsonce completion fish | "
		"source.\n",
	.check = check_shell,
	.run = run_completion,
};
