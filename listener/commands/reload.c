/* reload.c owns `wsonce reload`: it sends SIGHUP to a process after checking that it is a listener. listener/reload.c
 * is the listener's part. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "commands/dispatch.h"

#define PROC_BYTES 4096

/* Reads the first bytes of a file in /proc/PID. Returns false if it cannot be read. */
static bool read_proc(long pid, const char *name, char *room, size_t *len)
{
	char *path = memory_printf("/proc/%ld/%s", pid, name);
	FILE *in = fopen(path, "re");

	free(path);
	*len = in ? fread(room, 1, PROC_BYTES - 1, in) : 0;
	room[*len] = '\0';
	if (in)
		fclose(in);
	return in != NULL;
}

/* Returns what follows name in its line of /proc/PID/status, or "". */
static const char *find_line(const char *status, const char *name)
{
	for (const char *at = status; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, name, strlen(name)) == 0)
			return at + strlen(name) + strspn(at + strlen(name), " \t");
	}
	return "";
}

static bool has_signal(const char *status, const char *name, int number)
{
	return strtoull(find_line(status, name), NULL, 16) >> (number - 1) & 1;
}

/* True if the second word of /proc/PID/cmdline, whose words end with NUL, is "listen". */
static bool is_listening(const char *words, size_t len)
{
	size_t first = strlen(words) + 1;

	return first < len && strcmp(words + first, "listen") == 0;
}

/* Returns why this process must not get the signal, or NULL. */
static const char *find_objection(long pid)
{
	char own[PROC_BYTES], name[PROC_BYTES], words[PROC_BYTES], status[PROC_BYTES];
	size_t own_len, len, words_len;

	if (kill((pid_t)pid, 0) && errno == ESRCH)
		return "there is no such process";
	if (!read_proc(pid, "status", status, &len) || !read_proc(pid, "comm", name, &len) ||
	    !read_proc(pid, "cmdline", words, &words_len) || !read_proc(getpid(), "comm", own, &own_len))
		return "/proc hides it, so it may not be a listener: if you are sure, use kill -HUP";
	if (strtol(find_line(status, "Tgid:"), NULL, 10) != pid)
		return "it is a thread, not a process";
	if ((strcmp(name, own) != 0 && strcmp(name, "wsonce\n") != 0) || !is_listening(words, words_len))
		return "it is not a wsonce listener";
	if (has_signal(status, "SigIgn:", SIGHUP))
		return "it ignores SIGHUP, because nohup started it: restart it";
	return has_signal(status, "SigCgt:", SIGHUP) ? NULL : "it has only just started: try again";
}

static int run_reload(const struct invocation *in)
{
	char *end;
	long pid = strtol(in->words[0], &end, 10);
	const char *why;

	if (*end || end == in->words[0] || pid < 1 || pid > INT32_MAX) {
		dispatch_fail("\"%.80s\" is not a process id", in->words[0]);
		return STATUS_USAGE;
	}
	why = find_objection(pid);
	if (!why && kill((pid_t)pid, SIGHUP))
		why = errno == EPERM ? "it belongs to another user" : strerror(errno);
	if (why)
		return dispatch_fail("process %ld was not sent the signal: %s", pid, why);
	printf("process %ld was sent SIGHUP; its log says what it reloaded, and wsonce_reloads_failed_total in its "
	       "/metrics counts failures\n",
	       pid);
	return STATUS_FINE;
}

const struct subcommand reload_command = {
	.name = "reload",
	.arguments = "PID",
	.settings = SETTINGS_NONE,
	.run = run_reload,
};
