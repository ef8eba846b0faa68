/* uv.c replaces libuv, clocks and the memory of processes. A loop works like libuv's, in the order of its manual ("The
 * I/O loop"), on the virtual clock. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <setjmp.h>

#include "files.h"
#include "process.h"

#define TIMERS   64
#define WATCHERS 16
#define CLOSING  128
#define FIRST_MS INT64_C(5000000) /* start of the monotonic clock: the host has been up for a while */

struct call {
	struct call *next;
	void (*fn)(void *arg);
	void *arg;
};

struct process {
	uv_loop_t loop;
	bool is_alive;
	bool is_running;
	uint64_t wake; /* number of the current wake-up; older ones are ignored */
	int64_t wake_us;
	int64_t frozen_until;
	int64_t wall_off_us;
	int64_t mono_off_ms;
	int64_t now_ms;   /* the result of uv_now */
	uint64_t started; /* timers started so far */
	uv_timer_t *timers[TIMERS];
	int timer_count;
	uv_prepare_t *prepares[WATCHERS];
	int prepare_count;
	uv_poll_t *polls[WATCHERS];
	int poll_count;
	struct closing {
		uv_handle_t *handle;
		uv_close_cb cb;
	} closing[CLOSING];
	int closing_count;
	struct call *calls, **last_call;
	struct task *task; /* of its other thread */
	struct block *blocks;
};

struct task {
	int process;
	uv_work_t *request;
	uv_work_cb work;
	uv_after_work_cb done;
};

/* Bits in the handle's own flags field, as in libuv. */
#define ACTIVE 4u

static struct process processes[SIM_LISTENERS];
static uint64_t turns;
static jmp_buf at_exit; /* where the current turn ends */

/* --- memory, freed when a process dies --- */

#define MAGIC UINT32_C(0x51b10c4d)

struct block {
	struct block *next, **link;
	size_t size;
	uint32_t magic;
	int process;
};

_Static_assert(sizeof(struct block) % 16 == 0, "what follows it is aligned");

void *__real_malloc(size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);

void *process_real_malloc(size_t size)
{
	return __real_malloc(size);
}

void process_real_free(void *block)
{
	__real_free(block);
}

static void hang_in(struct block *b)
{
	struct block **head = b->process == SIM_NOBODY ? NULL : &processes[b->process].blocks;

	b->link = head;
	b->next = head ? *head : NULL;
	if (b->next)
		b->next->link = &b->next;
	if (head)
		*head = b;
}

static void take_out(struct block *b)
{
	if (b->link)
		*b->link = b->next;
	if (b->next)
		b->next->link = b->link;
}

void *__wrap_malloc(size_t size)
{
	struct block *b = __real_malloc(sizeof(*b) + size);

	if (!b)
		abort();
	b->size = size;
	b->magic = MAGIC;
	b->process = sim_self();
	hang_in(b);
	return b + 1;
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *at = __wrap_malloc(n * size);

	return memset(at, 0, n * size);
}

static struct block *block_of(void *at)
{
	struct block *b = (struct block *)at - 1;

	if (b->magic != MAGIC)
		abort(); /* memory allocated by a library */
	return b;
}

void __wrap_free(void *at)
{
	struct block *b;

	if (!at)
		return;
	b = block_of(at);
	take_out(b);
	b->magic = 0;
	__real_free(b);
}

void *__wrap_realloc(void *at, size_t size)
{
	void *more = __wrap_malloc(size);

	if (at) {
		memcpy(more, at, block_of(at)->size < size ? block_of(at)->size : size);
		__wrap_free(at);
	}
	return more;
}

char *__wrap_strdup(const char *text)
{
	return strcpy(__wrap_malloc(strlen(text) + 1), text);
}

char *__wrap_strndup(const char *text, size_t n)
{
	size_t len = strnlen(text, n);
	char *copy = memcpy(__wrap_malloc(len + 1), text, len);

	copy[len] = '\0';
	return copy;
}

