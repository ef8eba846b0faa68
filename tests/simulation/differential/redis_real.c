/* redis_real.c is the real side: the server that tests/support/run has started. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "side.h"

static redisContext *connect_to_server(void)
{
	const char *path = getenv("WSONCE_TEST_REDIS_SOCKET");
	redisContext *context = path ? redisConnectUnix(path) : NULL;

	if (!context || context->err) {
		printf("start it by tests/simulation/differential/run\n");
		exit(2);
	}
	return context;
}

static redisContext *connect_once(void)
{
	static redisContext *context;

	return context ? context : (context = connect_to_server());
}

static redisReply *ask_by(redisContext *context, const char *command, size_t len)
{
	void *reply = NULL;

	if (command)
		redisAppendFormattedCommand(context, command, len);
	if (redisGetReply(context, &reply) != REDIS_OK) {
		printf("%s\n", context->errstr);
		exit(1);
	}
	return reply;
}

redisReply *side_ask(const char *command, size_t len)
{
	return ask_by(connect_once(), command, len);
}

redisReply *side_hear(const char *command, size_t len)
{
	static redisContext *context;

	if (!context)
		context = connect_to_server();
	return ask_by(context, command, len);
}

static void configure(const char *command)
{
	redisReply *r = redisCommand(connect_once(), command);

	if (!r || r->type == REDIS_REPLY_ERROR) {
		printf("%s: %s\n", command, r ? r->str : connect_once()->errstr);
		exit(1);
	}
	freeReplyObject(r);
}

/* A replica of nobody keeps what it has. */
void side_refuse(const char *why)
{
	bool is_full = why && strcmp(why, "OOM") == 0, is_replica = why && !is_full;

	configure(is_full ? "CONFIG SET maxmemory 1" : "CONFIG SET maxmemory 0");
	configure(is_replica ? "REPLICAOF 127.0.0.1 1" : "REPLICAOF NO ONE");
}

void side_pass(int seconds)
{
	fflush(stdout);
	sleep((unsigned int)seconds);
}
