/* store_sqlite.c stores a batch in an SQLite file. One job at a time runs on a thread of libuv's pool, and its result
 * is reported on the loop, so the loop never waits for the disk. sqlite/file.c has the file and its errors; storing.c
 * decides which events come and what follows.
 *
 * A job reads only what never changes in an event: id, type, payload, message, reason. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/store_kind.h"
#include "sqlite/file.h"
#include "sqlite_write_dead_letters.sql.h"
#include "sqlite_find_present.sql.h"
#include "sqlite_gone.sql.h"
#include "sqlite_here.sql.h"
#include "sqlite_insert.sql.h"
#include "sqlite_put_cursor.sql.h"
#include "sqlite_read_cursors.sql.h"

#define STALL_MS  500 /* a batch takes about 20 ms */
#define WEEK_US   (INT64_C(7) * 86400 * 1000000)
#define BUSY_WARN 10 /* failed tries, half a second each, before a busy file is logged */

enum job {
	JOB_NONE,
	JOB_OPEN,
	JOB_INSERT,
	JOB_DEAD_LETTER,
	JOB_CHECKIN,
	JOB_PUT_CURSORS,
	JOB_READ_CURSORS,
	JOB_CLOSE,
};

/* The result of an event. */
struct fate {
	enum store_result result;
	bool has_row; /* dead letters: the event is stored */
	char *sender; /* name of the sender, on the heap, or NULL */
	char *why;    /* heap, or NULL */
};

struct store {
	const struct store_kind *kind; /* must be first: see store_kind.h */
	uv_loop_t *loop;
	struct store_callbacks on;
	const char *path;
	char *instance_id; /* for logs, without secrets; heap */
	enum job job;
	const struct batch *batch;
	int64_t sent_ms; /* loop clock */
	uv_work_t work;
	bool is_working; /* the job's thread is using the members from here down to why */
	struct sqlite_file *file;
	int64_t commits; /* commits to the file, as far as this process has seen */
	uint32_t epoch;  /* epoch of the file; 0: unknown */
	enum sqlite_result result;
	struct fate *fates;
	struct cursors cursors; /* cursors of the job, copied; when reading, only the sources */
	uint32_t cursors_epoch; /* epoch in which everything before them was stored; 0: any */
	char *text;             /* text of a check-in */
	int64_t number;         /* answer to the check-in */
	bool has_number;
	char why[SQLITE_FILE_WHY];
	atomic_bool is_leaving;
	bool was_open; /* the file has been opened once */
	uint32_t told_epoch;
	struct log_spell spell; /* errors of any statement */
	unsigned int busy;      /* consecutive tries that found the file locked */
	char trouble[SQLITE_FILE_WHY];
	struct backoff backoff;
	uv_timer_t retry;
	bool is_closing;
	struct ending ending;
};

/* --- on the thread: transactions --- */

static enum sqlite_result begin(struct store *s)
{
	enum sqlite_result result = sqlite_file_begin(s->file);

	if (result != SQLITE_FILE_FINE)
		return result;
	if (sqlite_file_commits(s->file) < s->commits)
		sqlite_file_begin_epoch(s->file, s->commits);
	s->epoch = sqlite_file_epoch(s->file);
	return SQLITE_FILE_FINE;
}

static enum sqlite_result commit(struct store *s)
{
	enum sqlite_result result = sqlite_file_commit(s->file);

	if (result == SQLITE_FILE_FINE)
		s->commits = sqlite_file_commits(s->file);
	return result;
}

/* --- on the thread: rows --- */

static bool take_present(void *arg, const struct sqlite_value *cells, int n)
{
	(void)cells, (void)n;
	*(bool *)arg = true;
	return false;
}

static enum sqlite_result find_present(struct store *s, const struct event *ev, bool *is_present)
{
	const struct sqlite_value id = sqlite_text(ev->id, ev->id_len);

	*is_present = false;
	return sqlite_file_run(s->file, SQL_SQLITE_FIND_PRESENT, &id, 1, take_present, is_present);
}

