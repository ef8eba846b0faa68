/* redis.c sends random commands, from a fixed seed, as claim/claim.c and presence.c make them, and prints the
 * answers: one line for each. It is linked twice, as postgres.c is. */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "presence.lua.h"
#include "inherit.lua.h"
#include "lease.lua.h"
#include "release.lua.h"
#include "renew.lua.h"
#include "seize.lua.h"
#include "side.h"

#define WORDS_MAX 16

static const char *words[WORDS_MAX];
static int count, steps;
static unsigned long long chance;

static int below(int n)
{
	chance = chance * 6364136223846793005ull + 1442695040888963407ull;
	return (int)((chance >> 33) % (unsigned int)n);
}

static const char *draw(const char *const *from, int n)
{
	return from[below(n)];
}

static const char *draw_key(void)
{
	static const char *const keys[] = {"dedup:a", "dedup:b", "dedup:c", "dedup:a b", "dedup:"};

	return draw(keys, 5);
}

static const char *draw_value(void)
{
	static const char *const values[] = {"one.0a@1", "one.0a@2", "two.0b@1", "done@1.00000001",
					     "dead@2.00000001.ff"};

	return draw(values, 5);
}

static void begin(const char *word)
{
	count = 0;
	words[count++] = word;
}

static void add(const char *word)
{
	words[count++] = word;
}

/* --- answers --- */

static int compare(const void *a, const void *b)
{
	return strcmp((*(redisReply *const *)a)->str, (*(redisReply *const *)b)->str);
}

static void put(const redisReply *r)
{
	switch (r->type) {
	case REDIS_REPLY_NIL:
		printf(" nil");
		break;
	case REDIS_REPLY_INTEGER:
		printf(" %lld", r->integer);
		break;
	case REDIS_REPLY_ERROR:
		printf(" -%.*s", (int)strcspn(r->str, " "), r->str);
		break;
	case REDIS_REPLY_ARRAY:
		printf(" [");
		for (size_t i = 0; i < r->elements; i++)
			put(r->element[i]);
		printf("]");
		break;
	default:
		printf(" %s", r->str);
	}
}

typedef redisReply *send_fn(const char *command, size_t len);

static redisReply *send_words(send_fn *send)
{
	char *command;
	long long len = redisFormatCommandArgv(&command, count, words, NULL);
	redisReply *r = send(command, (size_t)len);

	redisFreeCommand(command);
	return r;
}

static redisReply *ask(void)
{
	return send_words(side_ask);
}

/* Names come in the order of their times, which two servers do not share. */
static void show(bool is_sorted)
{
	redisReply *r = ask();

	printf("%d", ++steps);
	for (int i = 0; i < count; i++)
		printf(" %s", strlen(words[i]) > 30 ? "..." : words[i]);
	printf(" =>");
	if (is_sorted && r->type == REDIS_REPLY_ARRAY)
		qsort(r->element, r->elements, sizeof(*r->element), compare);
	put(r);
	printf("\n");
	freeReplyObject(r);
}

/* --- commands --- */

static void claims(const char *script)
{
	static const char *const counts[] = {"0", "1", "2", "3"};
	int n = 1 + below(3);

	begin("EVAL");
	add(script);
	add(counts[n]);
	for (int i = 0; i < n; i++)
		add(draw_key());
	for (int i = 0; i < n; i++)
		add(draw_value());
	if (strcmp(script, LUA_RENEW) == 0)
		add(below(2) ? "30" : "1");
	show(false);
}

static void set(bool is_claim)
{
	begin("SET");
	add(draw_key());
	add(draw_value());
	if (is_claim) {
		add("NX");
		add("GET");
	}
	add("EX");
	add(below(4) ? "30" : "1");
	show(false);
}

static void presence(void)
{
	static const char *const names[] = {"one", "two", "three"};

	begin("EVAL");
	add(LUA_PRESENCE);
	add("1");
	add("wsonce:{alive}:dedup:");
	add(draw(names, 3));
	add(below(2) ? "2 01234567.89 w - 0.1.0 0000000003_1000001zzz\n" : "2 - p - 0.1.0 \n");
	add(below(2) ? "500" : "3000");
	show(true);
}