static int print_new(char **out, const char *format, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	*out = __wrap_malloc((size_t)n + 1);
	return vsnprintf(*out, (size_t)n + 1, format, ap);
}

__attribute__((format(printf, 2, 3))) int __wrap_asprintf(char **out, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = print_new(out, format, ap);
	va_end(ap);
	return n;
}

__attribute__((format(printf, 3, 4))) int __wrap___asprintf_chk(char **out, int flag, const char *format, ...)
{
	va_list ap;
	int n;

	(void)flag;
	va_start(ap, format);
	n = print_new(out, format, ap);
	va_end(ap);
	return n;
}

char *__real_json_dumps(const json_t *json, size_t flags);

char *__wrap_json_dumps(const json_t *json, size_t flags)
{
	char *text = __real_json_dumps(json, flags), *copy = text ? __wrap_strdup(text) : NULL;

	__real_free(text);
	return copy;
}

static void free_all(struct process *p)
{
	while (p->blocks) {
		struct block *b = p->blocks;

		p->blocks = b->next;
		b->magic = 0;
		__real_free(b);
	}
}

/* --- clocks --- */

static struct process *self(void)
{
	return sim_self() == SIM_NOBODY ? NULL : &processes[sim_self()];
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	const struct process *p = self();
	int64_t us;

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		us = sim_wall() + (p ? p->wall_off_us : 0);
	else
		us = sim_now() + (FIRST_MS + (p ? p->mono_off_ms : 0)) * 1000;
	out->tv_sec = us / 1000000;
	out->tv_nsec = us % 1000000 * 1000;
	return 0;
}

static int64_t loop_ms(const struct process *p)
{
	return sim_now() / 1000 + FIRST_MS + p->mono_off_ms;
}

/* --- the loop --- */

static struct process *process_of(const uv_loop_t *loop)
{
	return (struct process *)loop; /* its first member is the loop */
}

struct moment_of {
	struct process *process;
	uint64_t wake;
};

static void on_wake(void *arg);

static void wake_at(struct process *p, int64_t us)
{
	struct moment_of *m;

	if (!p->is_alive || (p->wake_us >= 0 && p->wake_us <= us))
		return;
	if (us < p->frozen_until)
		us = p->frozen_until;
	m = sim_alloc(sizeof(*m));
	*m = (struct moment_of){p, ++p->wake};
	p->wake_us = us;
	sim_at(us - sim_now(), on_wake, m);
}

static int index_of(const struct process *p)
{
	return (int)(p - processes);
}

static uv_timer_t *first_timer(const struct process *p)
{
	uv_timer_t *first = NULL;

	for (int i = 0; i < p->timer_count; i++)
		if (!first || p->timers[i]->timeout < first->timeout ||
		    (p->timers[i]->timeout == first->timeout && p->timers[i]->start_id < first->start_id))
			first = p->timers[i];
	return first;
}

static void run_timers(struct process *p)
{
	uv_timer_t *t;

	while (p->is_alive && (t = first_timer(p)) && t->timeout <= (uint64_t)p->now_ms) {
		uint64_t repeat = t->repeat;

		uv_timer_stop(t);
		if (repeat)
			uv_timer_start(t, t->timer_cb, repeat, repeat);
		t->timer_cb(t);
	}
}

static bool run_polls(struct process *p)
{
	uv_poll_t *ready[WATCHERS];
	int events[WATCHERS], n = 0;
	bool has_run = false;

	for (int i = 0; i < p->poll_count; i++) {
		int fd = p->polls[i]->io_watcher.fd, now = sim_fd_flags(fd) & (int)p->polls[i]->io_watcher.events;

		if (now) {
			ready[n] = p->polls[i];
			events[n++] = now;
		}
	}
	for (int i = 0; p->is_alive && i < n; i++) {
		if (!(ready[i]->flags & ACTIVE))
			continue;
		ready[i]->poll_cb(ready[i], 0, events[i]);
		has_run = true;
	}
	return has_run;
}

