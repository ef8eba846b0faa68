/* http_head.c checks the head of a request and sets the headers of an answer.
 *
 * libmicrohttpd 0.9 accepts what http_read_head() refuses: several lengths, folded headers, codings, blanks before a
 * colon. Its own check of Host is off because it would send the head of its answer twice, as it still does for a length
 * that is not a number. */
#include "net/http_head.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

/* --- requests --- */

bool http_is_token(char byte)
{
	return byte > ' ' && byte < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", byte);
}

static bool is_token(const char *name)
{
	size_t n = 0;

	while (http_is_token(name[n]))
		n++;
	return n && !name[n];
}

static bool is_longer(const char *text, const char *part)
{
	size_t len = strlen(part);

	return strncasecmp(text, part, len) == 0 && text[len];
}

/* libmicrohttpd 0.9 appends a folded line to the header's name. */
static bool is_folded(const char *name)
{
	return is_longer(name, MHD_HTTP_HEADER_CONTENT_LENGTH) || is_longer(name, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* RFC 9110, section 8.4.1: x-gzip is gzip. Two codings are CODING_OTHER. */
static enum head_coding add_coding(enum head_coding before, const char *value)
{
	bool is_gzip = value && (strcasecmp(value, "gzip") == 0 || strcasecmp(value, "x-gzip") == 0);

	if (value && strcasecmp(value, "identity") == 0)
		return before;
	return is_gzip && before == CODING_NONE ? CODING_GZIP : CODING_OTHER;
}

static enum MHD_Result read_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct head *head = arg;

	(void)kind;
	if (value && value + strlen(value) > head->end)
		head->end = value + strlen(value);
	if (!is_token(name) || is_folded(name) || (value && strchr(value, '\r'))) {
		head->is_odd = true;
	} else if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
		head->host = value ? value : "";
		head->hosts++;
	} else if (strcasecmp(name, MHD_HTTP_HEADER_ORIGIN) == 0) {
		head->origin = value ? value : "";
	} else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
		head->is_foreign = value && strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0;
	} else if (strcasecmp(name, "Sec-Fetch-Mode") == 0) {
		head->navigates = value && strcmp(value, "navigate") == 0;
	} else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
		head->lengths++;
		head->has_body |= !value || strcmp(value, "0") != 0;
	} else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
		head->has_body = true;
		head->is_odd |= !value || strcasecmp(value, "chunked") != 0 || head->codings++;
	} else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_ENCODING) == 0) {
		head->coding = add_coding(head->coding, value);
	}
	return MHD_YES;
}

/* libmicrohttpd 0.9 takes a line without a name, or with a NUL in its place, for the end of the head, and runs what
 * follows the length of the body as a request. All strings are parts of the head, in which the ends of lines have
 * become NULs: it ends in two of them. */
static bool has_end(struct MHD_Connection *c, const char *method, const struct head *head)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	const char *end = info ? method + info->header_size : head->end;
	const char *at = head->end;

	while (at < end && !*at)
		at++;
	return HTTP_STRICT || (at == end && end - head->end <= 4);
}

bool http_read_head(struct MHD_Connection *c, const char *method, const char *version, struct head *head)
{
	bool is_old = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;

	if (!*version)
		return false;
	head->end = version + strlen(version);
	MHD_get_connection_values(c, MHD_HEADER_KIND, read_header, head);
	/* RFC 9112, sections 3.2 and 6.1 */
	return !head->is_odd && has_end(c, method, head) && head->hosts <= 1 && head->lengths <= 1 &&
	       (is_old ? !head->codings : head->hosts);
}

