/* upgrade.c owns the opening handshake of a dialled feed (RFC 6455, sections 4.1 and 4.2.2): the
 * request, and whether the answer accepts it. Neither extensions nor subprotocols are offered, and
 * redirects are not followed: nobody but the place that we were given hears our password.
 *
 * The answer is one status line and a few headers, with nothing behind them but frames. Debian 12 and
 * 13 share no parser of HTTP that is still looked after, and this little of it is read here. */
#include "net/upgrade.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/memory.h"

#define ANSWER_BYTES 8192 /* an answer may have */
#define KEY_BYTES    16
#define MAGIC        "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define BUSY_WAIT_S  1    /* after 429 or 503 without Retry-After */
#define WAIT_CAP_S   3600 /* whatever Retry-After says */

#define CODED(n) (((n) + 2) / 3 * 4 + 1) /* bytes that n of them take in base64, with a NUL */

struct upgrade {
	char *request;
	size_t sent;                         /* of it */
	char accept[CODED(EVP_MAX_MD_SIZE)]; /* what the answer must say */
	char answer[ANSWER_BYTES + 1];
	size_t len;
	bool has_upgrade; /* the answer */
	bool has_connection;
	bool has_accept;
	int64_t wait_s; /* that the answer asks for */
	char reason[120];
};

/* --- the request --- */

static void encode(char *out, const void *bytes, size_t len)
{
	EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);
}

/* The header for the user and password of url, "" if it has none, on the heap. */
static char *write_authorization(const struct url *url)
{
	char *plain, *coded, *header;

	if (!url->user)
		return memory_strdup("");
	plain = memory_printf("%s:%s", url->user, url->password ? url->password : "");
	coded = memory_alloc(CODED(strlen(plain)));
	encode(coded, plain, strlen(plain));
	header = memory_printf("Authorization: Basic %s\r\n", coded);
	free(coded);
	free(plain);
	return header;
}

static void write_request(struct upgrade *u, const struct url *url, const char *key)
{
	bool is_v6 = strchr(url->host, ':') != NULL;
	char *authorization = write_authorization(url);
	char host[300];

	snprintf(host, sizeof(host), url->port ? "%s%s%s:%d" : "%s%s%s", is_v6 ? "[" : "", url->host, is_v6 ? "]" : "",
		 url->port);
	u->request = memory_printf("GET %s%.*s HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nConnection: Upgrade\r\n"
				   "Upgrade: websocket\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s\r\n",
				   url->path[0] == '/' ? "" : "/", (int)strcspn(url->path, "#"), url->path, host, host,
				   key, authorization);
	free(authorization);
}

/* What proves that the answer is to this request: base64(SHA-1(key and the RFC's magic)). */
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

struct upgrade *upgrade_new(const struct url *url)
{
	struct upgrade *u = memory_calloc(1, sizeof(*u));
	unsigned char random[KEY_BYTES];
	char key[CODED(KEY_BYTES)];

	if (uv_random(NULL, NULL, random, sizeof(random), 0, NULL))
		goto fail;
	encode(key, random, sizeof(random));
	write_request(u, url, key);
	write_accept(u, key);
	return u;
fail:
	upgrade_free(u);
	return NULL;
}

