/* sim.c owns the clock, random numbers, the history's memory and digest, simulated sockets and links. uv.c decides who
 * runs when. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

#define WALL_US    INT64_C(1772323200000000) /* 2026-03-01 */
#define FIRST_FD   1000
#define FDS        4096
#define CHUNK      ((size_t)1 << 20)
#define PAIRS      4096
#define HEAP_FIRST 1024

struct moment {
	int64_t at;
	uint64_t order; /* random first, then in order of requests */
	void (*fn)(void *arg);
	void *arg;
};

struct fd {
	bool is_open, is_cut;
	bool is_lossy; /* a silent link kills it without an error: it stays silent */
	bool is_mute;  /* it has become silent */
	int process;
	enum sim_server server;
	int flags;
	int64_t last[2]; /* arrival of the last message, to the listener and to the server */
	void (*on_gone)(void *arg, bool is_killed);
	void *arg;
};

struct link {
	enum sim_link state;
	int64_t until;      /* when it is up again */
	int64_t late_until; /* what was sent while it was silent arrives until then, even if it is healed */
	int64_t slow_until;
	int64_t slow_us;
};

struct chunk {
	struct chunk *next;
	char bytes[];
};

struct pair {
	const char *what, *met;
	uint64_t count;
};

static struct {
	int64_t now;
	uint64_t chance[4];
	struct moment *heap;
	size_t count, size;
	uint64_t asked;
	struct chunk *chunks, *chunk; /* all chunks, the current one */
	size_t used;
	struct fd fds[FDS];
	int fd_count;
	struct link links[SIM_LISTENERS][SIM_SERVERS];
	uint64_t digest;
	bool is_shown;
	int self;
} sim = {.self = SIM_NOBODY};

static struct pair pairs[PAIRS]; /* over all histories */
static const char *const server_names[] = {"redis", "postgres"};

/* --- chance: xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64 --- */