static bool run_closings(struct process *p)
{
	struct closing closing[CLOSING];
	int n = p->closing_count;

	memcpy(closing, p->closing, (size_t)n * sizeof(*closing));
	p->closing_count = 0;
	for (int i = 0; p->is_alive && i < n; i++)
		if (closing[i].cb)
			closing[i].cb(closing[i].handle);
	return n > 0;
}

static bool run_calls(struct process *p)
{
	struct call *c = p->calls;
	bool has_run = c != NULL;

	p->calls = NULL;
	p->last_call = &p->calls;
	for (; p->is_alive && c; c = c->next)
		c->fn(c->arg);
	return has_run;
}

static void run_turn(struct process *p)
{
	bool has_run;

	turns++;
	p->now_ms = loop_ms(p);
	run_timers(p);
	for (int i = 0; p->is_alive && i < p->prepare_count; i++)
		p->prepares[i]->prepare_cb(p->prepares[i]);
	has_run = p->is_alive && run_polls(p);
	has_run |= p->is_alive && run_calls(p);
	has_run |= p->is_alive && run_closings(p);
	p->wake_us = -1;
	if (!p->is_alive)
		return;
	if (has_run || p->calls) { /* running took time, and what it began must be handled */
		wake_at(p, sim_now() + sim_between(1, 40));
	} else if (first_timer(p)) {
		int64_t ms = (int64_t)first_timer(p)->timeout - FIRST_MS - p->mono_off_ms;

		wake_at(p, ms * 1000 > sim_now() ? ms * 1000 : sim_now() + 1);
	}
}

static void on_wake(void *arg)
{
	const struct moment_of *m = arg;
	struct process *p = m->process;

	if (!p->is_alive || m->wake != p->wake)
		return;
	if (sim_now() < p->frozen_until) {
		p->wake_us = -1;
		wake_at(p, p->frozen_until);
		return;
	}
	sim_run_as(index_of(p));
	p->is_running = true;
	if (!_setjmp(at_exit))
		run_turn(p);
	p->is_running = false;
	sim_run_as(SIM_NOBODY);
	if (!p->is_alive)
		free_all(p);
}

void process_wake(int process)
{
	struct process *p = &processes[process];

	if (!p->is_running)
		wake_at(p, sim_now() + sim_between(0, 30));
}

void process_call(int process, void (*fn)(void *arg), void *arg)
{
	struct process *p = &processes[process];
	struct call *c;

	if (!p->is_alive)
		return;
	c = sim_alloc(sizeof(*c));
	*c = (struct call){NULL, fn, arg};
	*p->last_call = c;
	p->last_call = &c->next;
	process_wake(process);
}

void process_start(int process, void (*main)(uv_loop_t *loop))
{
	struct process *p = &processes[process];
	uint64_t wake = p->wake;

	free_all(p);
	memset(p, 0, sizeof(*p));
	p->wake = wake + 1; /* wake-ups of the previous process are ignored */
	p->wake_us = -1;
	p->last_call = &p->calls;
	p->is_alive = true;
	p->mono_off_ms = (int64_t)process * 100000;
	p->now_ms = loop_ms(p);
	sim_run_as(process);
	p->is_running = true;
	if (!_setjmp(at_exit))
		main(&p->loop);
	p->is_running = false;
	sim_run_as(SIM_NOBODY);
	wake_at(p, sim_now() + 1);
}

void process_stop(void)
{
	longjmp(at_exit, 1);
}

/* As its other thread. */
static void do_task(struct task *t)
{
	struct process *p = &processes[t->process];

	sim_run_as(t->process);
	p->is_running = true;
	if (!_setjmp(at_exit))
		t->work(t->request);
	p->is_running = false;
	sim_run_as(SIM_NOBODY);
}

void process_exit(void)
{
	process_kill(sim_self());
	longjmp(at_exit, 1);
}