static void refuse_row(struct fate *fate, const char *why)
{
	fate->result = STORE_REFUSED;
	fate->why = memory_strdup(why);
}

/* A row that is not new exists, unless a trigger suppressed it: look in the table. */
static enum sqlite_result insert_row(struct store *s, const struct event *ev, struct fate *fate, const char *now)
{
	const char *source = fate->sender ? fate->sender : ev->source ? ev->source : ev->from;
	char received[SQLITE_TIME], happened[SQLITE_TIME];
	const struct sqlite_value values[] = {sqlite_text(ev->id, ev->id_len),
					      sqlite_text(ev->type, ev->type_len),
					      sqlite_text(ev->payload.at, ev->payload.len),
					      sqlite_text(now, strlen(now)),
					      sqlite_string(source && *source ? source : NULL),
					      sqlite_string(s->instance_id),
					      sqlite_time(ev->came_us, received),
					      ev->has_time ? sqlite_time(ev->time_us, happened) : sqlite_string(NULL)};
	enum sqlite_result result;
	bool is_present;

	result = sqlite_file_run(s->file, SQL_SQLITE_INSERT, values, 8, NULL, NULL);
	fate->result = STORE_INSERTED;
	if (result != SQLITE_FILE_FINE || sqlite_file_changed(s->file))
		return result;
	fate->result = STORE_PRESENT;
	result = find_present(s, ev, &is_present);
	if (result == SQLITE_FILE_FINE && !is_present)
		refuse_row(fate, "SQLite stored no row and raised no error: a trigger suppressed it");
	return result;
}

static enum sqlite_result dead_letter_row(struct store *s, const struct event *ev, struct fate *fate, const char *now)
{
	unsigned char digest[32] = {0};
	struct sqlite_value values[] = {sqlite_bytes((const char *)digest, 32),
					ev->id_len ? sqlite_text(ev->id, ev->id_len) : sqlite_string(NULL),
					sqlite_string(ev->reason),
					sqlite_bytes(ev->message, store_raw_len(ev)),
					sqlite_string(fate->sender),
					ev->source && ev->id_len ? sqlite_text(ev->type, ev->type_len)
								 : sqlite_string(NULL),
					sqlite_string(ev->source),
					sqlite_string(s->instance_id),
					sqlite_string(now)};
	enum sqlite_result result = SQLITE_FILE_FINE;

	if (ev->id_len)
		result = find_present(s, ev, &fate->has_row);
	if (result != SQLITE_FILE_FINE || fate->has_row)
		return result;
	event_digest(ev, digest);
	result = sqlite_file_run(s->file, SQL_SQLITE_WRITE_DEAD_LETTERS, values, 9, NULL, NULL);
	if (result == SQLITE_FILE_FINE && !sqlite_file_changed(s->file))
		refuse_row(fate, "a trigger suppressed one and raised no error");
	return result;
}

/* Rows that were refused stay out. If a row fails the whole transaction, refuse it and start again. */
static enum sqlite_result write_rows(struct store *s, const char *now)
{
	enum sqlite_result result = begin(s);

	for (size_t i = 0; i < s->batch->count && result == SQLITE_FILE_FINE; i++) {
		if (!s->fates[i].why)
			result = (s->job == JOB_INSERT ? insert_row : dead_letter_row)(s, s->batch->events[i],
										       &s->fates[i], now);
		if (result != SQLITE_FILE_REFUSED)
			continue;
		refuse_row(&s->fates[i], sqlite_file_why(s->file));
		result = SQLITE_FILE_FINE;
		if (sqlite_file_is_undone(s->file)) {
			result = begin(s);
			i = (size_t)-1;
		}
	}
	return result == SQLITE_FILE_FINE ? commit(s) : result;
}

/* --- on the thread: check-ins and cursors --- */

static bool take_number(void *arg, const struct sqlite_value *cells, int n)
{
	struct store *s = arg;

	(void)n;
	s->number = cells[0].number;
	s->has_number = true;
	return false;
}