static bool is_address(const char *host)
{
	struct in6_addr address;

	return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

/* Copies the name of a Host header to room, without port and brackets. Returns false if it is invalid: brackets hold an
 * IPv6 address (RFC 3986, section 3.2.2). */
static bool copy_name(const char *host, char *room, size_t size)
{
	struct in6_addr v6;
	bool is_v6 = *host == '[';
	size_t n = strcspn(host + is_v6, is_v6 ? "]" : ":");
	const char *port = host + is_v6 + n + (is_v6 && host[is_v6 + n]);

	if (n >= size || (*port && *port != ':') || (*port && port[1 + strspn(port + 1, "0123456789")]))
		return false;
	memcpy(room, host + is_v6, n);
	room[n] = '\0';
	return !is_v6 || (host[1 + n] == ']' && inet_pton(AF_INET6, room, &v6) == 1);
}

static bool is_our_name(const struct http_names *names, const char *host)
{
	char name[256];

	if (!names->bound)
		return true;
	if (!copy_name(host, name, sizeof(name)))
		return false;
	if (is_address(name) || strcasecmp(name, "localhost") == 0 || strcasecmp(name, names->bound) == 0)
		return true;
	for (size_t i = 0; i < names->count; i++)
		if (strcasecmp(name, names->more[i]) == 0)
			return true;
	return false;
}

/* RFC 6454, section 7: does Origin match Host? The scheme is ignored: it differs behind a proxy that terminates TLS. */
static bool is_our_origin(const struct head *head)
{
	const char *authority = strstr(head->origin, "://");

	return authority && head->host && strcasecmp(authority + 3, head->host) == 0;
}

unsigned int http_judge_place(const struct http_names *names, const struct head *head, const char *path,
			      const char **why)
{
	*why = "this Host is not allowed: use an address, or allow the name with --admin-host, or --host of wsonce "
	       "dashboard\n";
	if (head->host && !is_our_name(names, head->host))
		return MHD_HTTP_FORBIDDEN;
	*why = "this Origin is not allowed: only pages of this server may send requests\n";
	if (head->origin && !is_our_origin(head))
		return MHD_HTTP_FORBIDDEN;
	*why = "a page of another site may link to /, and to no other path\n";
	if (head->is_foreign && !(head->navigates && strcmp(path, "/") == 0))
		return MHD_HTTP_FORBIDDEN;
	return 0;
}

/* --- answers --- */

/* Pages may load only our own script and style, and other sites may not embed our pages: CSP level 3, and
 * X-Frame-Options for browsers without it. */
static void add_browsed(struct MHD_Response *response)
{
	static const char *const browsed[][2] = {
		{"Content-Security-Policy",
		 "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
		 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
	};

	for (size_t i = 0; i < sizeof(browsed) / sizeof(browsed[0]); i++)
		MHD_add_response_header(response, browsed[i][0], browsed[i][1]);
}

/* Headers for a status: RFC 9110, sections 10.2.3, 11.6.1, 15.5.6 and 15.5.16. */
static void add_of_status(struct MHD_Response *response, unsigned int status, bool is_last, bool is_browsed,
			  const char *allowed)
{
	if (status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allowed);
	/* The connection closes, because the end of the body may be unknown (400; 405: libmicrohttpd 0.9 takes
	 * a header without a name for the end, and the next one for a request; chunks, which it lets end in LF, and
	 * their trailers, which it lets end in a name that is empty or begins with NUL), because a connection may try
	 * only one token (401), or to free its place (429, 503). */
	if (is_last || status == MHD_HTTP_BAD_REQUEST || status == MHD_HTTP_METHOD_NOT_ALLOWED ||
	    status == MHD_HTTP_UNAUTHORIZED || status == MHD_HTTP_TOO_MANY_REQUESTS ||
	    status == MHD_HTTP_SERVICE_UNAVAILABLE)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_UNSUPPORTED_MEDIA_TYPE)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ACCEPT_ENCODING, is_browsed ? "identity" : "gzip");
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE || status == MHD_HTTP_TOO_MANY_REQUESTS)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
}

/* NOLINTNEXTLINE(readability-non-const-parameter): libmicrohttpd takes ownership of text */
enum MHD_Result http_respond(struct MHD_Connection *c, unsigned int status, const char *type, char *text, size_t len,
			     bool is_browsed, const char *allowed, bool is_last)
{
	struct MHD_Response *response =
		memory_given(MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE), "libmicrohttpd");
	enum MHD_Result result;

	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type ? type : "text/plain; charset=utf-8");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (is_browsed)
		add_browsed(response);
	add_of_status(response, status,
		      is_last || MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING),
		      is_browsed, allowed);
	result = MHD_queue_response(c, status, response);
	MHD_destroy_response(response);
	return result;
}
