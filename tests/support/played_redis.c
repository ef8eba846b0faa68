/* A fake of the connection to Redis. */
#include "played_redis.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inherit.lua.h"
#include "presence.lua.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "seize.lua.h"

#define COMMANDS  100
#define OWNER_LEN 19 /* "i.", the nonce, "@" */

struct command {
	char text[2000];
	redis_cb *cb;
	void *arg;
};

static bool is_played, has_beats, is_subscription_refused;
static const char *client;
static struct redis_settings settings, subscriber;
static enum redis_state state;
static struct command commands[COMMANDS];
static int sent, seen, answered;
static char own[60];

bool __real_redis_is_cluster(const struct redis *r);
struct redis *__real_redis_open(uv_loop_t *loop, const struct redis_settings *s);
enum redis_state __real_redis_state(const struct redis *r);
int __real_redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg);
const char *__real_redis_client(const struct redis *r);
void __real_redis_mask(const struct redis *r, char *text);
uint64_t __real_redis_unanswered(const struct redis *r);
void __real_redis_close(struct redis *r, void (*done)(void *arg), void *arg);

struct redis *__wrap_redis_open(uv_loop_t *loop, const struct redis_settings *s)
{
	if (!is_played)
		return __real_redis_open(loop, s);
	if (s->on_message) {
		subscriber = *s;
		return (struct redis *)&subscriber;
	}
	settings = *s;
	return (struct redis *)&settings;
}

enum redis_state __wrap_redis_state(const struct redis *r)
{
	return is_played ? state : __real_redis_state(r);
}

bool __wrap_redis_is_cluster(const struct redis *r)
{
	return !is_played && __real_redis_is_cluster(r);
}

/* Is word a claim of the instance i, with a nonce that is not 0? */
static bool is_own(const char *word, size_t len)
{
	if (len < OWNER_LEN || len >= sizeof(own) || strncmp(word, "i.", 2) != 0 || word[OWNER_LEN - 1] != '@' ||
	    strncmp(word, "i.0000000000000000", OWNER_LEN - 1) == 0)
		return false;
	if (len > OWNER_LEN) /* in a beat it is a name, without a time */
		snprintf(own, sizeof(own), "%.*s", (int)len, word);
	return true;
}

static void add_word(char *text, size_t size, const char *word, size_t len)
{
	static const struct {
		const char *text, *name;
	} scripts[] = {{LUA_SEIZE, "seize"},
		       {LUA_INHERIT, "inherit"},
		       {LUA_RELEASE, "release"},
		       {LUA_RENEW, "renew"},
		       {LUA_PRESENCE, "presence"}};
	size_t n = strlen(text);

	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++)
		if (len == strlen(scripts[i].text) && memcmp(word, scripts[i].text, len) == 0) {
			snprintf(text + n, size - n, " %s", scripts[i].name);
			return;
		}
	if (is_own(word, len))
		snprintf(text + n, size - n, " me@");
	else if (len > 5 && (strncmp(word, "done@", 5) == 0 || strncmp(word, "dead@", 5) == 0))
		snprintf(text + n, size - n, " %.5sT%.*s", word, (int)(len - 5 - strspn(word + 5, "0123456789")),
			 word + 5 + strspn(word + 5, "0123456789"));
	else
		snprintf(text + n, size - n, " %.*s", (int)len, word);
}

/* The subscriber's commands are shown as the others are, and answered at once. */
static void subscribe(const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	char no[] = "NOPERM";
	struct redis_reply answer = {.type = is_subscription_refused ? REPLY_ERROR : REPLY_ARRAY, .str = no};

	if (strstr(bytes, "SUBSCRIBE"))
		cb(subscriber.owner, arg, &answer);
}

int __wrap_redis_send(struct redis *r, const char *bytes, size_t len, redis_cb *cb, void *arg)
{
	struct command *c = &commands[sent % COMMANDS];
	const char *at = strchr(bytes, '\n') + 1;
	char text[sizeof(c->text)] = "";

	if (!is_played)
		return __real_redis_send(r, bytes, len, cb, arg);
	if (r == (struct redis *)&subscriber) {
		subscribe(bytes, len, cb, arg);
		return 0;
	}
	if (state != REDIS_READY || sent - answered == COMMANDS)
		return -1;
	for (int words = atoi(bytes + 1); words; words--) {
		size_t n = strtoul(at + 1, NULL, 10);

		at = strchr(at, '\n') + 1;
		add_word(text, sizeof(text), at, n);
		at += n + 2;
	}
	if (at != bytes + len)
		abort();
	if (!has_beats && (strncmp(text, " EVAL presence ", 15) == 0 || strcmp(text, " TIME") == 0))
		return 0;
	snprintf(c->text, sizeof(c->text), "%s", text + 1);
	c->cb = cb;
	c->arg = arg;
	sent++;
	return 0;
}

const char *__wrap_redis_client(const struct redis *r)
{
	return is_played ? client : __real_redis_client(r);
}

void __wrap_redis_mask(const struct redis *r, char *text)
{
	if (!is_played)
		__real_redis_mask(r, text);
}

uint64_t __wrap_redis_unanswered(const struct redis *r)
{
	return is_played ? (uint64_t)(sent - answered) : __real_redis_unanswered(r);
}

void __wrap_redis_close(struct redis *r, void (*done)(void *arg), void *arg)
{
	if (!is_played) {
		__real_redis_close(r, done, arg);
		return;
	}
	while (r != (struct redis *)&subscriber && answered < sent)
		played_redis_answer(NULL);
	done(arg);
}

/* --- for the test --- */

void played_redis_start(void)
{
	is_played = true;
	client = "";
}

void played_redis_show_beats(const char *as_client)
{
	has_beats = true;
	client = as_client;
}

void played_redis_set_state(enum redis_state to)
{
	state = to;
	settings.on_state(settings.owner, to);
}

void played_redis_subscribe(bool is_refused)
{
	is_subscription_refused = is_refused;
	subscriber.on_state(subscriber.owner, REDIS_READY);
}

void played_redis_say(const char *bytes, size_t len)
{
	subscriber.on_message(subscriber.owner, bytes, len);
}

const char *played_redis_next(void)
{
	return seen < sent ? commands[seen++ % COMMANDS].text : "";
}

void played_redis_answer(const struct redis_reply *reply)
{
	const struct command *c = &commands[answered % COMMANDS];

	if (answered == sent)
		abort();
	answered++;
	if (c->cb)
		c->cb(settings.owner, c->arg, reply);
}

const char *played_redis_own(void)
{
	return own;
}