static enum sqlite_result check_in(struct store *s, const char *now)
{
	char week_ago[SQLITE_TIME];
	const struct sqlite_value gone[] = {sqlite_string(s->text), sqlite_string(week_ago)},
				  here[] = {sqlite_string(s->text), sqlite_string(now)};
	enum sqlite_result result = begin(s);

	sqlite_time(clock_us(CLOCK_REALTIME) - WEEK_US, week_ago);
	if (result == SQLITE_FILE_FINE)
		result = sqlite_file_run(s->file, SQL_SQLITE_GONE, gone, 2, NULL, NULL);
	if (result == SQLITE_FILE_FINE)
		result = sqlite_file_run(s->file, SQL_SQLITE_HERE, here, 2, NULL, NULL);
	if (result == SQLITE_FILE_FINE)
		result = sqlite_file_run(s->file, "SELECT rows_deleted_s FROM wsonce_retention", NULL, 0, take_number,
					 s);
	return result == SQLITE_FILE_FINE ? commit(s) : result;
}

static struct sqlite_value text_or_null(struct slice text)
{
	return text.at ? sqlite_text(text.at, text.len) : sqlite_string(NULL);
}

static enum sqlite_result put_all_cursors(struct store *s, const char *now)
{
	enum sqlite_result result = begin(s);

	if (result == SQLITE_FILE_FINE && s->cursors_epoch && s->cursors_epoch != s->epoch)
		return commit(s);
	for (size_t i = 0; i < s->cursors.count && result == SQLITE_FILE_FINE; i++) {
		const struct cursor *c = &s->cursors.items[i].cursor;
		const struct sqlite_value values[] = {
			sqlite_string(c->source),   sqlite_string(c->scope),
			sqlite_string(c->kind),     sqlite_text(c->value.at, c->value.len),
			text_or_null(c->variables), sqlite_string(s->instance_id),
			sqlite_string(now)};

		result = sqlite_file_run(s->file, SQL_SQLITE_PUT_CURSOR, values, 7, NULL, NULL);
	}
	return result == SQLITE_FILE_FINE ? commit(s) : result;
}

static struct slice text_of(const struct sqlite_value *cell)
{
	return cell->type == SQLITE_FILE_NULL ? (struct slice){NULL, 0} : (struct slice){cell->at, cell->len};
}

static bool take_cursor(void *arg, const struct sqlite_value *cells, int n)
{
	struct store *s = arg;
	const struct cursor c = {.source = cells[0].at,
				 .scope = cells[1].at,
				 .value = text_of(&cells[2]),
				 .variables = text_of(&cells[3]),
				 .kind = ""};

	(void)n;
	cursors_put(&s->cursors, &c);
	s->cursors.items[s->cursors.count - 1].cursor.changed_s = cells[4].number;
	return true;
}

static enum sqlite_result read_all_cursors(struct store *s, const char *now)
{
	struct cursors asked = s->cursors;
	enum sqlite_result result = SQLITE_FILE_FINE;

	(void)now;
	s->cursors = (struct cursors){.items = NULL};
	for (size_t i = 0; i < asked.count && result == SQLITE_FILE_FINE; i++) {
		const struct sqlite_value source = sqlite_string(asked.items[i].cursor.source);

		result = sqlite_file_run(s->file, SQL_SQLITE_READ_CURSORS, &source, 1, take_cursor, s);
	}
	cursors_clear(&asked);
	return result;
}

/* --- on the thread: the job --- */

static void open_file(struct store *s)
{
	s->file = sqlite_file_open(s->path, !s->was_open, &s->is_leaving, &s->result, s->why);
}

typedef enum sqlite_result job_fn(struct store *s, const char *now);

