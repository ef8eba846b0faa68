/* sim.c is as much of sim.h as the played servers need: nothing is lost on the way here, and nobody dies. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "redis.h"
#include "side.h"

struct moment {
	struct moment *next;
	int64_t at;
	void (*fn)(void *arg);
	void *arg;
};

static struct moment *moments;
static int64_t now;
static uint64_t chance = 7;
static int last_fd;

int64_t sim_now(void)
{
	return now;
}

int64_t sim_wall(void)
{
	return now;
}

void sim_at(int64_t delay_us, void (*fn)(void *arg), void *arg)
{
	struct moment *m = sim_alloc(sizeof(*m)), **at = &moments;

	*m = (struct moment){.at = now + delay_us, .fn = fn, .arg = arg};
	while (*at && (*at)->at <= m->at)
		at = &(*at)->next;
	m->next = *at;
	*at = m;
}

uint64_t sim_draw(void)
{
	chance = chance * 6364136223846793005ull + 1442695040888963407ull;
	return chance >> 20;
}

uint64_t sim_dice(uint64_t *draw, uint64_t n)
{
	return ++*draw % n;
}

void *sim_alloc(size_t size)
{
	return calloc(1, size + 1);
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
	char *text;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		abort();
	va_end(ap);
	return text;
}

int sim_self(void)
{
	return 0;
}

enum sim_link sim_link(int process, enum sim_server to)
{
	(void)process, (void)to;
	return SIM_LINK_UP;
}

int sim_fd_open(enum sim_server to, void (*on_gone)(void *arg, bool is_killed), void *arg)
{
	(void)to, (void)on_gone, (void)arg;
	return ++last_fd;
}

void sim_fd_set(int fd, int flags)
{
	(void)fd, (void)flags;
}

void sim_fd_clear(int fd, int flags)
{
	(void)fd, (void)flags;
}

void sim_fd_close(int fd)
{
	(void)fd;
}

bool sim_fd_is_open(int fd)
{
	(void)fd;
	return true;
}

void sim_fd_later(int fd, bool to_server, void (*fn)(void *arg), void *arg)
{
	(void)fd, (void)to_server;
	sim_at(50, fn, arg);
}

void sim_log(int process, const char *format, ...)
{
	(void)process, (void)format;
}

void sim_reached(const char *what, const char *met)
{
	(void)what, (void)met;
}

void sim_touches(const char *id_prefix, int64_t lasts_us, bool may_refuse)
{
	(void)id_prefix, (void)lasts_us, (void)may_refuse;
}

size_t sim_id_count(void)
{
	return 0;
}

const char *sim_id(size_t i)
{
	(void)i;
	return "";
}

void sim_committed_row(int process, const char *id, size_t id_len, const char *payload, size_t len)
{
	(void)process, (void)id, (void)id_len, (void)payload, (void)len;
}

void sim_committed_letter(int process, const unsigned char digest[32], const char *id, size_t id_len,
			  const char *reason)
{
	(void)process, (void)digest, (void)id, (void)id_len, (void)reason;
}

void sim_forgot_row(const char *id, size_t id_len)
{
	(void)id, (void)id_len;
}

void sim_forgot_letter(const unsigned char digest[32])
{
	(void)digest;
}

void sim_took_too_long(int process, size_t rows)
{
	(void)process, (void)rows;
}

void sim_cost(const char *name, size_t n)
{
	(void)name, (void)n;
}

void sim_deadlocked(int process)
{
	(void)process;
}

bool sim_step(void)
{
	struct moment *m = moments;

	if (!m)
		return false;
	moments = m->next;
	now = m->at;
	m->fn(m->arg);
	return true;
}

void sim_pass(int64_t us)
{
	now += us;
}

void sim_run_as(int process)
{
	(void)process;
}

const char *sim_known(const char *text)
{
	return text;
}

void process_wake(int process)
{
	(void)process;
}

void process_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

void checker_key(int process, const char *id, size_t id_len, const char *value, size_t len, bool was_there)
{
	(void)process, (void)id, (void)id_len, (void)value, (void)len, (void)was_there;
}

void checker_own(int process, const char *value, size_t len)
{
	(void)process, (void)value, (void)len;
}

void checker_inherited(const char *value)
{
	(void)value;
}

void checker_lapsed(const char *value, int64_t at)
{
	(void)value, (void)at;
}

void sim_committed_delivery(int process, const char *target, const char *id, const char *was, const char *is)
{
	(void)process, (void)target, (void)id, (void)was, (void)is;
}

void sim_committed_lease(int process, const char *target, const char *id, int64_t until)
{
	(void)process, (void)target, (void)id, (void)until;
}

void sim_forgot_delivery(const char *target, const char *id)
{
	(void)target, (void)id;
}

void sim_committed_cursor(int process, const char *value)
{
	(void)process, (void)value;
}

void sim_forgot_cursor(void)
{
}

void sim_committed_changed(int process)
{
	(void)process;
}

void sim_lease_refused(void)
{
}

void checker_deleted(int process, const char *key, const char *value)
{
	(void)process, (void)key, (void)value;
}
