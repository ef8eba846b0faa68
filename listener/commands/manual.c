/* manual.c owns `wsonce manual`: the manual pages, in mdoc(7), from the same tables as --help. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/dispatch.h"
#include "commands/mdoc.h"
#include "doc_profiles.h"

struct pages {
	const char *folder;
	FILE *out; /* the page at hand */
	int failed;
};

static void open_page(struct pages *p, const char *name, const char *section, const char *summary)
{
	char *path = memory_printf("%s/%s.%s", p->folder, name, section);

	p->out = fopen(path, "we");
	if (!p->out)
		p->failed = dispatch_fail("%s cannot be written: %s", path, strerror(errno));
	free(path);
	if (!p->out)
		return;
	fprintf(p->out, ".Dd November 22, 2026\n.Dt %s %s\n.Os wsonce %s\n.Sh NAME\n.Nm %s\n.Nd ", name, section,
		WSONCE_VERSION, name);
	mdoc_text(p->out, summary);
	fputs("\n", p->out);
}

static void close_page(struct pages *p, const char *see)
{
	fprintf(p->out, ".Sh SEE ALSO\n%s", see);
	if (fclose(p->out))
		p->failed = dispatch_fail("a manual page cannot be written: %s", strerror(errno));
}

static void put_flag(void *arg, const char *flag, const char *value, const char *meaning)
{
	FILE *out = arg;

	fprintf(out, ".It Fl \\-%s", flag);
	if (*value)
		fprintf(out, " Ar \"%s\"", value);
	putc('\n', out);
	mdoc_text(out, meaning);
	putc('\n', out);
}

static void put_flags(FILE *out, const struct subcommand *c)
{
	fputs(".Bl -tag -width Ds\n", out);
	dispatch_each_flag(c, put_flag, out);
	fputs(".El\n", out);
}

static void write_command(void *arg, const struct subcommand *c)
{
	struct pages *p = arg;
	char *name = memory_printf("wsonce-%s", c->name), *blank = strchr(name, ' ');

	if (blank)
		*blank = '-';
	open_page(p, name, "1", c->summary);
	if (p->out) {
		fprintf(p->out, ".Sh SYNOPSIS\n.Nm wsonce %s\n.Op Ar options\n", c->name);
		if (*c->arguments)
			fprintf(p->out, ".Ar \"%s\"\n", c->arguments);
		fputs(".Sh DESCRIPTION\n", p->out);
		mdoc_text(p->out, c->help);
		fputs(".Pp\nOptions and settings:\n", p->out);
		put_flags(p->out, c);
		fputs(".Sh EXIT STATUS\n0 on success, 1 if something was found or could not be done, 2 also for a "
		      "wrong option "
		      "or setting.\n",
		      p->out);
		close_page(p, ".Xr wsonce 1 ,\n.Xr wsonce.conf 5\n");
	}
	free(name);
}

static void put_command(void *arg, const struct subcommand *c)
{
	FILE *out = arg;

	fprintf(out, ".It Cm %s\n", c->name);
	mdoc_text(out, c->summary);
	putc('\n', out);
}

static void write_overview(struct pages *p)
{
	open_page(p, "wsonce", "1", "store WebSocket events in Postgres exactly once");
	if (!p->out)
		return;
	fputs(".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Sh DESCRIPTION\n"
	      "Listens to WebSocket events with any number of identical processes and stores every event in Postgres "
	      "exactly once.\n.Pp\nThe commands:\n.Bl -tag -width Ds\n.It Cm listen\nrun a listener\n",
	      p->out);
	dispatch_each(put_command, p->out);
	fputs(".El\n.Pp\nEach has a page of its own, as\n.Xr wsonce-status 1 .\nThe settings of a listener are in\n"
	      ".Xr wsonce.conf 5 .\n.Sh EXIT STATUS\n"
	      "0 if nothing was left in memory, 1 if something was or it could not go on, 2 for a wrong setting or a "
	      "database that cannot be used.\n",
	      p->out);
	close_page(p, ".Xr wsonce-check 1 ,\n.Xr wsonce-explain 1 ,\n.Xr wsonce-status 1 ,\n.Xr wsonce.conf 5\n");
}

static void write_settings(struct pages *p)
{
	open_page(p, "wsonce.conf", "5", "settings of wsonce");
	if (!p->out)
		return;
	fputs(".Sh DESCRIPTION\nThe file that\n.Fl \\-config\nnames is a JSON object whose keys are the names below "
	      "without "
	      "the dashes.\nThe environment has each in capitals, with _ for a dash, behind WSONCE_: "
	      "WSONCE_CLAIM_TTL.\n"
	      "Flags win over the environment, the environment over the file.\n",
	      p->out);
	put_flags(p->out, NULL);
	close_page(p, ".Xr wsonce 1\n");
}

static void write_listen(struct pages *p)
{
	open_page(p, "wsonce-listen", "1", "run a listener");
	if (!p->out)
		return;
	fputs(".Sh SYNOPSIS\n.Nm wsonce listen\n.Op Ar options\n.Sh DESCRIPTION\n"
	      "Runs one listener until SIGTERM or SIGINT, which have it store what is in memory before it leaves.\n"
	      "SIGHUP has it read settings, tokens and certificates again; see\n.Xr wsonce-reload 1 .\n"
	      "Start as many as you like, with the same settings.\nAt least\n.Fl \\-source ,\n.Fl \\-feed\nor\n.Fl "
	      "\\-ingest\nis needed.\nWith\n.Fl \\-dry\\-run\nit checks all that it needs, as\n.Xr wsonce-check 1\n"
	      "does, and ends.\n.Pp\nThe settings, which may also be in the environment or a file, see\n.Xr "
	      "wsonce.conf 5 "
	      ":\n",
	      p->out);
	put_flags(p->out, NULL);
	fputs(".Sh EXIT STATUS\n0 if nothing was left in memory, 1 if something was or it could not go on, 2 for a "
	      "wrong "
	      "setting or a database that cannot be used.\n",
	      p->out);
	close_page(p, ".Xr wsonce 1 ,\n.Xr wsonce-check 1 ,\n.Xr wsonce-reload 1 ,\n.Xr wsonce-profile 5 ,\n.Xr "
		      "wsonce.conf 5\n");
}

static void write_profiles(struct pages *p)
{
	open_page(p, "wsonce-profile", "5", "profiles of feeds and producers");
	if (!p->out)
		return;
	fputs(".Sh DESCRIPTION\n", p->out);
	mdoc_markdown(p->out, DOC_PROFILES);
	close_page(p, ".Xr wsonce-profile-check 1 ,\n.Xr wsonce-try 1 ,\n.Xr wsonce.conf 5\n");
}

static int run_manual(const struct invocation *in)
{
	struct pages p = {.folder = in->words[0]};

	write_overview(&p);
	if (!p.failed)
		write_settings(&p);
	if (!p.failed)
		write_listen(&p);
	if (!p.failed)
		write_profiles(&p);
	if (!p.failed)
		dispatch_each(write_command, &p);
	return p.failed ? STATUS_FAILED : STATUS_FINE;
}

const struct subcommand manual_command = {
	.name = "manual",
	.arguments = "FOLDER",
	.least_words = 1,
	.most_words = 1,
	.summary = "write the manual pages into a folder",
	.help = "Writes wsonce.1, a page for each command, wsonce.conf.5 and wsonce-profile.5 into the folder, for "
		"make\n"
		"install: man -l FOLDER/wsonce.1 shows one.\n",
	.run = run_manual,
};