/* After an error, do not reuse the connection: its cache may hold what could not be written. */
static void work(uv_work_t *request)
{
	static job_fn *const acts[] = {[JOB_INSERT] = write_rows,
				       [JOB_DEAD_LETTER] = write_rows,
				       [JOB_CHECKIN] = check_in,
				       [JOB_PUT_CURSORS] = put_all_cursors,
				       [JOB_READ_CURSORS] = read_all_cursors};
	struct store *s = request->data;
	char now[SQLITE_TIME];

	s->result = SQLITE_FILE_FINE;
	if (s->job == JOB_CLOSE) {
		sqlite_file_close(s->file);
		s->file = NULL;
		return;
	}
	if (!s->file)
		open_file(s);
	if (!s->file || s->job == JOB_OPEN)
		return;
	sqlite_time(clock_us(CLOCK_REALTIME), now);
	s->result = acts[s->job](s, now);
	if (s->result == SQLITE_FILE_FINE)
		return;
	snprintf(s->why, sizeof(s->why), "%s", sqlite_file_why(s->file));
	sqlite_file_roll_back(s->file);
	if (s->result == SQLITE_FILE_TROUBLE || s->result == SQLITE_FILE_WRONG) {
		sqlite_file_close(s->file);
		s->file = NULL;
	}
}

/* --- on the loop: outcomes --- */

static void on_worked(uv_work_t *request, int status);

static void start_work(struct store *s)
{
	s->is_working = true;
	uv_queue_work(s->loop, &s->work, work, on_worked);
}

static void on_retry(uv_timer_t *timer)
{
	start_work(timer->data);
}

/* Copies the senders' names before the job starts: a producer that leaves frees its name. */
static void keep_senders(struct store *s, const char *(*name)(const struct event *ev))
{
	for (size_t i = 0; i < s->batch->count; i++) {
		const char *sender = name(s->batch->events[i]);

		s->fates[i].sender = sender ? memory_strdup(sender) : NULL;
	}
}

static void forget_fates(struct store *s)
{
	for (size_t i = 0; i < s->batch->count; i++) {
		free(s->fates[i].sender);
		free(s->fates[i].why);
		s->fates[i] = (struct fate){.sender = NULL};
	}
}

static void retry_later(struct store *s)
{
	uint64_t wait = s->result == SQLITE_FILE_BUSY ? 0 : (uint64_t)backoff_next(&s->backoff, backoff_draw());

	s->busy = s->result == SQLITE_FILE_BUSY ? s->busy + 1 : 0;
	if (!s->busy || s->busy >= BUSY_WARN) {
		snprintf(s->trouble, sizeof(s->trouble), "%s", s->why);
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "sqlite error, will retry", s->why);
	}
	counters.store_retries += s->job == JOB_INSERT;
	for (size_t i = 0; s->job == JOB_INSERT && i < s->batch->count; i++) {
		free(s->fates[i].why);
		s->fates[i].why = NULL;
	}
	uv_timer_start(&s->retry, on_retry, wait, 0);
}

static void end_trouble(struct store *s)
{
	log_spell_off(&s->spell, (int64_t)uv_now(s->loop), "sqlite works again");
	s->busy = 0;
	*s->trouble = '\0';
	backoff_reset(&s->backoff);
}

/* The functions below end the job before the callbacks, which may start the next one. */

static void report_stored(struct store *s)
{
	const struct batch *b = s->batch;

	if (s->result != SQLITE_FILE_FINE) {
		retry_later(s);
		return;
	}
	counters.batches++;
	for (size_t i = 0; i < b->count; i++) {
		counters.rows_refused += s->fates[i].result == STORE_REFUSED;
		s->on.on_stored(s->on.arg, b->events[i], s->fates[i].result, s->fates[i].why);
	}
	forget_fates(s);
	s->job = JOB_NONE;
	if (s->on.on_idle)
		s->on.on_idle(s->on.arg);
}

