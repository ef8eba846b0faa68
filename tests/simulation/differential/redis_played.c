/* redis_played.c is the played side: the commands of tests/simulation/redis.c, without its sockets. */
#include "../redis.c"

#include "side.h"

redisReply *side_ask(const char *command, size_t len)
{
	static struct command c;
	struct answer a = {0};
	redisReader *reader = redisReaderCreate();
	const char *at = command;
	void *reply = NULL;

	if (!read_command(&at, command + len, &c))
		abort();
	static struct connection own = {.number = 1};

	redis.connections[0] = &own;
	redis.connection_count = 1;
	c.connection = own.number;
	sim_pass(1000);
	run(&c, &a);
	redisReaderFeed(reader, a.bytes, a.len);
	if (redisReaderGetReply(reader, &reply) != REDIS_OK || !reply)
		abort();
	redisReaderFree(reader);
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