void upgrade_free(struct upgrade *u)
{
	if (!u)
		return;
	free(u->request);
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

static enum upgrade_result refuse(struct upgrade *u, const char *why)
{
	snprintf(u->reason, sizeof(u->reason), "%s", why);
	return UPGRADE_REFUSED;
}

/* The status of HTTP/1.x NNN, or -1 if this is no status line. */
static int read_status(const char *line)
{
	static const char digits[] = "0123456789";

	if (strlen(line) < 12 || !strchr(digits, line[7]) || line[8] != ' ' || strspn(line + 9, digits) != 3 ||
	    (line[12] && line[12] != ' '))
		return -1;
	return (int)strtol(line + 9, NULL, 10);
}

static enum upgrade_result judge_status(struct upgrade *u, const char *line)
{
	int status = read_status(line);

	if (status < 0)
		return refuse(u, "the server's answer is not HTTP");
	if (status == 101)
		return UPGRADE_DONE;
	u->wait_s = status == 429 || status == 503 ? BUSY_WAIT_S : 0;
	snprintf(u->reason, sizeof(u->reason), "the server answered %d instead of 101%s", status,
		 status / 100 == 3 ? ", and redirects are not followed" : "");
	return UPGRADE_REFUSED;
}

/* Is word, in any case, in a list with commas? */
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

/* RFC 9112, section 5: a name, a colon without a blank before it, a value with blanks around it. */
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

static enum upgrade_result judge_header(struct upgrade *u, char *line)
{
	const char *value = split_header(line);

	if (!value)
		return refuse(u, "a header of the server's answer is not HTTP");
	if (strcasecmp(line, "Upgrade") == 0) {
		if (strcasecmp(value, "websocket") != 0)
			return refuse(u, "the server's answer upgrades to something else than websocket");
		u->has_upgrade = true;
	} else if (strcasecmp(line, "Connection") == 0) {
		u->has_connection |= has_word(value, "upgrade");
	} else if (strcasecmp(line, "Sec-WebSocket-Accept") == 0) {
		if (u->has_accept || strcmp(value, u->accept) != 0)
			return refuse(u, "Sec-WebSocket-Accept in the server's answer is not for our key");
		u->has_accept = true;
	} else if (strcasecmp(line, "Sec-WebSocket-Extensions") == 0 && *value) {
		return refuse(u, "the server's answer has an extension that was not offered");
	} else if (strcasecmp(line, "Sec-WebSocket-Protocol") == 0 && *value) {
		return refuse(u, "the server's answer has a subprotocol that was not offered");
	}
	return UPGRADE_DONE;
}

/* The next line of the answer, without its end, which may be a mere LF (RFC 9112, section 2.2). */
static char *next_line(char **at)
{
	char *line = *at, *end = line + strcspn(line, "\n");

	*at = end + (*end == '\n');
	if (end > line && end[-1] == '\r')
		end--;
	*end = '\0';
	return line;
}

/* RFC 9110, section 10.2.3: seconds or a date. 0 if it is neither. */
static int64_t parse_retry_after(const char *value)
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

/* What the headers of a refusal, from at on, ask for. */
static void read_retry_after(struct upgrade *u, char *at)
{
	char *line;

	while (*(line = next_line(&at))) {
		const char *value = split_header(line);

		if (value && strcasecmp(line, "Retry-After") == 0)
			u->wait_s = parse_retry_after(value);
	}
}

static enum upgrade_result judge_answer(struct upgrade *u)
{
	char *at = u->answer, *line;
	enum upgrade_result result = judge_status(u, next_line(&at));

	if (result != UPGRADE_DONE)
		read_retry_after(u, at);

	while (result == UPGRADE_DONE && *(line = next_line(&at)))
		result = judge_header(u, line);
	if (result != UPGRADE_DONE)
		return result;
	if (!u->has_upgrade)
		return refuse(u, "the server's answer has no Upgrade: websocket");
	if (!u->has_connection)
		return refuse(u, "the server's answer has no Connection: Upgrade");
	if (!u->has_accept)
		return refuse(u, "the server's answer has no Sec-WebSocket-Accept");
	return UPGRADE_DONE;
}

/* Where the empty line ends that ends the answer, looking from byte number from on; NULL: not there yet. */
static const char *find_end(const char *answer, size_t from)
{
	const char *at = answer + (from > 2 ? from - 2 : 0);

	while ((at = strchr(at, '\n'))) {
		at++;
		if (at[0] == '\n')
			return at + 1;
		if (at[0] == '\r' && at[1] == '\n')
			return at + 2;
	}
	return NULL;
}

enum upgrade_result upgrade_receive(struct upgrade *u, const char *bytes, size_t len, size_t *used)
{
	static const char begin[] = "HTTP/1.";
	size_t n = len < ANSWER_BYTES - u->len ? len : ANSWER_BYTES - u->len, before = u->len;
	const char *end;

	memcpy(u->answer + u->len, bytes, n);
	u->len += n;
	u->answer[u->len] = '\0';
	/* Who speaks something else may never send an empty line. */
	if (strncmp(u->answer, begin, u->len < strlen(begin) ? u->len : strlen(begin)) != 0)
		return refuse(u, "the server's answer is not HTTP");
	end = find_end(u->answer, before);
	if (end) {
		*used = (size_t)(end - u->answer) - before;
		return judge_answer(u);
	}
	if (strlen(u->answer) < u->len)
		return refuse(u, "the server's answer is not HTTP");
	if (u->len == ANSWER_BYTES)
		return refuse(u, "the server's answer is longer than 8 KiB");
	return UPGRADE_MORE;
}

const char *upgrade_reason(const struct upgrade *u)
{
	return u->reason;
}

int64_t upgrade_wait_s(const struct upgrade *u)
{
	return u->wait_s;
}
