/* main.c owns the options, runs one history after the other and reports those that are wrong. */
#include <getopt.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "redis.h"
#include "event/duplicates.h"
#include "steps.h"
#include "world.h"

#define SHRINK_TRIES 6000
#define SALTS        6

static struct {
	uint64_t seed;
	jmp_buf at_fault;
	bool has_crashed;
	char fault[600];
	const char *kind; /* the format string, which identifies the kind of failure */
} run;

static struct plan plan;

void process_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(run.fault, sizeof(run.fault), format, ap);
	va_end(ap);
	run.kind = format;
	sim_log(sim_self(), "WRONG: %s", run.fault);
	longjmp(run.at_fault, 1);
}

/* The program crashed. Its state may be too broken to continue. */
static void on_crash(int signal)
{
	if (run.has_crashed) {
		printf("seed %" PRIu64 ": signal %d\n", run.seed, signal);
		fflush(stdout);
		_exit(1);
	}
	run.has_crashed = true;
	process_fail("signal %d", signal);
}

/* The program's assert(). */
void __wrap___assert_fail(const char *what, const char *file, unsigned int line, const char *function);
void __wrap___assert_fail(const char *what, const char *file, unsigned int line, const char *function)
{
	(void)line;
	process_fail("assertion in %s (%s): %s", function, file, what);
}

/* --- replacements for other parts of the program --- */

void log_setup(enum log_level level, enum log_format format, const char *instance)
{
	(void)level, (void)format, (void)instance;
}

void log_write(enum log_level level, const char *event, const char *fields, ...)
{
	char text[1000];
	va_list ap;

	if (level == LOG_DEBUG && !sim_is_shown())
		return;
	va_start(ap, fields);
	vsnprintf(text, sizeof(text), fields, ap);
	va_end(ap);
	/* debug lines are printed, but are not in the digest */
	if (level == LOG_DEBUG)
		printf("%3lld.%06lld %s: [%s] %s\n", (long long)(sim_now() / 1000000), (long long)(sim_now() % 1000000),
		       sim_name(sim_self()), event, text);
	else
		sim_log(sim_self(), "[%s] %s", event, text);
}

/* Statistics that nothing depends on, in memory that outlives the process. */
void duplicates_seen(const char *id, size_t len, int64_t delay_ms)
{
	(void)id, (void)len, (void)delay_ms;
}

void duplicates_late(const char *id, size_t len, int64_t now_ms)
{
	(void)id, (void)len, (void)now_ms;
}

void duplicates_describe(json_t *object, int64_t now_ms)
{
	(void)now_ms;
	json_object_set_new(object, "copies", json_array());
	json_object_set_new(object, "late", json_array());
	json_object_set_new(object, "late_weight", json_integer(1));
}

void duplicates_clear(void)
{
}

uint32_t keyed_hash(const void *bytes, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const unsigned char *)bytes)[i]) * 16777619u;
	return h;
}

/* --- histories --- */

/* The deeds left out of a history, by number. */
struct cut {
	bool is_out[DEEDS_MAX];
	uint64_t points;  /* the points of fault_point.c left out */
	int count;        /* number of deeds, with those left out */
	uint64_t salt;    /* changes the numbers drawn after the plan is made */
	const char *kind; /* the kind of failure */
};

/* Runs a history. Returns true if nothing was wrong. */
static bool live(uint64_t seed, const struct cut *cut, bool is_shown)
{
	bool is_right;

	run.seed = seed;
	run.has_crashed = false;
	*run.fault = '\0';
	run.kind = NULL;
	sim_begin(seed, is_shown);
	fault_point_start(seed, cut ? cut->points : 0);
	plan_make(&plan);
	for (int i = 0; cut && i < plan.deed_count; i++)
		plan.deeds[i].is_left_out = cut->is_out[i];
	sim_seed(seed ^ (cut ? cut->salt : 0) << 56);
	is_right = !setjmp(run.at_fault);
	if (is_right) {
		plan_tell(&plan);
		fault_point_tell();
		world_run(&plan);
	}
	sim_run_as(SIM_NOBODY);
	process_end_all();
	redis_sim_end();
	return is_right;
}

/* --- shrinking: delta debugging (Zeller, 1999) over the deeds --- */

static void shrink(uint64_t seed, struct cut *cut)
{
	const char *kind = run.kind;
	int tries = 0;

	*cut = (struct cut){.count = plan.deed_count, .kind = kind};
	for (int size = cut->count / 2; size >= 1; size /= 2) {
		for (int at = 0; at < cut->count && tries < SHRINK_TRIES; at += size) {
			struct cut more = *cut;
			bool is_less = false;

			for (int i = at; i < at + size && i < cut->count; i++) {
				is_less |= !more.is_out[i];
				more.is_out[i] = true;
			}
			if (!is_less)
				continue;
			/* leaving out a deed changes all later random numbers, so try several salts */
			for (more.salt = 0; more.salt < SALTS && tries++ < SHRINK_TRIES; more.salt++)
				if (!live(seed, &more, false) && run.kind == kind) {
					*cut = more;
					break;
				}
		}
	}
}

