/* upgrade.c owns the opening handshake with a feed (RFC 6455, sections 4.1 and 4.2.2): it writes the request and checks
 * the answer. The caller follows redirects. Debian 12 and 13 have no maintained HTTP parser in common, and a status
 * line with a few headers (RFC 9112) is easily parsed here. */
#include "net/upgrade.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/text.h"

#define HEAD_BYTES  8192 /* maximum size of the answer's head */
#define WAIT_CAP_S  3600 /* limit for Retry-After */
#define KEY_BYTES   16
#define MAGIC       "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define BUSY_WAIT_S 1 /* wait after 429 or 503 without Retry-After */

#define CODED(n) (((n) + 2) / 3 * 4 + 1) /* size of n bytes in base64, with a NUL */

struct upgrade {
	char accept[CODED(EVP_MAX_MD_SIZE)]; /* expected Sec-WebSocket-Accept */
	const struct upgrade_offer *offer;
	char *request; /* heap */
	size_t sent;   /* bytes of request */
	char head[HEAD_BYTES + 1];
	size_t len;
	char *at;         /* the next header */
	bool has_upgrade; /* the answer has Upgrade: websocket */
	bool has_connection;
	bool has_accept;
	bool has_subprotocol;
	bool has_body; /* a refusal has a body */
	struct upgrade_answer answer;
};

/* --- the request --- */

/* True if the lines have a header with this name. lines may be NULL. */
static bool has_header(const char *lines, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = lines; at; at = strchr(at, '\n'), at += at != NULL)
		if (strncasecmp(at, name, n) == 0 && at[n] == ':')
			return true;
	return false;
}

static void encode(char *out, const void *bytes, size_t len)
{
	EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);
}

/* The header for the subprotocols, or "", on the heap. */
static char *write_subprotocols(const struct upgrade_offer *offer)
{
	struct bytes list = {NULL, 0, 0};

	for (size_t i = 0; i < offer->subprotocol_count; i++) {
		bytes_add_text(&list, i ? ", " : "Sec-WebSocket-Protocol: ");
		bytes_add_text(&list, offer->subprotocols[i]);
	}
	bytes_add_text(&list, list.len ? "\r\n" : "");
	bytes_text(&list);
	return list.at;
}

static void write_request(struct upgrade *u, const struct url *url, const char *key)
{
	const char *headers = u->offer->headers;
	AUTO_FREE char *login = has_header(headers, "Authorization") ? memory_strdup("") : url_login(url);
	AUTO_FREE char *subprotocols = write_subprotocols(u->offer), *host = url_authority(url->host, url->port);

	u->request = memory_printf(
		"GET %s%.*s HTTP/1.1\r\nHost: %s\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s%s%s%s%s%s\r\n",
		url->path[0] == '/' ? "" : "/", (int)strcspn(url->path, "#"), url->path, host,
		has_header(headers, "User-Agent") ? "" : "User-Agent: wsonce/" WSONCE_VERSION "\r\n", key, subprotocols,
		u->offer->has_deflate ? "Sec-WebSocket-Extensions: " DEFLATE_OFFER "\r\n" : "", headers ? headers : "",
		*login ? "Authorization: Basic " : "", login, *login ? "\r\n" : "");
}

/* Computes the Sec-WebSocket-Accept for key: base64(SHA-1(key and the RFC's GUID)). */
static void write_accept(struct upgrade *u, const char *key)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char text[CODED(KEY_BYTES) + sizeof(MAGIC)];
	unsigned int len;
	int n = snprintf(text, sizeof(text), "%s%s", key, MAGIC);

	if (!EVP_Digest(text, (size_t)n, digest, &len, EVP_sha1(), NULL))
		memory_exhausted("OpenSSL", 0);
	encode(u->accept, digest, len);
}

struct upgrade *upgrade_new(const struct url *url, const struct upgrade_offer *offer)
{
	unsigned char random[KEY_BYTES];
	char key[CODED(KEY_BYTES)];
	struct upgrade *u;

	if (uv_random(NULL, NULL, random, sizeof(random), 0, NULL))
		return NULL;
	encode(key, random, sizeof(random));
	u = memory_calloc(1, sizeof(*u));
	u->offer = offer;
	write_request(u, url, key);
	write_accept(u, key);
	return u;
}

