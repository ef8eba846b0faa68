/* message.c generates events and malformed messages. It uses no I/O and no random numbers: a message
 * is a function of its number. */
#include "message.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	ENVELOPE_MOST = 1024, /* room for all but prefix and payload; the longest is an id of 600 bytes */
	TRADE_MOST = 200,
};

static char *put(char *out, const char *text)
{
	size_t len = strlen(text);

	memcpy(out, text, len);
	return out + len;
}

static char *put_number(char *out, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(out, digits + at, sizeof(digits) - at);
	return out + sizeof(digits) - at;
}

static char *put_amount(char *out, uint64_t n)
{
	uint64_t cents = (1213 + n * 37) % 1000000;

	out = put_number(out, cents / 100);
	*out++ = '.';
	*out++ = (char)('0' + cents / 10 % 10);
	*out++ = (char)('0' + cents % 10);
	return out;
}

static char *put_filler(char *out, uint64_t n, size_t bytes)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";

	while (bytes) {
		size_t part = bytes < 26 ? bytes : 26;

		memcpy(out, letters + n % 26, part);
		out += part;
		bytes -= part;
	}
	return out;
}

/* {"n":7,"amount":14.72,"comment":"hijk..."} */
static char *put_payload(const struct message_form *form, char *out, uint64_t n)
{
	const char *start = out;
	size_t fixed;

	out = put(out, "{\"n\":");
	out = put_number(out, n);
	out = put(out, ",\"amount\":");
	out = put_amount(out, n);
	fixed = (size_t)(out - start) + sizeof(",\"comment\":\"\"}") - 1;
	if (form->payload_bytes >= fixed) {
		out = put(out, ",\"comment\":\"");
		out = put_filler(out, n, form->payload_bytes - fixed);
		*out++ = '"';
	}
	*out++ = '}';
	return out;
}

static char *put_id(const struct message_form *form, char *out, uint64_t n)
{
	out = put(out, form->prefix);
	*out++ = '-';
	return put_number(out, n);
}

size_t message_most(const struct message_form *form)
{
	return strlen(form->prefix) * 2 + form->payload_bytes + ENVELOPE_MOST +
	       (size_t)MESSAGE_TRADES_EACH * TRADE_MOST;
}

size_t message_id(const struct message_form *form, uint64_t n, char *out)
{
	return (size_t)(put_id(form, out, n) - out);
}

static size_t put_commit(const struct message_form *form, char *out, uint64_t n)
{
	char *at = put(out, "{\"did\":\"did:plc:ewvi7nxzyoun6zhxrhs64oiz\",\"time_us\":");

	at = put_number(at, 1790000000000000 + n);
	at = put(at, ",\"kind\":\"commit\",\"commit\":{\"rev\":\"3m");
	at = put_number(at, n);
	at = put(at, "\",\"operation\":\"create\",\"collection\":\"app.bsky.feed.post\",\"rkey\":\"3k");
	at = put_number(at, n);
	at = put(at, "\",\"record\":{\"$type\":\"app.bsky.feed.post\",\"createdAt\":\"2026-09-21T13:00:00.000Z\","
		     "\"langs\":[\"en\"],"
		     "\"text\":\"");
	at = put_filler(at, n, form->payload_bytes);
	at = put(at, "\"},\"cid\":\"bafyreidc6sydkkbchcyg62v77wbhzvb2mvytlmsychqgwf2xojjtirmzj4\"}}");
	return (size_t)(at - out);
}

static char *put_trade(char *out, uint64_t n)
{
	out = put(out, "{\"symbol\":\"BTC/USD\",\"side\":\"buy\",\"price\":");
	out = put_amount(out, n);
	out = put(out, ",\"qty\":0.00027625,\"ord_type\":\"limit\",\"trade_id\":");
	out = put_number(out, n);
	return put(out, ",\"timestamp\":\"2026-09-21T13:00:00.440295Z\"}");
}

