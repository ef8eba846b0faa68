/* findings.c owns the lines that wsonce check and wsonce config lint print, and the checks that need no server. */
#include "commands/findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/tls.h"
#include "commands/colour.h"
#include "commands/table.h"
#include "commands/json_out.h"
#include "config/setting.h"
#include "feed/secrets.h"

#define WEEK_S (int64_t)(7 * 86400)

void finding(struct findings *f, enum finding how, const char *what, const char *format, ...)
{
	static const char *const names[FINDINGS] = {"ok", "warning", "wrong"};
	static const enum colour colours[FINDINGS] = {COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED};
	char text[700];
	va_list ap;

	f->counts[how]++;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	text[strcspn(text, "\n")] = '\0';
	if (f->json) {
		json_out_item(f->json, json_pack("{s:s, s:s, s:o}", "finding", names[how], "what", what, "text",
						 json_out_string(text)));
	} else {
		colour_print(colours[how], 8, names[how]);
		json_out_line(" %-14s %s", what, text);
	}
}

static void on_unknown(void *arg, const char *variable, const char *meant)
{
	finding(arg, FINDING_WARNING, "environment", "%s is not a setting%s", variable, meant);
}

/* Returns what other users may do with a file of this mode. */
static const char *rights_of_others(mode_t mode)
{
	bool may_read = mode & S_IROTH, may_change = mode & (S_IWGRP | S_IWOTH);

	return may_read && may_change ? "read and change" : may_change ? "change" : may_read ? "read" : "run";
}

/* is_secret: others must not be able to read the file. */
static void look_at(struct findings *f, const char *flag, const char *path, bool is_secret)
{
	const char *end = flag + strlen(flag) - 2;
	bool is_cert = path && strcmp(end, "rt") == 0;
	const char *fault = is_cert ? tls_judge_time(path, 0) : NULL;
	struct stat file;

	if (!path || !*path)
		return;
	if (stat(path, &file) || access(path, R_OK))
		finding(f, FINDING_WRONG, flag, "%s cannot be read: %s", path, strerror(errno));
	else if (strcmp(end, "ca") == 0 && !tls_holds_certificates(path))
		finding(f, FINDING_WRONG, flag, "%s holds no certificates (PEM)", path);
	else if (fault)
		finding(f, FINDING_WRONG, flag, "%s %s", path, fault);
	else if (is_cert && tls_judge_time(path, WEEK_S))
		finding(f, FINDING_WARNING, flag, "%s expires within a week: renew it", path);
	else if (is_secret && file.st_mode & (S_IRWXO | S_IWGRP))
		finding(f, FINDING_WARNING, flag, "%s has mode %03o: other users may %s it; chmod 640 %s", path,
			(unsigned int)file.st_mode & 0777, rights_of_others(file.st_mode), path);
	else
		finding(f, FINDING_OK, flag, "%s", path);
}

/* A variable or file that a profile names. */
static void on_secret(void *arg, const char *name, size_t len)
{
	bool is_env = strncmp(name, "env:", 4) == 0;
	AUTO_FREE char *key = memory_strndup(name, len), *text = secret_of(key);

	if (!text)
		finding(arg, FINDING_WRONG, "secret",
			is_env ? "the variable %s is not set" : "%s cannot be read, or its first line is empty",
			strchr(key, ':') + 1);
	else if (!is_env)
		look_at(arg, "secret", key + 5, true);
}

static void on_setting(void *arg, const struct config_redacted *setting)
{
	if (setting->is_file && setting->origin != FROM_DEFAULT)
		look_at(arg, setting->flag, setting->value, setting->is_key);
}

void findings_of_settings(struct findings *f, const struct config *c)
{
	finding(f, FINDING_OK, "settings", "%s%s", c->file ? "they fit each other; file " : "they fit each other",
		c->file ? c->file : "");
	config_each_unknown(c, on_unknown, f);
	config_each(c, on_setting, f);
	for (size_t i = 0; i < c->feed_count; i++)
		secrets_each(c->feeds[i]->root, on_secret, f);
	for (size_t i = 0; i < c->webhooks.count; i++) {
		const struct webhook *w = &c->webhooks.items[i];

		look_at(f, "webhook secret", w->secret_file, true);
		look_at(f, "webhook ca", w->ca, false);
		look_at(f, "webhook cert", w->cert, !w->key);
		look_at(f, "webhook key", w->key, true);
		if (w->cert && file_is_readable(w->cert) && !check_is_pair(w->cert, w->key ? w->key : w->cert))
			finding(f, FINDING_WRONG, "webhook cert", "%s and %s are not a certificate and its key (PEM)",
				w->cert, w->key ? w->key : w->cert);
	}
}

int findings_status(const struct findings *f)
{
	if (f->json) {
		json_out_list_end(f->json);
		json_out_members(f->json, json_pack("{s:i, s:i, s:i}", "ok", f->counts[FINDING_OK], "warnings",
						    f->counts[FINDING_WARNING], "wrong", f->counts[FINDING_WRONG]));
		json_out_close(f->json);
	} else {
		printf("%u ok, %u warning%s, %u wrong\n", f->counts[FINDING_OK], f->counts[FINDING_WARNING],
		       f->counts[FINDING_WARNING] == 1 ? "" : "s", f->counts[FINDING_WRONG]);
	}
	return f->counts[FINDING_WRONG] ? STATUS_FAILED : STATUS_FINE;
}

int config_lint(const struct invocation *in)
{
	struct findings f = {.json = NULL};

	findings_of_settings(&f, in->config);
	return findings_status(&f);
}