void process_kill(int process)
{
	struct process *p = &processes[process];

	if (!p->is_alive)
		return;
	if (p->task && !p->is_running && sim_chance(500)) { /* its other thread was at work */
		files_stop_after((int)sim_between(1, 4));
		do_task(p->task);
		files_stop_after(-1);
	}
	p->is_alive = false;
	p->task = NULL;
	p->wake++;
	p->calls = NULL;
	p->last_call = &p->calls;
	sim_close_fds_of(process);
	if (!p->is_running)
		free_all(p);
}

bool process_has_calls(int process)
{
	return processes[process].calls != NULL;
}

bool process_is_alive(int process)
{
	return processes[process].is_alive;
}

void process_freeze(int process, int64_t lasts_us)
{
	struct process *p = &processes[process];

	p->frozen_until = sim_now() + lasts_us;
	process_wake(process);
}

void process_step_clock(int process, int64_t by_us)
{
	processes[process].wall_off_us += by_us;
}

void process_end_all(void)
{
	for (int i = 0; i < SIM_LISTENERS; i++) {
		free_all(&processes[i]);
		memset(&processes[i], 0, sizeof(processes[i]));
		processes[i].wake_us = -1;
	}
	turns = 0;
}

uint64_t process_turns(void)
{
	return turns;
}

/* --- libuv's functions --- */

uint64_t uv_hrtime(void)
{
	return (uint64_t)(sim_now() + (FIRST_MS + (self() ? self()->mono_off_ms : 0)) * 1000) * 1000;
}

uint64_t uv_now(const uv_loop_t *loop)
{
	return (uint64_t)process_of(loop)->now_ms;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
	void *data = timer->data;

	memset(timer, 0, sizeof(*timer));
	timer->data = data;
	timer->loop = loop;
	timer->type = UV_TIMER;
	return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
	struct process *p = process_of(timer->loop);

	if (!(timer->flags & ACTIVE))
		return 0;
	timer->flags &= ~ACTIVE;
	for (int i = 0; i < p->timer_count; i++)
		if (p->timers[i] == timer) {
			p->timers[i] = p->timers[--p->timer_count];
			return 0;
		}
	abort();
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	struct process *p = process_of(timer->loop);

	if (uv_is_closing((uv_handle_t *)timer) || !cb)
		return UV_EINVAL;
	uv_timer_stop(timer);
	if (p->timer_count == TIMERS)
		abort();
	timer->timer_cb = cb;
	timer->timeout = (uint64_t)p->now_ms + timeout;
	timer->repeat = repeat;
	timer->start_id = p->started++;
	timer->flags |= ACTIVE;
	p->timers[p->timer_count++] = timer;
	if (!p->is_running)
		process_wake(index_of(p));
	return 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *prepare)
{
	void *data = prepare->data;

	memset(prepare, 0, sizeof(*prepare));
	prepare->data = data;
	prepare->loop = loop;
	prepare->type = UV_PREPARE;
	return 0;
}

/* The last one started runs first, as in libuv. */
int uv_prepare_start(uv_prepare_t *prepare, uv_prepare_cb cb)
{
	struct process *p = process_of(prepare->loop);

	if (prepare->flags & ACTIVE)
		return 0;
	if (p->prepare_count == WATCHERS)
		abort();
	prepare->prepare_cb = cb;
	prepare->flags |= ACTIVE;
	memmove(p->prepares + 1, p->prepares, (size_t)p->prepare_count++ * sizeof(*p->prepares));
	p->prepares[0] = prepare;
	return 0;
}