static size_t put_trades(char *out, uint64_t n)
{
	char *at = put(out, "{\"channel\":\"trade\",\"type\":\"update\",\"data\":[");

	for (uint64_t i = 0; i < MESSAGE_TRADES_EACH; i++) {
		if (i)
			*at++ = ',';
		at = put_trade(at, (n - 1) * MESSAGE_TRADES_EACH + i + 1);
	}
	at = put(at, "]}");
	return (size_t)(at - out);
}

static size_t put_event(const struct message_form *form, char *out, uint64_t n)
{
	char *at = put(out, "{\"event_id\":\"");

	at = put_id(form, at, n);
	at = put(at, "\",\"event_type\":\"" MESSAGE_TYPE "\",\"payload\":");
	at = put_payload(form, at, n);
	*at++ = '}';
	return (size_t)(at - out);
}

size_t message_event(const struct message_form *form, uint64_t n, char *out)
{
	switch (form->kind) {
	case MESSAGE_EVENT:
		return put_event(form, out, n);
	case MESSAGE_COMMIT:
		return put_commit(form, out, n);
	case MESSAGE_TRADES:
		return put_trades(out, n);
	}
	return 0;
}

/* Every malformed message contains this, so that no two are equal. */
static char *put_mark(const struct message_form *form, char *out, uint64_t n)
{
	out = put(out, form->prefix);
	out = put(out, "-m");
	return put_number(out, n);
}

static char *put_malformed(const struct message_form *form, char *out, uint64_t n, const char *before,
			   const char *after)
{
	out = put(out, before);
	out = put_mark(form, out, n);
	return put(out, after);
}

size_t message_malformed(const struct message_form *form, uint64_t n, char *out)
{
	char *at = out;

	switch (n % MESSAGE_MALFORMED_KINDS) {
	case 0:
		at = put_malformed(form, at, n, "{\"event_id\":\"\",\"payload\":\"", "\"}");
		break;
	case 1:
		at = put_malformed(form, at, n, "this is not JSON: ", "");
		break;
	case 2:
		at = put_malformed(form, at, n, "{\"event_id\":\"", "\",\"payload\":{\"n\":1,\"amou");
		break;
	case 3:
		at = put_malformed(form, at, n, "{\"event_type\":\"order.created\",\"payload\":\"", "\"}");
		break;
	case 4:
		at = put_malformed(form, at, n, "{\"event_id\":null,\"payload\":\"", "\"}");
		break;
	case 5:
		at = put_malformed(form, at, n, "{\"event_id\":{\"is\":\"", "\"},\"payload\":{}}");
		break;
	case 6:
		at = put_malformed(form, at, n, "{\"event_id\":\"", "\",\"event_id\":\"twice\",\"payload\":{}}");
		break;
	case 7: /* an id of more than 512 bytes */
		at = put_malformed(form, at, n, "{\"event_id\":\"", "-");
		at = put_filler(at, n, 600);
		at = put(at, "\",\"payload\":{}}");
		break;
	}
	return (size_t)(at - out);
}

uint64_t message_number(const struct message_form *form, const char *id, size_t len)
{
	size_t prefix = strlen(form->prefix);
	uint64_t n = 0;

	if (len < prefix + 2 || len > prefix + 19 || memcmp(id, form->prefix, prefix) != 0 || id[prefix] != '-' ||
	    id[prefix + 1] == '0')
		return 0;
	for (size_t i = prefix + 1; i < len; i++) {
		if (id[i] < '0' || id[i] > '9')
			return 0;
		n = n * 10 + (uint64_t)(id[i] - '0');
	}
	return n;
}

bool message_is_payload(const struct message_form *form, uint64_t n, const char *text, size_t len, char *scratch)
{
	size_t expected = (size_t)(put_payload(form, scratch, n) - scratch);
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == ' ')
			continue;
		if (at == expected || text[i] != scratch[at++])
			return false;
	}
	return at == expected;
}

bool message_is_prefix(const char *prefix)
{
	size_t len = strlen(prefix);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)prefix[i]) && !strchr(".:-", prefix[i]))
			return false;
	return len > 0 && len <= MESSAGE_PREFIX_MOST;
}

void message_make_prefix(char *out, size_t size)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(out, size, "r%llx-%lx",
		 (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000,
		 (unsigned long)getpid());
}