static void report_dead_lettered(struct store *s)
{
	for (size_t i = 0; i < s->batch->count; i++) {
		const struct fate *fate = &s->fates[i];
		const char *why = s->result == SQLITE_FILE_FINE ? fate->why : s->why;

		if (why)
			log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "cannot write dead letters, will retry", why);
		s->on.on_dead_lettered(s->on.arg, s->batch->events[i],
				       why             ? STORE_NOT_DEAD_LETTERED
				       : fate->has_row ? STORE_HAS_ROW
						       : STORE_DEAD_LETTERED);
	}
	forget_fates(s);
	s->job = JOB_NONE;
}

static void report_checkin(struct store *s)
{
	bool is_told = s->result == SQLITE_FILE_FINE;
	char answer[24];

	snprintf(answer, sizeof(answer), "%lld", (long long)s->number);
	free(s->text);
	s->text = NULL;
	if (!is_told)
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "check-in lost", s->why);
	s->job = JOB_NONE;
	s->on.on_checked_in(s->on.arg, is_told, is_told && s->has_number ? answer : NULL);
}

static void report_put(struct store *s)
{
	bool is_stored = s->result == SQLITE_FILE_FINE;

	if (!is_stored)
		log_spell_on(&s->spell, (int64_t)uv_now(s->loop), "cannot store cursors, will retry", s->why);
	cursors_clear(&s->cursors);
	s->job = JOB_NONE;
	s->on.on_cursors_put(s->on.arg, is_stored);
}

static void report_read(struct store *s)
{
	bool is_read = s->result == SQLITE_FILE_FINE;

	for (size_t i = 0; is_read && i < s->cursors.count; i++)
		s->on.on_cursor_read(s->on.arg, &s->cursors.items[i].cursor, true);
	cursors_clear(&s->cursors);
	s->job = JOB_NONE;
	s->on.on_cursor_read(s->on.arg, NULL, is_read);
}

/* An error at the start ends the program, unless the file is busy or full. Later the cause may be fixed. */
static void report_open(struct store *s)
{
	if (s->result == SQLITE_FILE_FINE) {
		s->was_open = true;
		end_trouble(s);
		s->job = JOB_NONE;
		s->on.on_database(s->on.arg, sqlite_file_id(s->file));
	} else {
		if (!s->was_open && s->result == SQLITE_FILE_WRONG)
			s->on.on_unusable(s->on.arg, s->why, 2);
		retry_later(s);
	}
}

static void tell_epoch(struct store *s)
{
	if (s->epoch == s->told_epoch)
		return;
	if (s->told_epoch)
		log_warn("the file has lost commits, as after restoring a backup: asking sources for all messages "
			 "since",
			 "file=%s", s->path);
	s->told_epoch = s->epoch;
	s->on.on_epoch(s->on.arg, s->epoch);
}

static void close_file(struct store *s);

typedef void report_fn(struct store *s);

static void on_worked(uv_work_t *request, int status)
{
	static report_fn *const reports[] = {
		[JOB_OPEN] = report_open,
		[JOB_INSERT] = report_stored,
		[JOB_DEAD_LETTER] = report_dead_lettered,
		[JOB_CHECKIN] = report_checkin,
		[JOB_PUT_CURSORS] = report_put,
		[JOB_READ_CURSORS] = report_read,
	};
	struct store *s = request->data;

	(void)status;
	s->is_working = false;
	if (s->is_closing) {
		close_file(s);
		return;
	}
	if (s->result == SQLITE_FILE_FINE && s->job != JOB_OPEN)
		end_trouble(s);
	if (s->result == SQLITE_FILE_FINE)
		tell_epoch(s);
	if (s->result == SQLITE_FILE_BUSY && s->job != JOB_READ_CURSORS)
		retry_later(s); /* that is not an error */
	else
		reports[s->job](s);
}

/* --- on the loop: jobs --- */

static void start(struct store *s, enum job job)
{
	assert(s->job == JOB_NONE);
	s->job = job;
	s->sent_ms = (int64_t)uv_now(s->loop);
	start_work(s);
}

/* Returns NULL for events of a profile: their row names the profile. */
static const char *name_of_producer(const struct event *ev)
{
	return ev->source ? NULL : event_sender(ev);
}