void upgrade_free(struct upgrade *u)
{
	if (!u)
		return;
	free(u->request);
	free(u->answer.location);
	free(u);
}

size_t upgrade_take(struct upgrade *u, char *room, size_t size)
{
	size_t n = strnlen(u->request + u->sent, size);

	memcpy(room, u->request + u->sent, n);
	u->sent += n;
	return n;
}

/* --- the answer --- */

static const char is_not_http[] = "the server's answer is not HTTP";

static enum upgrade_result refuse(struct upgrade *u, const char *why)
{
	snprintf(u->answer.reason, sizeof(u->answer.reason), "%s", why);
	return UPGRADE_REFUSED;
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

/* Adds bytes of the answer and sets *used to how many of them belong to the head. */
static enum upgrade_result take_head(struct upgrade *u, const char *bytes, size_t len, size_t *used)
{
	static const char begin[] = "HTTP/1.";
	size_t n = len < HEAD_BYTES - u->len ? len : HEAD_BYTES - u->len, before = u->len;
	const char *end;

	memcpy(u->head + u->len, bytes, n);
	u->len += n;
	u->head[u->len] = '\0';
	/* A server that does not speak HTTP may never send an empty line. */
	if (strncmp(u->head, begin, u->len < strlen(begin) ? u->len : strlen(begin)) != 0)
		return refuse(u, is_not_http);
	end = find_end(u->head, before);
	if (end) {
		*used = (size_t)(end - u->head) - before;
		u->at = u->head;
		return UPGRADE_DONE;
	}
	if (strlen(u->head) < u->len)
		return refuse(u, is_not_http);
	return u->len < HEAD_BYTES ? UPGRADE_MORE : refuse(u, "the server's answer is longer than 8 KiB");
}

/* Returns the next line without its end, CR LF or LF (RFC 9112, section 2.2). */
static char *next_line(struct upgrade *u)
{
	char *line = u->at, *end = line + strcspn(line, "\n");

	u->at = end + (*end == '\n');
	if (end > line && end[-1] == '\r')
		end--;
	*end = '\0';
	return line;
}

/* Returns the status, or -1 if the first line is not a status line. */
static int read_status(struct upgrade *u)
{
	static const char digits[] = "0123456789";
	const char *line = next_line(u);

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

/* Reads a header. Returns false at the end. *name is NULL for a line that is not a header. */
static bool next_header(struct upgrade *u, char **name, char **value)
{
	char *line = next_line(u);

	if (!*line)
		return false;
	*value = split_header(line);
	*name = *value ? line : NULL;
	return true;
}

/* The seconds of a Retry-After header (RFC 9110, section 10.2.3); 0 if it is neither a number nor a date. */
static int64_t read_retry_after(const char *value)
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

/* True if a comma-separated list contains word, in any case. */
static bool has_word(const char *list, const char *word)
{
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		list += strspn(list, " \t");
		n = strcspn(list, ",");
		if (strncasecmp(list, word, strlen(word)) == 0 &&
		    strspn(list + strlen(word), " \t") + strlen(word) == n)
			return true;
	}
	return false;
}

static bool is_offered(const struct upgrade *u, const char *subprotocol)
{
	for (size_t i = 0; i < u->offer->subprotocol_count; i++)
		if (strcmp(u->offer->subprotocols[i], subprotocol) == 0)
			return true;
	return false;
}

static enum upgrade_result judge_subprotocol(struct upgrade *u, const char *value)
{
	if (!is_offered(u, value) || u->has_subprotocol)
		return refuse(u, "the server's answer has a subprotocol that was not offered");
	u->has_subprotocol = true;
	return UPGRADE_DONE;
}

static enum upgrade_result judge_extensions(struct upgrade *u, const char *value)
{
	if (!u->offer->has_deflate || u->answer.terms.is_agreed || deflate_read_terms(value, &u->answer.terms))
		return refuse(u, "the server's answer has an extension that was not offered");
	return UPGRADE_DONE;
}

static enum upgrade_result judge_header(struct upgrade *u, const char *name, const char *value)
{
	if (!name)
		return refuse(u, "a header of the server's answer is not HTTP");
	if (strcasecmp(name, "Upgrade") == 0) {
		if (strcasecmp(value, "websocket") != 0)
			return refuse(u, "the server's answer upgrades to something other than websocket");
		u->has_upgrade = true;
	} else if (strcasecmp(name, "Connection") == 0) {
		u->has_connection |= has_word(value, "upgrade");
	} else if (strcasecmp(name, "Sec-WebSocket-Accept") == 0) {
		if (u->has_accept || strcmp(value, u->accept) != 0)
			return refuse(u, "Sec-WebSocket-Accept in the server's answer does not match our key");
		u->has_accept = true;
	} else if (strcasecmp(name, "Sec-WebSocket-Extensions") == 0 && *value) {
		return judge_extensions(u, value);
	} else if (strcasecmp(name, "Sec-WebSocket-Protocol") == 0 && *value) {
		return judge_subprotocol(u, value);
	}
	return UPGRADE_DONE;
}

static enum upgrade_result judge_acceptance(struct upgrade *u)
{
	enum upgrade_result result = UPGRADE_DONE;
	char *name, *value;