int uv_prepare_stop(uv_prepare_t *prepare)
{
	struct process *p = process_of(prepare->loop);

	prepare->flags &= ~ACTIVE;
	for (int i = 0; i < p->prepare_count; i++)
		if (p->prepares[i] == prepare) {
			memmove(p->prepares + i, p->prepares + i + 1,
				(size_t)(--p->prepare_count - i) * sizeof(*p->prepares));
			return 0;
		}
	return 0;
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
	void *data = poll->data;

	memset(poll, 0, sizeof(*poll));
	poll->data = data;
	poll->loop = loop;
	poll->type = UV_POLL;
	poll->io_watcher.fd = fd;
	return 0;
}

int uv_poll_stop(uv_poll_t *poll)
{
	struct process *p = process_of(poll->loop);

	poll->flags &= ~ACTIVE;
	for (int i = 0; i < p->poll_count; i++)
		if (p->polls[i] == poll) {
			memmove(p->polls + i, p->polls + i + 1, (size_t)(--p->poll_count - i) * sizeof(*p->polls));
			return 0;
		}
	return 0;
}

int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb cb)
{
	struct process *p = process_of(poll->loop);

	uv_poll_stop(poll);
	if (!events)
		return 0;
	if (p->poll_count == WATCHERS)
		abort();
	poll->poll_cb = cb;
	poll->io_watcher.events = (unsigned int)events;
	poll->flags |= ACTIVE;
	p->polls[p->poll_count++] = poll;
	if (!p->is_running)
		process_wake(index_of(p));
	return 0;
}

#define IS_CLOSING 1u

int uv_is_closing(const uv_handle_t *handle)
{
	return (handle->flags & IS_CLOSING) != 0;
}

int uv_is_active(const uv_handle_t *handle)
{
	return (handle->flags & ACTIVE) != 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb cb)
{
	struct process *p = process_of(handle->loop);

	if (handle->type == UV_TIMER)
		uv_timer_stop((uv_timer_t *)handle);
	else if (handle->type == UV_PREPARE)
		uv_prepare_stop((uv_prepare_t *)handle);
	else
		uv_poll_stop((uv_poll_t *)handle);
	handle->flags |= IS_CLOSING;
	if (p->closing_count == CLOSING)
		abort();
	p->closing[p->closing_count++] = (struct closing){handle, cb};
}

int uv_random(uv_loop_t *loop, uv_random_t *req, void *out, size_t len, unsigned flags, uv_random_cb cb)
{
	(void)loop, (void)req, (void)flags, (void)cb;
	for (size_t i = 0; i < len; i++)
		((unsigned char *)out)[i] = (unsigned char)sim_below(256);
	return 0;
}

/* No name lookups: the servers have no names. */
int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb cb)
{
	(void)loop, (void)async, (void)cb;
	abort();
}

int uv_async_send(uv_async_t *async)
{
	(void)async;
	return UV_EINVAL;
}

static void finish_task(void *arg)
{
	const struct task *t = arg;

	t->done(t->request, 0);
}

static void run_task(void *arg)
{
	struct task *t = arg;
	struct process *p = &processes[t->process];

	if (p->task != t)
		return; /* its process has died */
	if (sim_now() < p->frozen_until) {
		sim_at(p->frozen_until - sim_now(), run_task, t);
		return;
	}
	p->task = NULL;
	do_task(t);
	process_call(t->process, finish_task, t);
}

/* One at a time. */
int uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb work, uv_after_work_cb done)
{
	struct process *p = process_of(loop);
	struct task *t = sim_alloc(sizeof(*t));

	if (p->task)
		abort();
	*t = (struct task){index_of(p), req, work, done};
	p->task = t;
	sim_at(sim_chance(50) ? sim_between(1000, 30000) : sim_between(20, 400), run_task, t);
	return 0;
}

int uv_ip4_name(const struct sockaddr_in *from, char *out, size_t size)
{
	(void)from, (void)out, (void)size;
	return UV_EINVAL;
}

int uv_ip6_name(const struct sockaddr_in6 *from, char *out, size_t size)
{
	(void)from, (void)out, (void)size;
	return UV_EINVAL;
}

const char *uv_strerror(int error)
{
	(void)error;
	return "an error of libuv";
}