static void insert(struct store *s, const struct batch *b)
{
	s->batch = b;
	keep_senders(s, name_of_producer);
	start(s, JOB_INSERT);
}

static void dead_letter(struct store *s, const struct batch *b)
{
	s->batch = b;
	keep_senders(s, event_sender);
	start(s, JOB_DEAD_LETTER);
}

static int checkin(struct store *s, const char *text)
{
	s->text = memory_strdup(text);
	s->has_number = false;
	start(s, JOB_CHECKIN);
	return 0;
}

static int put_cursors(struct store *s, const struct cursors *cursors, uint32_t epoch)
{
	s->cursors_epoch = epoch;
	for (size_t i = 0; i < cursors->count; i++)
		if (cursors->items[i].sent)
			cursors_put(&s->cursors, &cursors->items[i].cursor);
	start(s, JOB_PUT_CURSORS);
	return 0;
}

static int read_cursors(struct store *s, const char *const *sources, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cursors_put(&s->cursors, &(struct cursor){.source = sources[i], .scope = ""});
	start(s, JOB_READ_CURSORS);
	return 0;
}

/* --- on the loop: what the pipeline asks for --- */

/* A file that another process is writing is not an error. */
static struct store_view view(const struct store *s)
{
	bool is_late = (int64_t)uv_now(s->loop) - s->sent_ms > STALL_MS;

	return (struct store_view){
		.is_idle = s->job == JOB_NONE && !s->is_closing,
		.is_ready = s->was_open && !*s->trouble,
		.is_sent = s->is_working && (s->job == JOB_INSERT || s->job == JOB_DEAD_LETTER),
		.is_searching = s->busy > 0 && s->busy < BUSY_WARN,
		.is_stalled = s->job != JOB_NONE && (s->job == JOB_OPEN || is_late),
		.why = s->trouble,
		.trouble = *s->trouble          ? s->trouble
			   : s->job != JOB_NONE ? "the disk, or another process, takes long"
						: "",
		.hazards = "",
		.holder = "",
	};
}

/* --- life --- */

static struct store *open_store(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks)
{
	struct store *s = memory_calloc(1, sizeof(*s));

	s->kind = &store_sqlite;
	s->loop = loop;
	s->on = *callbacks;
	s->path = config_store_path(config);
	s->instance_id = memory_strdup(config->instance_id);
	if (!is_utf8(s->instance_id, strlen(s->instance_id)))
		make_ascii(s->instance_id);
	s->backoff = (struct backoff){.base_ms = 50, .cap_ms = 1000};
	s->fates = memory_calloc((size_t)config->batch_max, sizeof(*s->fates));
	s->work.data = s;
	uv_timer_init(loop, &s->retry);
	s->retry.data = s;
	start(s, JOB_OPEN);
	return s;
}

static void release(void *object)
{
	struct store *s = object;

	cursors_clear(&s->cursors);
	free(s->fates);
	free(s->instance_id);
	free(s->text);
	free(s);
}

/* Closing may wait for the disk: the last process that closes a file cleans up. */
static void close_file(struct store *s)
{
	if (s->batch && (s->job == JOB_INSERT || s->job == JOB_DEAD_LETTER))
		forget_fates(s);
	s->job = JOB_CLOSE;
	if (s->file)
		start_work(s);
	else
		ending_close(&s->ending, &s->retry);
}

static void close_store(struct store *s, void (*done)(void *arg), void *arg)
{
	s->is_closing = true;
	atomic_store(&s->is_leaving, true);
	ending_begin(&s->ending, 1, release, s, done, arg);
	uv_timer_stop(&s->retry);
	if (!s->is_working)
		close_file(s);
}

const struct store_kind store_sqlite = {
	.open = open_store,
	.view = view,
	.insert = insert,
	.dead_letter = dead_letter,
	.checkin = checkin,
	.put_cursors = put_cursors,
	.read_cursors = read_cursors,
	.close = close_store,
};
