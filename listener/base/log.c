/* log.c formats log lines. Callers decide what to log and at which level, and must not pass secrets. */
#include "base/log.h"

#include <ctype.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unistr.h>

#include "base/text.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static struct {
	enum log_level level;
	enum log_format format;
	const char *instance;
} settings = {.level = LOG_INFO};

/* Longer values are cut, so that the line still has its end. */
#define VALUE_MAX 600

struct log_line {
	char text[4096];
	size_t len;
	bool is_full; /* the current field did not fit */
};

void log_setup(enum log_level level, enum log_format format, const char *instance)
{
	settings.level = level;
	settings.format = format;
	settings.instance = instance;
}

/* Keeps room for the closing brace and the newline. */
static void put_char(struct log_line *l, char c)
{
	if (l->len < sizeof(l->text) - 4)
		l->text[l->len++] = c;
	else
		l->is_full = true;
}

static void put_text(struct log_line *l, const char *s)
{
	while (*s)
		put_char(l, *s++);
}

static void put_quoted(struct log_line *l, const char *s)
{
	put_char(l, '"');
	for (const char *end = s + strnlen(s, VALUE_MAX); s < end; s++) {
		unsigned char c = (unsigned char)*s;
		int n = c < 0x80 ? 1 : u8_mblen((const uint8_t *)s, (size_t)(end - s));
		size_t control = text_control_len(s, (size_t)(end - s));
		ucs4_t code;
		char hex[8];

		if (c == '"' || c == '\\') {
			put_char(l, '\\');
			put_char(l, *s);
		} else if (control) {
			u8_mbtouc(&code, (const uint8_t *)s, control);
			snprintf(hex, sizeof(hex), "\\u%04x", (unsigned int)(code & 0xffff));
			put_text(l, hex);
			s += control - 1;
		} else if (n < 1) {
			put_char(l, '?');
		} else {
			while (n-- > 1)
				put_char(l, *s++);
			put_char(l, *s);
		}
	}
	put_char(l, '"');
}

static bool is_bare(const char *s)
{
	if (!*s || strlen(s) > VALUE_MAX)
		return false;
	for (; *s; s++)
		if (!isgraph((unsigned char)*s) || strchr("\"\\=", *s))
			return false;
	return true;
}

static void write_field(struct log_line *l, const char *key, const char *value, bool is_number)
{
	if (settings.format == LOG_JSON) {
		put_text(l, l->len > 1 ? ",\"" : "\"");
		put_text(l, key);
		put_text(l, "\":");
		if (is_number)
			put_text(l, value);
		else
			put_quoted(l, value);
		return;
	}
	if (l->len)
		put_char(l, ' ');
	put_text(l, key);
	put_char(l, '=');
	if (is_number || is_bare(value))
		put_text(l, value);
	else
		put_quoted(l, value);
}

/* Leaves out a field that does not fit: half a field would not be JSON. */
static void put_field(struct log_line *l, const char *key, const char *value, bool is_number)
{
	size_t begin = l->len;

	l->is_full = false;
	write_field(l, key, value, is_number);
	if (l->is_full)
		l->len = begin;
}

/* Formats the next argument of ap as spec says; *text is set for a string. Returns false for a NULL string. */
static bool format_value(char *out, size_t size, const char *spec, va_list *ap, const char **text)
{
	size_t n = strcspn(spec, " ");
	char last = (char)(n ? spec[n - 1] : '\0');

	*text = NULL;
	if (last == 's')
		return (*text = va_arg(*ap, const char *)) != NULL;
	if (last == 'f')
		snprintf(out, size, "%.1f", va_arg(*ap, double));
	else if (strncmp(spec, "%lld", 4) == 0)
		snprintf(out, size, "%lld", va_arg(*ap, long long));
	else if (strncmp(spec, "%llu", 4) == 0)
		snprintf(out, size, "%llu", va_arg(*ap, unsigned long long));
	else if (strncmp(spec, "%zu", 3) == 0)
		snprintf(out, size, "%zu", va_arg(*ap, size_t));
	else if (strncmp(spec, "%ld", 3) == 0)
		snprintf(out, size, "%ld", va_arg(*ap, long));
	else if (strncmp(spec, "%lu", 3) == 0)
		snprintf(out, size, "%lu", va_arg(*ap, unsigned long));
	else if (last == 'u')
		snprintf(out, size, "%u", va_arg(*ap, unsigned int));
	else
		snprintf(out, size, "%d", va_arg(*ap, int));
	return true;
}

static void put_fields(struct log_line *l, const char *fields, va_list *ap)
{
	while (*fields) {
		char key[64], number[64];
		const char *text;
		size_t n = strcspn(fields, "=");

		snprintf(key, sizeof(key), "%.*s", (int)n, fields);
		fields += n + (fields[n] == '=');
		if (format_value(number, sizeof(number), fields, ap, &text))
			put_field(l, key, text ? text : number, !text);
		fields += strcspn(fields, " ");
		fields += strspn(fields, " ");
	}
}

static void put_time(struct log_line *l)
{
	char text[40];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03ldZ", now.tv_nsec / 1000000);
	put_field(l, "time", text, false);
}

/* A full pipe must not stop the listener. If standard error is a pipe that nobody reads, the first line waits for
 * STUCK_MS; further lines are lost until the pipe has room again. A full disk loses lines, too, and may cut one. */
#define STUCK_MS 1000
static atomic_uint lost;
static atomic_bool is_cut; /* the last line has no end */

static bool has_room(void)
{
	struct pollfd err = {STDERR_FILENO, POLLOUT, 0};

	return poll(&err, 1, atomic_load(&lost) ? 0 : STUCK_MS) != 0;
}

static void compose(struct log_line *l, enum log_level level, const char *event, const char *fields, va_list *ap)
{
	if (settings.format == LOG_JSON)
		put_char(l, '{');
	put_time(l);
	put_field(l, "level", level_names[level], false);
	if (settings.instance)
		put_field(l, "instance", settings.instance, false);
	put_field(l, "event", event, false);
	put_fields(l, fields, ap);
	if (settings.format == LOG_JSON)
		l->text[l->len++] = '}';
	l->text[l->len++] = '\n';
}

/* One write, so that lines of several processes on a terminal do not mix. Returns whether the line was written. */
static bool put_line(const struct log_line *l)
{
	ssize_t n = -1;

	if (has_room() && (!atomic_load(&is_cut) || write(STDERR_FILENO, "\n", 1) == 1)) {
		n = write(STDERR_FILENO, l->text, l->len);
		atomic_store(&is_cut, n > 0 && n < (ssize_t)l->len);
	}
	if (n == (ssize_t)l->len)
		return true;
	atomic_fetch_add(&lost, 1);
	return false;
}

static void put_lost(const char *fields, ...)
{
	struct log_line l = {.len = 0};
	va_list ap;

	va_start(ap, fields);
	compose(&l, LOG_WARN, "log lines were lost: standard error was full", fields, &ap);
	va_end(ap);
	put_line(&l);
}

void log_write(enum log_level level, const char *event, const char *fields, ...)
{
	struct log_line l = {.len = 0};
	unsigned int n;
	va_list ap;

	if (level < settings.level)
		return;
	va_start(ap, fields);
	compose(&l, level, event, fields, &ap);
	va_end(ap);
	if (!put_line(&l))
		return;
	n = atomic_exchange(&lost, 0);
	if (n)
		put_lost("lines=%u", n);
}
