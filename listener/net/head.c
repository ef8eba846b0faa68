/* head.c sends an HTTP request and parses the head of the answer (RFC 9112): a status line and a few headers. Debian 12
 * and 13 have no maintained HTTP parser in common, and this much is easily parsed here. */
#include "net/head.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/memory.h"

#define WAIT_CAP_S 3600 /* limit for Retry-After */

char *head_authorization(const char *name, const struct url *url)
{
	AUTO_BYTES coded = {NULL, 0, 0};
	char *plain, *header;

	if (!url->user)
		return memory_strdup("");
	plain = memory_printf("%s:%s", url->user, url->password ? url->password : "");
	base64_add(&coded, plain, strlen(plain));
	header = memory_printf("%s: Basic %s\r\n", name, bytes_text(&coded));
	free(plain);
	return header;
}

size_t head_take(struct head *h, char *room, size_t size)
{
	size_t n = strnlen(h->request + h->sent, size);

	memcpy(room, h->request + h->sent, n);
	h->sent += n;
	return n;
}

/* Finds the end of the empty line that ends the head, from byte `from` on. NULL if it has not come yet. */
static const char *find_end(const char *bytes, size_t from)
{
	const char *at = bytes + (from > 2 ? from - 2 : 0);

	while ((at = strchr(at, '\n'))) {
		at++;
		if (at[0] == '\n')
			return at + 1;
		if (at[0] == '\r' && at[1] == '\n')
			return at + 2;
	}
	return NULL;
}

static enum head_result refuse(struct head *h, const char *why)
{
	h->reason = why;
	return HEAD_BAD;
}

enum head_result head_receive(struct head *h, const char *bytes, size_t len, size_t *used)
{
	static const char begin[] = "HTTP/1.";
	size_t n = len < HEAD_BYTES - h->len ? len : HEAD_BYTES - h->len, before = h->len;
	const char *end;

	memcpy(h->bytes + h->len, bytes, n);
	h->len += n;
	h->bytes[h->len] = '\0';
	/* A server that does not speak HTTP may never send an empty line. */
	if (strncmp(h->bytes, begin, h->len < strlen(begin) ? h->len : strlen(begin)) != 0)
		return refuse(h, "not HTTP");
	end = find_end(h->bytes, before);
	if (end) {
		*used = (size_t)(end - h->bytes) - before;
		h->at = h->bytes;
		return HEAD_DONE;
	}
	if (strlen(h->bytes) < h->len)
		return refuse(h, "not HTTP");
	if (h->len == HEAD_BYTES)
		return refuse(h, "longer than 8 KiB");
	return HEAD_MORE;
}

/* Returns the next line without its end, CR LF or LF (RFC 9112, section 2.2). */
static char *next_line(struct head *h)
{
	char *line = h->at, *end = line + strcspn(line, "\n");

	h->at = end + (*end == '\n');
	if (end > line && end[-1] == '\r')
		end--;
	*end = '\0';
	return line;
}

int head_status(struct head *h)
{
	static const char digits[] = "0123456789";
	const char *line = next_line(h);

	if (strlen(line) < 12 || !strchr(digits, line[7]) || line[8] != ' ' || strspn(line + 9, digits) != 3 ||
	    (line[12] && line[12] != ' '))
		return -1;
	return (int)strtol(line + 9, NULL, 10);
}

/* RFC 9112, section 5: a name, a colon with no blank before it, and a value, with optional blanks around it. */
static char *split_header(char *line)
{
	char *colon = strchr(line, ':'), *value;

	if (!colon || colon == line || (size_t)(colon - line) != strcspn(line, " \t:"))
		return NULL;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	for (char *end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t'); end--)
		end[-1] = '\0';
	return value;
}

bool head_next(struct head *h, char **name, char **value)
{
	char *line = next_line(h);

	if (!*line)
		return false;
	*value = split_header(line);
	*name = *value ? line : NULL;
	return true;
}

int64_t head_retry_after(const char *value)
{
	struct tm date = {0};
	const char *end;
	int64_t wait_s;

	if (*value && !value[strspn(value, "0123456789")])
		wait_s = strtoll(value, NULL, 10);
	else if ((end = strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &date)) && !*end)
		wait_s = timegm(&date) - time(NULL);
	else
		return 0;
	return wait_s < 0 ? 0 : wait_s < WAIT_CAP_S ? wait_s : WAIT_CAP_S;
}
