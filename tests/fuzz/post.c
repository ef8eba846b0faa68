/* POST /events up to its messages: libmicrohttpd on a loop, net/http.c, gzip and the modes of CloudEvents. Any bytes in
 * any pieces get well-formed answers or none. An accepted request is read to its end or abandoned, once; its body has
 * the announced length; a CloudEvent in binary mode becomes JSON; and the server keeps running.
 *
 * An input is a byte that chooses the pieces, and what the client sends. In a pair of brackets, "\x1f\x8b[text]", text
 * is compressed first, since a fuzzer cannot. */
#include <zlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "intake/cloud_event.h"
#include "net/http.h"
#include "net/unpack.h"

#include "client.h"
#include "fuzz.h"

#define BODY_MAX 4096

/* An accepted request. */
struct post {
	struct bytes attributes, body;
	enum cloud_mode mode;
	char *type;
	int64_t length;
	bool is_gzip, is_whole;
};

static uv_loop_t loop;
static struct sockaddr_in address = {.sin_family = AF_INET};
static struct client client = {.loop = &loop};
static struct unpack *gunzip;
static int open_posts;

/* --- the handler --- */

struct walk {
	struct bytes *attributes;
	const char *why;
};

static void on_header(void *arg, const char *name, const char *value)
{
	struct walk *w = arg;

	if (!w->why)
		w->why = cloud_event_add_header(w->attributes, name, value);
}

static struct http_refusal on_begin(void *arg, const struct http_request *r, void **post)
{
	struct post *p = memory_calloc(1, sizeof(*p));
	struct walk w = {&p->attributes, NULL};

	(void)arg;
	p->mode = cloud_event_mode(r->type, http_header(r, "ce-specversion"));
	p->type = r->type ? memory_strdup(r->type) : NULL;
	p->is_gzip = r->is_gzip;
	p->length = r->length;
	if (p->mode == CLOUD_BINARY)
		http_each_header(r, on_header, &w);
	open_posts++;
	*post = p;
	if (!w.why)
		return (struct http_refusal){0, NULL};
	bytes_free(&p->attributes);
	free(p->type);
	free(p);
	open_posts--;
	return (struct http_refusal){400, w.why};
}

static void on_body(void *post, const char *bytes, size_t len)
{
	struct post *p = post;

	must(!p->is_whole, "bytes behind the end of a body");
	bytes_add(&p->body, bytes, len);
}

static void check_event(const struct post *p, struct slice body)
{
	struct bytes event = {NULL, 0, 0};
	struct slice value;

	if (cloud_event_write(&event, (struct slice){p->attributes.at, p->attributes.len}, p->type, body))
		must(!json_check(event.at, event.len, &value), "not JSON: %.*s", (int)event.len, event.at);
	bytes_free(&event);
}

static void on_end(void *post, struct http_ticket *ticket)
{
	struct post *p = post;
	struct slice body = {p->body.at, p->body.len};
	char *inflated = NULL;
	const char *why = p->is_gzip ? unpack(gunzip, &body, BODY_MAX, &inflated) : NULL;

	must(!p->is_whole, "a body that ends twice");
	must(p->length < 0 || (size_t)p->length == p->body.len, "%zu bytes instead of %lld", p->body.len,
	     (long long)p->length);
	p->is_whole = true;
	if (!why && p->mode == CLOUD_BINARY)
		check_event(p, body);
	free(inflated);
	http_answer(ticket, why ? 400 : 200, NULL, memory_strdup("done\n"), 5);
}

static void on_gone(void *post)
{
	struct post *p = post;

	bytes_free(&p->attributes);
	bytes_free(&p->body);
	free(p->type);
	free(p);
	open_posts--;
}

static bool payer_of(const void *post, const void **payer)
{
	(void)post;
	*payer = NULL;
	return true;
}

static const struct http_poster poster = {on_begin, on_body, on_end, on_gone, payer_of};
static struct http_site site = {.flag = "--ingest-http", .poster = &poster};

/* --- answers --- */

static void check_answers(void)
{
	const char *at = client.answer;
	int status;

	while (*at) {
		const char *body = strstr(at, "\r\n\r\n");

		must(sscanf(at, "HTTP/1.%*1[01] %3d ", &status) == 1 && body, "no answer: %.200s", at);
		must(status == 100 || status == 200 || (status >= 400 && status <= 505 && status != 500), "status %d",
		     status);
		at = strstr(body, "\nHTTP/1."); /* bodies end with a newline */
		at = at ? at + 1 : "";
	}
}

static void leave(void)
{
	close(client.fd);
	for (int turns = 0; turns < 100 && open_posts; turns++)
		uv_run(&loop, UV_RUN_NOWAIT);
	must(!open_posts, "a request that is not left");
}

static void check_health(void)
{
	static const char request[] = "POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1";

	client_open(&client, &address);
	client_send(&client, request, sizeof(request) - 1, 0);
	for (int turns = 0; turns < 100 && !strstr(client.answer, "done\n"); turns++)
		client_turn(&client);
	must(strncmp(client.answer, "HTTP/1.1 200 ", 13) == 0, "the server is not well: %.100s", client.answer);
	leave();
}

/* --- the fuzzer --- */

static void add_gzip(struct bytes *out, const uint8_t *text, size_t len)
{
	z_stream z = {0};

	must(deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "no zlib");
	z.next_in = (Bytef *)(uintptr_t)text;
	z.avail_in = (uInt)len;
	z.next_out = (Bytef *)bytes_reserve(out, deflateBound(&z, len));
	z.avail_out = (uInt)deflateBound(&z, len);
	must(deflate(&z, Z_FINISH) == Z_STREAM_END, "not compressed");
	out->len += z.total_out;
	deflateEnd(&z);
}

/* Copies the input, and compresses the parts in brackets. */
static void expand(struct bytes *out, const uint8_t *at, const uint8_t *end)
{
	const uint8_t *open, *close;

	while ((open = memmem(at, (size_t)(end - at), "\x1f\x8b[", 3)) &&
	       (close = memchr(open, ']', (size_t)(end - open)))) {
		bytes_add(out, at, (size_t)(open - at));
		add_gzip(out, open + 3, (size_t)(close - open - 3));
		at = close + 1;
	}
	bytes_add(out, at, (size_t)(end - at));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char text[60];
	char error[400];

	(void)argc, (void)argv;
	snprintf(text, sizeof(text), "127.0.0.1:%d", find_port(&address));
	site.address = text;
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	gunzip = unpack_new(BINARY_GZIP, (struct slice){NULL, 0});
	must(uv_loop_init(&loop) == 0, "no loop");
	must(http_open(&loop, &site, error, sizeof(error)), "%s", error);
	check_health();
	return 0;
}

void try_input(const uint8_t *data, size_t size)
{
	struct bytes sent = {NULL, 0, 0};

	if (!size)
		return;
	expand(&sent, data + 1, data + size);
	client_open(&client, &address);
	client_send(&client, sent.at, sent.len, data[0]);
	client_await_quiet(&client);
	shutdown(client.fd, SHUT_WR);
	client_await_quiet(&client);
	check_answers();
	leave();
	bytes_free(&sent);
	check_health();
}