static uint64_t mix(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t turn(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

uint64_t sim_draw(void)
{
	uint64_t *s = sim.chance, drawn = turn(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = turn(s[3], 45);
	return drawn;
}

uint64_t sim_dice(uint64_t *draw, uint64_t n)
{
	return mix(draw) % n;
}

/* --- memory --- */

void *sim_alloc(size_t size)
{
	char *at;

	size = (size + 15) & ~(size_t)15;
	if (size > CHUNK) {
		fprintf(stderr, "simulation: %zu bytes at once\n", size);
		abort();
	}
	if (!sim.chunk || sim.used + size > CHUNK) {
		struct chunk *next = sim.chunk ? sim.chunk->next : sim.chunks;

		if (!next) {
			next = process_real_malloc(sizeof(*next) + CHUNK);
			if (!next)
				abort();
			next->next = NULL;
			if (sim.chunk)
				sim.chunk->next = next;
			else
				sim.chunks = next;
		}
		sim.chunk = next;
		sim.used = 0;
	}
	at = sim.chunk->bytes + sim.used;
	sim.used += size;
	return memset(at, 0, size);
}

char *sim_copy(const char *bytes, size_t len)
{
	char *copy = sim_alloc(len + 1);

	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

char *sim_print(const char *format, ...)
{
	char text[2000];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return sim_copy(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* --- the clock --- */

int64_t sim_now(void)
{
	return sim.now;
}

int64_t sim_wall(void)
{
	return WALL_US + sim.now;
}

static bool is_before(const struct moment *a, const struct moment *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void grow_heap(void)
{
	struct moment *more;

	sim.size = sim.size ? 2 * sim.size : HEAP_FIRST;
	more = process_real_malloc(sim.size * sizeof(*more));
	if (!more)
		abort();
	if (sim.count)
		memcpy(more, sim.heap, sim.count * sizeof(*more));
	process_real_free(sim.heap);
	sim.heap = more;
}

void sim_at(int64_t delay_us, void (*fn)(void *arg), void *arg)
{
	struct moment m = {sim.now + (delay_us > 0 ? delay_us : 0), 0, fn, arg};
	size_t i;

	m.order = (sim_draw() & UINT64_C(0xffff)) << 40 | sim.asked++;
	if (sim.count == sim.size)
		grow_heap();
	for (i = sim.count++; i && is_before(&m, &sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim.heap[i] = sim.heap[(i - 1) / 2];
	sim.heap[i] = m;
}

static struct moment next_moment(void)
{
	struct moment first = sim.heap[0], last = sim.heap[--sim.count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < sim.count) {
		child += child + 1 < sim.count && is_before(&sim.heap[child + 1], &sim.heap[child]);
		if (!is_before(&sim.heap[child], &last))
			break;
		sim.heap[i] = sim.heap[child];
		i = child;
	}
	sim.heap[i] = last;
	return first;
}

bool sim_step(void)
{
	struct moment m;

	if (!sim.count)
		return false;
	m = next_moment();
	sim.now = m.at;
	m.fn(m.arg);
	return true;
}

/* --- who runs --- */

int sim_self(void)
{
	return sim.self;
}

void sim_run_as(int process)
{
	sim.self = process;
}

const char *sim_name(int process)
{
	static const char *const names[SIM_LISTENERS] = {"listener 0", "listener 1", "listener 2", "listener 3",
							 "listener 4", "listener 5", "listener 6", "listener 7"};

	return process >= 0 && process < SIM_LISTENERS ? names[process] : "the world";
}

/* --- the network --- */

static struct link *link_of(int process, enum sim_server server)
{
	return &sim.links[process][server];
}

enum sim_link sim_link(int process, enum sim_server server)
{
	const struct link *l = link_of(process, server);

	return l->state != SIM_LINK_UP && sim.now < l->until ? l->state : SIM_LINK_UP;
}

int64_t sim_travel(int process, enum sim_server server)
{
	const struct link *l = link_of(process, server);
	int64_t us = sim_between(20, 200);

	if (sim_below(200) == 0)
		us += sim_between(1000, 60000);
	if (sim.now < l->slow_until)
		us += sim_between(0, l->slow_us);
	return us;
}

static struct fd *fd_of(int fd)
{
	if (fd < FIRST_FD || fd >= FIRST_FD + sim.fd_count) {
		fprintf(stderr, "simulation: no such socket: %d\n", fd);
		abort();
	}
	return &sim.fds[fd - FIRST_FD];
}

void sim_break_link(int process, enum sim_server server, enum sim_link state, int64_t lasts_us)
{
	struct link *l = link_of(process, server);

	sim_log(process, "the network to %s is %s for %.1f s", server_names[server],
		state == SIM_LINK_CUT ? "cut" : "silent", (double)lasts_us / 1e6);
	l->state = state;
	l->until = sim.now + lasts_us;
	if (state != SIM_LINK_CUT)
		return;
	for (int i = 0; i < sim.fd_count; i++) {
		struct fd *f = &sim.fds[i];

		if (!f->is_open || f->is_cut || f->process != process || f->server != server)
			continue;
		f->is_cut = true;
		if (f->on_gone)
			f->on_gone(f->arg, false);
	}
}

void sim_slow_link(int process, enum sim_server server, int64_t by_us, int64_t lasts_us)
{
	struct link *l = link_of(process, server);

	sim_log(process, "the network to %s is slow, up to %.3f s a message, for %.1f s", server_names[server],
		(double)by_us / 1e6, (double)lasts_us / 1e6);
	l->slow_us = by_us;
	l->slow_until = sim.now + lasts_us;
}

int64_t sim_late_until(int process)
{
	int64_t until = 0;

	for (int s = 0; s < SIM_SERVERS; s++)
		if (sim.links[process][s].late_until > until)
			until = sim.links[process][s].late_until;
	return until;
}

void sim_heal_links(void)
{
	for (int p = 0; p < SIM_LISTENERS; p++)
		for (int s = 0; s < SIM_SERVERS; s++) {
			if (sim.links[p][s].until > sim.now)
				sim.links[p][s].until = sim.now;
			if (sim.links[p][s].slow_until > sim.now)
				sim.links[p][s].slow_until = sim.now;
		}
}

/* --- sockets --- */

int sim_fd_open(enum sim_server server, void (*on_gone)(void *arg, bool is_killed), void *arg)
{
	if (sim.fd_count == FDS) {
		process_fail("more than %d sockets were opened: it connects without end", FDS);
		return FIRST_FD;
	}
	sim.fds[sim.fd_count] = (struct fd){.is_open = true,
					    .is_lossy = sim_chance(500),
					    .process = sim.self,
					    .server = server,
					    .on_gone = on_gone,
					    .arg = arg};
	return FIRST_FD + sim.fd_count++;
}

bool sim_fd_is_open(int fd)
{
	return fd_of(fd)->is_open;
}

int sim_fd_flags(int fd)
{
	const struct fd *f = fd_of(fd);

	return f->is_open ? f->flags : 0;
}

void sim_fd_set(int fd, int flags)
{
	struct fd *f = fd_of(fd);

	if (!f->is_open)
		return;
	f->flags |= flags;
	process_wake(f->process);
}

void sim_fd_clear(int fd, int flags)
{
	fd_of(fd)->flags &= ~flags;
}

void sim_fd_close(int fd)
{
	struct fd *f = fd_of(fd);

	f->is_open = false;
	f->flags = 0;
}

struct later {
	int fd;
	bool to_server;
	void (*fn)(void *arg);
	void *arg;
};

static void arrive(void *arg)
{
	const struct later *l = arg;
	const struct fd *f = fd_of(l->fd);

	if (f->is_cut || (!l->to_server && !f->is_open))
		return;
	l->fn(l->arg);
}

void sim_fd_later(int fd, bool to_server, void (*fn)(void *arg), void *arg)
{
	struct fd *f = fd_of(fd);
	struct link *l = link_of(f->process, f->server);
	struct later *later;
	int64_t at = sim.now + sim_travel(f->process, f->server);
	enum sim_link state = sim_link(f->process, f->server);

	f->is_mute |= state == SIM_LINK_SILENT && f->is_lossy;
	if (f->is_cut || (to_server && !f->is_open) || f->is_mute)
		return;
	if (state == SIM_LINK_SILENT) /* TCP retransmits it until it arrives */
		at += l->until - sim.now;
	at = at > f->last[to_server] ? at : f->last[to_server] + 1;
	f->last[to_server] = at;
	if (state == SIM_LINK_SILENT && l->late_until < at)
		l->late_until = at;
	later = sim_alloc(sizeof(*later));
	*later = (struct later){fd, to_server, fn, arg};
	sim_at(at - sim.now, arrive, later);
}

struct gone {
	void (*on_gone)(void *arg, bool is_killed);
	void *arg;
};

static void tell_gone(void *arg)
{
	const struct gone *g = arg;

	g->on_gone(g->arg, true);
}

/* Calls tell for each, which must notify g. */
static void close_all_of(int process, void (*tell)(int fd, struct gone *g))
{
	for (int i = 0; i < sim.fd_count; i++) {
		struct fd *f = &sim.fds[i];
		struct gone *g;

		if (!f->is_open || f->process != process)
			continue;
		if (f->on_gone && !f->is_cut) {
			g = sim_alloc(sizeof(*g));
			*g = (struct gone){f->on_gone, f->arg};
			tell(FIRST_FD + i, g);
		}
		sim_fd_close(FIRST_FD + i);
	}
}

static void tell_behind(int fd, struct gone *g)
{
	sim_fd_later(fd, true, tell_gone, g);
}

/* The kernel closes the sockets of a dead process: the server sees that after the data sent before. */
void sim_close_fds_of(int process)
{
	close_all_of(process, tell_behind);
}

#define KEEPALIVE_US INT64_C(20000000) /* until a server notices by itself that a machine is gone */

static void tell_late(int fd, struct gone *g)
{
	(void)fd;
	sim_at(KEEPALIVE_US, tell_gone, g);
}

/* The servers are not told. */
void sim_vanish_fds_of(int process)
{
	close_all_of(process, tell_late);
}

/* --- the history --- */

static uint64_t hash(uint64_t h, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return h;
}

uint64_t sim_hash(const char *text)
{
	return hash(UINT64_C(0xcbf29ce484222325), text, strlen(text));
}

static void put(const char *text, size_t len)
{
	sim.digest = hash(sim.digest, text, len);
	if (sim.is_shown)
		fwrite(text, 1, len, stdout);
}

void sim_log(int process, const char *format, ...)
{
	char line[1400];
	va_list ap;
	int n = snprintf(line, sizeof(line), "%3lld.%06lld %s: ", (long long)(sim.now / 1000000),
			 (long long)(sim.now % 1000000), sim_name(process)),
	    m;

	va_start(ap, format);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	va_end(ap);
	n = m < (int)sizeof(line) - n - 1 ? n + m : (int)sizeof(line) - 2;
	line[n++] = '\n';
	put(line, (size_t)n);
}

bool sim_is_shown(void)
{
	return sim.is_shown;
}

uint64_t sim_digest(void)
{
	return sim.digest;
}

void sim_seed(uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		sim.chance[i] = mix(&seed);
}

void sim_begin(uint64_t seed, bool is_shown)
{
	sim_seed(seed);
	sim.now = 0;
	sim.count = 0;
	sim.asked = 0;
	sim.chunk = NULL;
	sim.fd_count = 0;
	memset(sim.links, 0, sizeof(sim.links));
	sim.digest = UINT64_C(0xcbf29ce484222325);
	sim.is_shown = is_shown;
	sim.self = SIM_NOBODY;
}

/* --- coverage: pairs reached in all histories --- */

void sim_reached(const char *what, const char *met)
{
	size_t i = ((uintptr_t)what * 31 + (uintptr_t)met) / 8 % PAIRS;

	while (pairs[i].what && (pairs[i].what != what || pairs[i].met != met))
		i = (i + 1) % PAIRS;
	pairs[i].what = what;
	pairs[i].met = met;
	pairs[i].count++;
}

const char *sim_known(const char *text)
{
	static const char *known[256];

	for (int i = 0; i < 256; i++) {
		if (!known[i]) {
			char *copy = process_real_malloc(strlen(text) + 1);

			return known[i] = strcpy(copy, text);
		}
		if (strcmp(known[i], text) == 0)
			return known[i];
	}
	abort();
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int order;

	if (!x->what || !y->what)
		return !x->what - !y->what;
	order = strcmp(x->what, y->what);
	return order ? order : strcmp(x->met, y->met);
}

uint64_t sim_count_reached(const char *what, const char *met)
{
	uint64_t count = 0;

	for (size_t i = 0; i < PAIRS; i++)
		if (pairs[i].what && strcmp(pairs[i].what, what) == 0 && strcmp(pairs[i].met, met) == 0)
			count += pairs[i].count;
	return count;
}

/* Merges equal texts of different files, which have different addresses. */
void sim_print_reached(FILE *out)
{
	qsort(pairs, PAIRS, sizeof(*pairs), compare_pairs);
	for (size_t i = 0; i < PAIRS && pairs[i].what; i++) {
		uint64_t count = pairs[i].count;

		while (i + 1 < PAIRS && pairs[i + 1].what && compare_pairs(&pairs[i], &pairs[i + 1]) == 0)
			count += pairs[++i].count;
		fprintf(out, "%-16s %-52s %llu\n", pairs[i].what, pairs[i].met, (unsigned long long)count);
	}
}
