/* redis_played.c is the played side: the commands of tests/simulation/redis.c, without its sockets. */
#include "../redis.c"

#include "side.h"

enum { ASKER, HEARER };

static redisReply *read_answer(const char *bytes, size_t len)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	redisReaderFeed(reader, bytes, len);
	if (redisReaderGetReply(reader, &reply) != REDIS_OK || !reply)
		abort();
	redisReaderFree(reader);
	return reply;
}

static redisReply *ask_by(int connection, const char *command, size_t len)
{
	static struct command c;
	struct answer a = {0};
	const char *at = command;

	while (redis.connection_count <= HEARER)
		redisConnectUnixNonBlock("");
	if (!read_command(&at, command + len, &c))
		abort();
	c.connection = connection + 1;
	sim_pass(1000);
	run(&c, &a);
	return read_answer(a.bytes, a.len);
}

redisReply *side_ask(const char *command, size_t len)
{
	return ask_by(ASKER, command, len);
}

redisReply *side_hear(const char *command, size_t len)
{
	struct connection *c;
	redisReply *reply;

	if (command)
		return ask_by(HEARER, command, len);
	c = redis.connections[HEARER];
	for (int i = 0; !c->in_len && i < 1000; i++)
		sim_pass(1000);
	reply = read_answer(c->in, c->in_len);
	c->in_len = 0;
	return reply;
}

void side_refuse(const char *why)
{
	redis.refusal = why;
	redis.is_full = why && strcmp(why, "OOM") == 0;
	redis.refusal_until = why ? INT64_MAX : 0;
}

void side_pass(int seconds)
{
	sim_pass((int64_t)seconds * 1000000);
}
