/* rights.c reads errors about missing rights (ACL). If a script fails, Redis 7.0 names only the line, so this finds the
 * command in the script. Later versions name the command. */
#include "redis/rights.h"

#include <ctype.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "forget.lua.h"
#include "inherit.lua.h"
#include "lease.lua.h"
#include "presence.lua.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "seize.lua.h"

#define SHA_LEN 40

static const char *const scripts[] = {LUA_FORGET,  LUA_INHERIT, LUA_LEASE, LUA_PRESENCE,
				      LUA_RELEASE, LUA_RENEW,   LUA_SEIZE};

static bool has_sha(const char *script, const char *sha)
{
	unsigned char digest[SHA_DIGEST_LENGTH];
	char text[SHA_LEN + 1];

	SHA1((const unsigned char *)script, strlen(script), digest);
	write_hex(text, digest, sizeof(digest));
	return strncmp(text, sha, SHA_LEN) == 0;
}

/* Finds the first command that the line calls, in lower case. */
static void read_line(const char *script, long line, char *out, size_t size)
{
	static const char call[] = "call('";
	const char *end;
	size_t n = 0;

	while (script && --line > 0)
		script = strchr(script, '\n') ? strchr(script, '\n') + 1 : NULL;
	end = script ? script + strcspn(script, "\n") : NULL;
	script = script ? strstr(script, call) : NULL;
	if (!script || script > end)
		return;
	for (script += strlen(call); *script != '\'' && n + 1 < size; script++)
		out[n++] = (char)tolower((unsigned char)*script);
	out[n] = '\0';
}

static void find_in_script(const char *error, char *out, size_t size)
{
	const char *sha = strstr(error, "script: "), *line = strstr(error, "user_script:");

	if (!sha || !line)
		return;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++)
		if (has_sha(scripts[i], sha + strlen("script: ")))
			read_line(scripts[i], strtol(line + strlen("user_script:"), NULL, 10), out, size);
}

bool rights_read(const char *error, char *out, size_t size)
{
	const char *command = strstr(error, "to run the '");

	snprintf(out, size, "?");
	if (strstr(error, "executing the script can't")) {
		find_in_script(error, out, size);
		if (strstr(error, "can't access"))
			snprintf(out, size, "~");
		return true;
	}
	if (strncmp(error, "NOPERM", 6) != 0 && !strstr(error, "ACL failure in script: "))
		return false;
	if (command) {
		command += strlen("to run the '");
		snprintf(out, size, "%.*s", (int)strcspn(command, "'"), command);
	} else if (strstr(error, "channel")) {
		snprintf(out, size, "&");
	} else if (strstr(error, "access")) {
		snprintf(out, size, "~");
	}
	return true;
}
