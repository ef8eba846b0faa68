/* cluster.c keeps the map of a Redis Cluster, which says which master has which slot, and a connection to each master.
 * It asks for a new map when the old one is wrong. If a master is down, only its own slots are unavailable. */
#include "redis/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ending.h"
#include "base/log.h"
#include "base/memory.h"
#include "redis/slots.h"
#include "redis/talk.h"

#define NODES_MAX  128
#define TICK_MS    100
#define CALM_TICKS 10 /* ticks between requests for the map while all is well */
#define ALL_TICKS  5  /* how long the start waits for all masters */

struct node {
	struct cluster *cluster;
	char host[256];
	int port;
	struct server *server;
	bool is_listed; /* in the last map */
};

/* A command in flight, kept in case it must be sent again. */
struct command {
	struct cluster *cluster;
	redis_cb *cb;
	void *arg;
	bool is_second;
	size_t len;
	char bytes[];
};

struct cluster {
	uv_loop_t *loop;
	struct server *seed;
	struct server_settings settings; /* of seed */
	void (*on_change)(void *owner);
	void *owner;
	struct node *nodes[NODES_MAX];
	size_t count;
	struct node *slots[SLOTS]; /* NULL if no master has it */
	uv_timer_t timer;
	size_t turn;        /* the node to ask for the map next */
	unsigned int ticks; /* since the last request for the map */
	unsigned int age;   /* ticks since the first map */
	bool has_map;
	bool is_stale; /* a server said that the map is wrong */
	bool is_ready;
	bool is_closing;
	struct ending ending; /* its parts are the timer and the nodes that are closing, also those of earlier maps */
};

static size_t count_ready(const struct cluster *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++)
		n += server_view(c->nodes[i]->server)->state == REDIS_READY;
	return n;
}

bool cluster_is_ready(const struct cluster *c)
{
	return c->is_ready;
}

/* --- nodes --- */

static void judge(struct cluster *c)
{
	size_t ready = count_ready(c);
	bool was_ready = c->is_ready;

	c->is_ready = ready && (c->is_ready || ready == c->count || c->age >= ALL_TICKS);
	if (c->is_ready != was_ready)
		c->on_change(c->owner);
}

static void on_state(void *owner, enum redis_state state)
{
	struct node *n = owner;
	struct cluster *c = n->cluster;
	bool was_ready = c->is_ready;

	if (c->is_closing)
		return;
	c->is_stale |= state == REDIS_DOWN;
	judge(c);
	if (state == REDIS_READY && was_ready)
		c->on_change(c->owner);
}

static struct node *find_node(const struct cluster *c, const char *host, int port)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->nodes[i]->port == port && strcmp(c->nodes[i]->host, host) == 0)
			return c->nodes[i];
	return NULL;
}

static struct node *add_node(struct cluster *c, const char *host, int port)
{
	struct server_settings settings = c->settings;
	struct node *n;

	if (c->count == NODES_MAX || strlen(host) >= sizeof(n->host))
		return NULL;
	n = c->nodes[c->count++] = memory_calloc(1, sizeof(*n));
	n->cluster = c;
	snprintf(n->host, sizeof(n->host), "%s", host);
	n->port = port;
	settings.host = n->host;
	settings.port = port;
	settings.on_state = on_state;
	settings.owner = n;
	n->server = server_open(c->loop, &settings);
	return n;
}

static void on_node_closed(void *arg)
{
	struct node *n = arg;
	struct cluster *c = n->cluster;

	free(n);
	ending_part(&c->ending);
}

static void remove_node(struct cluster *c, size_t i)
{
	struct node *n = c->nodes[i];

	c->nodes[i] = c->nodes[--c->count];
	c->ending.parts++;
	server_close(n->server, on_node_closed, n);
}

/* --- the map --- */

static bool is_integer(const struct redis_reply *r)
{
	return r->type == REPLY_INTEGER && r->integer >= 0 && r->integer < 65536;
}

/* Reads [first slot, last slot, [host, port, id, ...] of the master, ... of replicas]. If the master has no host, it is
 * the server that was asked. */
static void take_range(struct cluster *c, const struct redis_reply *r, const char *asked)
{
	const struct redis_reply *master;
	const char *host;
	struct node *n;

	if (r->type != REPLY_ARRAY || r->elements < 3 || !is_integer(&r->element[0]) || !is_integer(&r->element[1]))
		return;
	master = &r->element[2];
	if (master->type != REPLY_ARRAY || master->elements < 2 || !is_integer(&master->element[1]))
		return;
	host = master->element[0].type == REPLY_STRING && master->element[0].len ? master->element[0].str : asked;
	n = find_node(c, host, (int)master->element[1].integer);
	if (!n)
		n = add_node(c, host, (int)master->element[1].integer);
	if (!n)
		return;
	n->is_listed = true;
	for (long long i = r->element[0].integer; i <= r->element[1].integer && i < SLOTS; i++)
		c->slots[i] = n;
}