	while (result == UPGRADE_DONE && next_header(u, &name, &value))
		result = judge_header(u, name, value);
	if (result != UPGRADE_DONE)
		return result;
	if (!u->has_upgrade)
		return refuse(u, "the server's answer has no Upgrade: websocket");
	if (!u->has_connection)
		return refuse(u, "the server's answer has no Connection: Upgrade");
	if (!u->has_accept)
		return refuse(u, "the server's answer has no Sec-WebSocket-Accept");
	if (u->offer->subprotocol_count && !u->has_subprotocol)
		return refuse(u, "the server's answer chooses none of the subprotocols that were offered");
	return UPGRADE_DONE;
}

/* RFC 9110, section 15.4: redirects. */
static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static enum upgrade_result judge_refusal(struct upgrade *u, int status)
{
	char *name, *value;

	u->answer.wait_s = status == 429 || status == 503 ? BUSY_WAIT_S : 0;
	while (next_header(u, &name, &value)) {
		if (name && strcasecmp(name, "Retry-After") == 0)
			u->answer.wait_s = read_retry_after(value);
		if (name && strcasecmp(name, "Location") == 0 && !u->answer.location && *value)
			u->answer.location = memory_strdup(value);
		u->has_body |= name && (strcasecmp(name, "Transfer-Encoding") == 0 ||
					(strcasecmp(name, "Content-Length") == 0 && strcmp(value, "0") != 0));
	}
	snprintf(u->answer.reason, sizeof(u->answer.reason), "the server answered %d instead of 101", status);
	return u->answer.location && is_redirect(status) ? UPGRADE_MOVED : UPGRADE_REFUSED;
}

/* Adds the start of the body, as far as it came in the first packet. */
static void add_words(struct upgrade *u, const char *body, size_t len)
{
	size_t n = strlen(u->answer.reason);

	if (!len)
		return;
	snprintf(u->answer.reason + n, sizeof(u->answer.reason) - n, ": %.*s",
		 (int)(len < UPGRADE_WORDS_MOST ? len : UPGRADE_WORDS_MOST), body);
	make_line(u->answer.reason);
}

/* body is what came after the head. */
static enum upgrade_result judge_answer(struct upgrade *u, const char *body, size_t len)
{
	int status = read_status(u);
	enum upgrade_result result;

	if (status < 0)
		return refuse(u, is_not_http);
	if (status == 101)
		return judge_acceptance(u);
	u->answer.status = status;
	result = judge_refusal(u, status);
	if (result == UPGRADE_REFUSED && u->has_body && !len)
		return UPGRADE_MORE;
	add_words(u, body, len);
	return result;
}

enum upgrade_result upgrade_receive(struct upgrade *u, const char *bytes, size_t len, size_t *used)
{
	enum upgrade_result result;

	if (u->answer.status) {
		add_words(u, bytes, len);
		return UPGRADE_REFUSED;
	}
	result = take_head(u, bytes, len, used);
	return result == UPGRADE_DONE ? judge_answer(u, bytes + *used, len - *used) : result;
}

const struct upgrade_answer *upgrade_answer(const struct upgrade *u)
{
	return &u->answer;
}
