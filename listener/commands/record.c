/* record.c owns the command that writes down what a feed sends, for `wsonce try --frames`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/dispatch.h"
#include "commands/live.h"
#include "config/profile.h"

struct record_options {
	const char *profile;
	const char *feed;
	int64_t seconds;
	int64_t messages;
};

static const struct option options[] = {
	{"profile", OPTION_TEXT, offsetof(struct record_options, profile), "FILE", 0, 0, NULL,
	 "a profile: a file, or the name of a shipped one"},
	{"feed", OPTION_TEXT, offsetof(struct record_options, feed), "NAME", 0, 0, NULL,
	 "a shipped profile, NAME or NAME?var=value&...; wsonce profile list"},
	{"seconds", OPTION_NUMBER, offsetof(struct record_options, seconds), "S", 0, 86400, NULL,
	 "end after so many; 0: on Ctrl-C"},
	{"messages", OPTION_NUMBER, offsetof(struct record_options, messages), "N", 0, INT64_C(1) << 40, NULL,
	 "end after so many; 0: on Ctrl-C"},
};

static const char *check(const struct invocation *in)
{
	const struct record_options *o = in->options;

	return !o->profile == !o->feed ? "record needs --profile FILE or --feed NAME, one of the two" : NULL;
}

/* A new file that nobody else may read, since a message may hold anything; a link is not followed. */
static FILE *open_new(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

static int run_record(const struct invocation *in)
{
	const struct record_options *o = in->options;
	const char *path = in->words[0];
	struct profile *p = live_profile(o->profile, o->feed);
	FILE *out;
	int status;

	if (!p)
		return STATUS_USAGE;
	out = strcmp(path, "-") == 0 ? stdout : open_new(path);
	if (!out) {
		profile_free(p);
		return errno == EEXIST ? dispatch_fail("%s is there already: give the name of a new file", path)
				       : dispatch_fail("%s: %s", path, strerror(errno));
	}
	status = live_record(in, p, out, o->messages, o->seconds);
	if (out != stdout && ftell(out) == 0)
		unlink(path); /* or the next try would find it */
	if (ferror(out) | (out == stdout ? fflush(out) : fclose(out)))
		status = dispatch_fail("%s: cannot be written: %s", path, strerror(errno));
	profile_free(p);
	return status;
}

const struct subcommand record_command = {
	.name = "record",
	.arguments = "FILE",
	.summary = "write what a feed sends into a file, a message a line",
	.help = "Connects to a feed as its profile says, and writes each message into FILE, which must not exist (-: "
		"standard output). wsonce try --frames FILE reads it. Needs neither Redis nor Postgres.",
	.least_words = 1,
	.most_words = 1,
	COMMAND_OPTIONS(options, struct record_options),
	.check = check,
	.settings = "max-message log-level log-format config",
	.run = run_record,
};