/* Leaves these points out if the history is still wrong without them. */
static void leave_points_out(uint64_t seed, struct cut *cut, uint64_t points)
{
	struct cut less = *cut;

	less.points |= points;
	if (!live(seed, &less, false) && run.kind == cut->kind)
		*cut = less;
}

static void tell_story(uint64_t seed)
{
	static struct cut cut;
	int left = 0;

	shrink(seed, &cut);
	leave_points_out(seed, &cut, UINT64_MAX);
	for (size_t i = 0; i < fault_point_count(); i++)
		leave_points_out(seed, &cut, UINT64_C(1) << i);
	for (int i = 0; i < cut.count; i++)
		left += !cut.is_out[i];
	printf("--- seed %" PRIu64 ", with %d of its %d deeds:\n", seed, left, cut.count);
	live(seed, &cut, true);
}

struct options {
	uint64_t seed, histories;
	double minutes;
	bool is_one, is_twice, is_quiet, goes_on, has_table, has_steps;
};

static double read_s(clockid_t clock)
{
	struct timespec now;

	__extension__ extern int __real_clock_gettime(clockid_t clock, struct timespec * out);
	__real_clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double now_s(void)
{
	return read_s(CLOCK_MONOTONIC);
}

static bool is_repeated(uint64_t seed)
{
	uint64_t first;

	live(seed, NULL, false);
	first = sim_digest();
	live(seed, NULL, false);
	if (first == sim_digest())
		return true;
	printf("seed %" PRIu64 " gave two histories: %016" PRIx64 " and %016" PRIx64 "\n", seed, first, sim_digest());
	return false;
}

static int run_all(const struct options *o)
{
	double began = now_s(), until = began + o->minutes * 60;
	uint64_t i, wrong = 0, virtual_s = 0, digest = 0;

	for (i = 0; i < o->histories && (!o->minutes || now_s() < until); i++) {
		uint64_t seed = o->seed + i;

		if (!live(seed, NULL, false)) {
			wrong++;
			printf("seed %" PRIu64 " after %" PRIu64 " histories, %.1f s: %s\n", seed, i + 1,
			       now_s() - began, run.fault);
			fflush(stdout);
			if (!o->goes_on) {
				if (!o->is_quiet)
					tell_story(seed);
				i++;
				break;
			}
		}
		virtual_s += (uint64_t)sim_now() / 1000000;
		digest = digest * 31 + sim_digest();
		if (o->is_twice && i < 20)
			wrong += !is_repeated(seed);
	}
	if (o->has_steps)
		steps_print(stdout);
	if (o->has_table)
		coverage_print(stdout);
	printf("%" PRIu64
	       " histories in %.1f s, %.0f for each second of a core; %.1f hours of virtual time, digest %016" PRIx64
	       "\n",
	       i, now_s() - began, (double)i / read_s(CLOCK_PROCESS_CPUTIME_ID), (double)virtual_s / 3600, digest);
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", i - (wrong < i ? wrong : i), wrong);
	return wrong ? 1 : 0;
}

static int usage(void)
{
	fputs("simulate [--seed N] [--histories N] [--minutes M] [--show] [--go-on] [--quiet] [--twice] [--table] "
	      "[--steps] [--without-redis]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", 1, NULL, 's'},          {"histories", 1, NULL, 'n'}, {"minutes", 1, NULL, 'm'},
		{"show", 0, NULL, '1'},          {"go-on", 0, NULL, 'g'},     {"quiet", 0, NULL, 'q'},
		{"twice", 0, NULL, '2'},         {"table", 0, NULL, 't'},     {"steps", 0, NULL, 'w'},
		{"without-redis", 0, NULL, 'r'}, {NULL, 0, NULL, 0}};
	struct options o = {.seed = 1, .histories = UINT64_MAX};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0)
		switch (c) {
		case 's':
			o.seed = strtoull(optarg, NULL, 10);
			break;
		case 'n':
			o.histories = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			o.minutes = strtod(optarg, NULL);
			break;
		case '1':
			o.is_one = true;
			break;
		case 'g':
			o.goes_on = true;
			break;
		case 'q':
			o.is_quiet = true;
			break;
		case '2':
			o.is_twice = true;
			break;
		case 'w':
			o.has_steps = true;
			break;
		case 'r':
			plans_are_without_redis = true;
			break;
		case 't':
			o.has_table = true;
			break;
		default:
			return usage();
		}
	sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_crash, .sa_flags = SA_NODEFER}, NULL);
	sigaction(SIGBUS, &(struct sigaction){.sa_handler = on_crash, .sa_flags = SA_NODEFER}, NULL);
	if (o.is_one)
		return live(o.seed, NULL, true) ? 0 : 1;
	if (!o.minutes && o.histories == UINT64_MAX)
		o.histories = 1000;
	return run_all(&o);
}
