/* secret.c reads secrets, and hides them in messages, command lines and memory. config.c knows which settings have
 * them. */
#include "base/secret.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistr.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/url.h"

#define LINE_MAX_BYTES 8192
#define STEP_LONG      16
#define CODE_BYTES     6 /* \u003d */

/* Returns what follows the byte at `at`, as it is or encoded for JSON or a URL. NULL: another byte is there. */
static const char *skip_byte(const char *at, char byte)
{
	const char *plain = at + strspn(at, "\\");
	char code[5];

	if (*at != '\\' && *at != '%')
		return *at == byte || (*at == '+' && byte == ' ') ? at + 1 : NULL;
	snprintf(code, sizeof(code), "%04x", (unsigned int)(unsigned char)byte);
	if (*at == '%' && strncasecmp(at + 1, code + 2, 2) == 0)
		return at + 3;
	if (plain > at && *plain == 'u' && strncasecmp(plain + 1, code, 4) == 0)
		return plain + 5;
	return *at == byte ? at + 1 : plain > at && *plain == byte ? plain + 1 : NULL;
}

/* Does the same with a character of rest that is not ASCII, which JSON may write as one code or two, and moves rest. */
static const char *skip_character(const char *at, const char **rest)
{
	ucs4_t c;
	int len = u8_mbtoucr(&c, (const uint8_t *)*rest, strlen(*rest));
	unsigned int codes[] = {c > 0xffff ? 0xd7c0 + (c >> 10) : c, c > 0xffff ? 0xdc00 + (c & 0x3ff) : 0};

	for (size_t i = 0; i < 2 && codes[i]; i++) {
		const char *plain = at + strspn(at, "\\");
		char code[12];

		snprintf(code, sizeof(code), "u%04x", codes[i]);
		if (len < 2 || plain == at || strncasecmp(plain, code, 5) != 0)
			return NULL;
		at = plain + 5;
	}
	*rest += len;
	return at;
}

/* Returns how many bytes at `at` are the secret, or its beginning at the end of the text, which may be cut off within a
 * code; 0 if none are. */
static size_t length_of(const char *at, const char *secret)
{
	const char *begin = at, *rest = secret, *next;
	size_t n = 0;

	while (secret[n] && at[n] == secret[n])
		n++;
	if (!secret[n]) /* a secret may look like a code itself */
		return n;
	for (; *at && *rest; at = next) {
		next = skip_byte(at, *rest);
		rest += next != NULL;
		if (!next && (*at != '\\' || !(next = skip_character(at, &rest))))
			break;
	}
	if (*rest && rest - secret >= SECRET_SHORT && (*at == '\\' || *at == '%') &&
	    strlen(at) < ((unsigned char)*rest < 0xf0 ? CODE_BYTES : 2 * CODE_BYTES))
		at += strlen(at);
	return !*rest || (!*at && rest - secret >= SECRET_SHORT) ? (size_t)(at - begin) : 0;
}

void secret_mask_of(char *text, const char *of, const char *secret)
{
	if (!secret || strlen(secret) < SECRET_SHORT)
		return;
	for (size_t n; *of; of += n + !n, text += n + !n) {
		n = length_of(of, secret);
		memset(text, '*', n);
	}
}

void secret_mask(char *text, const char *secret)
{
	secret_mask_of(text, text, secret);
}

/* Masks part as it is in a URL and decoded. */
static void mask_part(char *text, char *part)
{
	url_decode(part);
	secret_mask(text, part);
}

/* Masks the steps of a path that may be secrets: long ones, and words with a digit. */
static void mask_steps(char *text, const char *path)
{
	char *copy = memory_strndup(path, strcspn(path, "?#")), *rest = copy;

	for (char *step; (step = strsep(&rest, "/"));)
		if (strlen(step) >= STEP_LONG || (strlen(step) >= SECRET_WORD && strpbrk(step, "0123456789")))
			mask_part(text, step);
	free(copy);
}

void secret_mask_url(char *text, const struct url *url)
{
	char *copy = memory_strdup(url->path ? url->path : ""), *rest = copy;
	AUTO_FREE char *login = url_login(url);

	secret_mask(text, login);
	secret_mask(text, url->password ? url->password : url->user);

	for (char *part; (part = strsep(&rest, "?&#"));) {
		char *value = part == copy ? NULL : strchr(part, '=');

		mask_part(text, value ? value + 1 : part);
	}
	free(copy);
	mask_steps(text, url->path ? url->path : "");
}

void secret_mask_logins(char *text)
{
	static const char blanks[] = " \t\"'", secret[] = "whsec_", password[] = "password";

	for (char *at = text; (at = strstr(at, "://"));) {
		size_t len = strcspn(at += 3, blanks);
		char *end = memrchr(at, '@', len), *query = memchr(at, '?', len);

		if (query)
			memset(query + 1, '*', (size_t)(at + len - query - 1));
		if (end && *at != '[') /* [ is of our own words */
			memset(at, '*', (size_t)(end - at));
	}
	for (char *at = text; (at = strstr(at, secret));) {
		at += strlen(secret);
		memset(at, '*', strcspn(at, blanks));
	}
	for (char *at = text; (at = strstr(at, password));) {
		at += strlen(password);
		at += strspn(at, " \t");
		if (*at != '=')
			continue;
		at += strspn(at, "= \t\"'");
		memset(at, '*', strcspn(at, at[-1] == '\'' ? "'" : blanks));
	}
}

void secret_hide(char *text)
{
	memset(text, '*', strlen(text));
}

char *secret_read(const char *path)
{
	char line[LINE_MAX_BYTES + 1], *text = NULL;
	FILE *in = file_open(path);
	size_t n = 0;
	int c, fault;

	if (!in)
		return NULL;
	errno = 0;
	for (; n < sizeof(line) && (c = getc(in)) != EOF && c != '\r' && c != '\n'; n++)
		line[n] = (char)c;
	if (n && n <= LINE_MAX_BYTES && !ferror(in) && !memchr(line, '\0', n))
		text = memory_strndup(line, n);
	fault = errno;
	fclose(in);
	OPENSSL_cleanse(line, sizeof(line));
	errno = fault;
	return text;
}

char *secret_named(const char *name)
{
	const char *value = getenv(name), *folder = getenv("CREDENTIALS_DIRECTORY");
	AUTO_FREE char *file_name = memory_printf("%s_FILE", name);
	const char *file = getenv(file_name);
	bool has_other = value || file || !folder || !*folder || !*name || strchr(name, '/');
	AUTO_FREE char *path = has_other ? NULL : memory_printf("%s/%s", folder, name);
	const char *from = file ? file : path;

	return value ? memory_strdup(value) : from ? secret_read(from) : NULL;
}

char *secret_of(const char *of)
{
	if (strncmp(of, "env:", 4) == 0)
		return secret_named(of + 4);
	return strncmp(of, "file:", 5) == 0 ? secret_read(of + 5) : NULL;
}

/* LeakSanitizer reads the memory of its own process as a debugger does, so its builds are not protected. */
void secret_protect_process(void)
{
#ifndef __SANITIZE_ADDRESS__
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}