static void on_map(void *asker, void *arg, const struct redis_reply *reply)
{
	struct cluster *c = arg;

	(void)asker;
	if (!reply || reply->type != REPLY_ARRAY || !reply->elements || c->is_closing)
		return;
	memset(c->slots, 0, sizeof(c->slots));
	for (size_t i = 0; i < c->count; i++)
		c->nodes[i]->is_listed = false;
	for (size_t i = 0; i < reply->elements; i++)
		take_range(c, &reply->element[i], server_view(c->seed)->host);
	for (size_t i = c->count; i-- > 0;)
		if (!c->nodes[i]->is_listed)
			remove_node(c, i);
	c->has_map = true;
	c->is_stale = false;
	judge(c);
}

/* Each request goes to the next server, so that a frozen one does not block the others. */
static void ask_map(struct cluster *c)
{
	static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

	c->ticks = 0;
	for (size_t i = 0; i <= c->count; i++) {
		size_t at = c->turn++ % (c->count + 1);
		struct server *s = at == c->count ? c->seed : c->nodes[at]->server;

		if (server_send(s, slots, strlen(slots), on_map, c) == 0)
			return;
	}
}

static void on_tick(uv_timer_t *timer)
{
	struct cluster *c = timer->data;

	c->ticks++;
	c->age += c->has_map;
	if (c->is_stale || !c->has_map || count_ready(c) < c->count || c->ticks >= CALM_TICKS)
		ask_map(c);
	judge(c);
}

const struct server *cluster_server(const struct cluster *c, unsigned int slot)
{
	return c->slots[slot] ? c->slots[slot]->server : NULL;
}

/* --- commands --- */

static void tell(struct command *q, const struct redis_reply *reply)
{
	if (q->cb)
		q->cb(q->cluster->settings.asker, q->arg, reply);
	free(q);
}

/* Reads <code> <slot> <host>:<port>. Without a host, the node is the server that sent the error, which is unknown here;
 * the next map will tell. */
static struct node *read_redirect(const struct cluster *c, const char *text)
{
	const char *host = strrchr(text, ' ');
	const char *colon = host ? strrchr(host, ':') : NULL;
	char name[256];

	if (!colon || (size_t)(colon - host) > sizeof(name))
		return NULL;
	snprintf(name, sizeof(name), "%.*s", (int)(colon - host - 1), host + 1);
	return find_node(c, name, (int)strtol(colon + 1, NULL, 10));
}

static void on_answer(void *asker, void *arg, const struct redis_reply *reply);

/* Sends the command again, to the master that the error names. Returns whether it was sent. */
static bool redirect(struct command *q, const char *error, bool is_ask)
{
	static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
	const struct node *n = read_redirect(q->cluster, error);

	q->is_second = true;
	if (!n || (is_ask && server_send(n->server, asking, strlen(asking), NULL, NULL)))
		return false;
	return server_send(n->server, q->bytes, q->len, on_answer, q) == 0;
}

static void on_answer(void *asker, void *arg, const struct redis_reply *reply)
{
	struct command *q = arg;
	bool is_ask = reply_is_error(reply, "ASK "), is_moved = reply_is_error(reply, "MOVED ");

	(void)asker;
	if (is_moved || reply_is_error(reply, "CLUSTERDOWN"))
		q->cluster->is_stale = true;
	if ((is_ask || is_moved) && !q->is_second && !q->cluster->is_closing && redirect(q, reply->str, is_ask))
		return;
	tell(q, reply);
}

int cluster_send(struct cluster *c, const char *bytes, size_t len, unsigned int slot, redis_cb *cb, void *arg)
{
	struct command *q = memory_alloc(sizeof(*q) + len);
	int at = slot_of_command(bytes, len);
	const struct node *n = c->slots[at < 0 ? slot : (unsigned int)at];

	*q = (struct command){.cluster = c, .cb = cb, .arg = arg, .len = len};
	memcpy(q->bytes, bytes, len);
	if (n && server_send(n->server, bytes, len, on_answer, q) == 0)
		return 0;
	free(q);
	c->is_stale = true;
	return -1;
}

uint64_t cluster_unanswered(const struct cluster *c)
{
	uint64_t n = 0;

	for (size_t i = 0; i < c->count; i++)
		n += server_unanswered(c->nodes[i]->server);
	return n;
}

/* --- life --- */

struct cluster *cluster_open(uv_loop_t *loop, struct server *seed, const struct server_settings *settings,
			     void (*on_change)(void *owner), void *owner)
{
	struct cluster *c = memory_calloc(1, sizeof(*c));

	c->loop = loop;
	c->seed = seed;
	c->settings = *settings;
	c->on_change = on_change;
	c->owner = owner;
	c->ending.parts = 1;
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	uv_timer_start(&c->timer, on_tick, 0, TICK_MS);
	return c;
}

void cluster_close(struct cluster *c, void (*done)(void *arg), void *arg)
{
	c->is_closing = true;
	c->is_ready = false;
	while (c->count)
		remove_node(c, c->count - 1);
	ending_begin(&c->ending, c->ending.parts, free, c, done, arg);
	ending_close(&c->ending, &c->timer);
}
