/* hooks.c is what the played servers need beside the simulator's clock and sockets: nobody dies, and nobody looks on.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "redis.h"
#include "side.h"

/* One client, and no faults. */
__attribute__((constructor)) static void begin(void)
{
	sim_begin(7, false);
	sim_run_as(0);
}

static void stop(void *arg)
{
	*(bool *)arg = true;
}

void sim_pass(int64_t us)
{
	bool is_over = false;

	sim_at(us, stop, &is_over);
	while (!is_over)
		sim_step();
}

void *process_real_malloc(size_t size)
{
	return malloc(size);
}

void process_real_free(void *block)
{
	free(block);
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

int world_life(int process)
{
	(void)process;
	return 0;
}

void sim_committed_row(int process, int life, const char *id, size_t id_len, const char *payload, size_t len)
{
	(void)process, (void)life, (void)id, (void)id_len, (void)payload, (void)len;
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

void sim_claims(int process)
{
	(void)process;
}

void sim_deadlocked(int process)
{
	(void)process;
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