/* A dead owner's claims: "one.0a@" is that of two values, and begins none of the others. */
static void inherit(void)
{
	static const char *const counts[] = {"0", "1", "2", "3"}, *const owners[] = {"one.0a@", "two.0b@", "o"};
	int n = 1 + below(3);

	begin("EVAL");
	add(LUA_INHERIT);
	add(counts[n]);
	for (int i = 0; i < n; i++)
		add(draw_key());
	add(draw(owners, 3));
	add(below(2) ? "30" : "1");
	for (int i = 0; i < n; i++)
		add(draw_value());
	show(false);
}

/* The done channel: one publishes, the other has subscribed, and may ping. */
static void publish(void)
{
	static const char *const texts[] = {"wsd1", "wsd1 0123456789abcdef", ""};
	redisReply *r;

	begin("PUBLISH");
	add("wsonce:done:dedup:");
	add(draw(texts, 3));
	show(false);
	r = side_hear(NULL, 0);
	printf("heard");
	put(r);
	freeReplyObject(r);
	begin("PING");
	r = send_words(side_hear);
	put(r);
	freeReplyObject(r);
	printf("\n");
}

static void subscribe(void)
{
	redisReply *r;

	begin("SUBSCRIBE");
	add("wsonce:done:dedup:");
	r = send_words(side_hear);
	printf("subscribed");
	put(r);
	freeReplyObject(r);
	printf("\n");
}

/* Each server has its own numbers, and its own words after them. */
static void list_clients(void)
{
	char id[24];
	redisReply *r;

	begin("CLIENT");
	add("ID");
	r = ask();
	printf("%d CLIENT ID => %d", ++steps, r->type);
	snprintf(id, sizeof(id), "%lld", r->integer);
	freeReplyObject(r);
	begin("CLIENT");
	add("LIST");
	add("ID");
	add("999999");
	add(id);
	r = ask();
	printf(", listed: %d\n", r->type == REDIS_REPLY_STRING && strncmp(r->str, "id=", 3) == 0 &&
					 atoll(r->str + 3) == atoll(id) && strchr(r->str, '\n')[1] == '\0');
	freeReplyObject(r);
}

static void take(void)
{
	set(true);
}

static void mark(void)
{
	set(false);
}

static void release(void)
{
	claims(LUA_RELEASE);
}

static void renew(void)
{
	claims(LUA_RENEW);
}

static void seize(void)
{
	begin("EVAL");
	add(LUA_SEIZE);
	add("1");
	add(draw_key());
	add(draw_value());
	add(draw_value());
	add("30");
	show(false);
}

static void lease(void)
{
	begin("EVAL");
	add(LUA_LEASE);
	add("1");
	add(draw_key());
	add(draw_value());
	add(below(2) ? "30000" : "1000");
	show(false);
}

/* A step, each as often as its weight says. */
static void step(void)
{
	static const struct {
		int weight;
		void (*run)(void);
	} kinds[] = {
		{7, take},     {3, mark},  {3, release},      {3, renew},   {3, seize},
		{3, presence}, {2, lease}, {1, list_clients}, {2, inherit}, {2, publish},
	};
	int sum = 0, at, i = 0;

	for (size_t n = 0; n < sizeof(kinds) / sizeof(*kinds); n++)
		sum += kinds[n].weight;
	for (at = below(sum) - kinds[0].weight; at >= 0; at -= kinds[i].weight)
		i++;
	kinds[i].run();
}

static void run_steps(int n, const char *how)
{
	printf("%d now %s\n", ++steps, how);
	while (n--)
		step();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 4;

	chance = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	presence();
	subscribe();
	for (int round = 0; round < rounds; round++) {
		run_steps(400, "");
		side_pass(2);
		side_refuse("OOM");
		run_steps(150, "memory is full");
		side_refuse("READONLY");
		run_steps(150, "read-only");
		side_refuse(NULL);
	}
	return 0;
}
