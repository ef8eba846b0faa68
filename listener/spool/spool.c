/* spool.c counts the records on disk, and removes a segment when all its events have settled. A record's ordinal minus
 * the segment's first is its index. */
#include "spool/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/log_spell.h"
#include "base/memory.h"
#include "spool/disk.h"

#define UNDER_WAY_MOST (16u << 20) /* bytes given to the thread and not written yet */
#define RETRY_MS       5000        /* wait after a failed write or read */
#define IDLE_MS        1000        /* time without new records after which a settled segment ends */

static const char hung[] = "the disk does not answer";

struct spool_segment {
	struct list link;
	struct segment_head head;
	uint64_t bytes;
	uint64_t unsettled;     /* events that have not settled */
	uint64_t away;          /* unsettled events that are not in memory */
	uint64_t put_away;      /* events put away since it was last read from its start */
	unsigned char *is_away; /* a bit for each record */
	size_t room;            /* bytes of is_away */
	bool is_bad;            /* part of the segment could not be read */
};

struct spool {
	uv_loop_t *loop;
	struct disk *disk;
	uint64_t most;
	struct spool_callbacks on;
	struct list segments;         /* in order of their ordinals */
	struct spool_segment *active; /* the one being written, or NULL */
	uint64_t next;                /* the next ordinal */
	uint64_t bytes;               /* bytes of all segments */
	int64_t appended_ms;          /* loop clock */
	struct bytes buffer;          /* records not yet handed to the thread */
	size_t under_way;             /* bytes given to the thread and not written yet */
	int64_t answered_ms;          /* loop clock: when the thread last wrote, or got work */
	struct log_spell fails;
	int64_t retry_ms; /* loop clock: when to try to write again; 0: writing works */
	const char *reason;
	bool is_full;
	struct spool_segment *reading; /* the one read last, or NULL */
	bool is_reading;
	struct log_spell reads_fail;
	int64_t read_again_ms; /* loop clock: when to try to read again; 0: reading works */
	void (*synced)(void *arg);
	void *synced_arg;
	void (*closed)(void *arg);
	void *closed_arg;
};

/* --- segments --- */

static struct spool_segment *add_segment(struct spool *s, const struct segment_head *head, uint64_t bytes)
{
	struct spool_segment *g = memory_calloc(1, sizeof(*g));

	g->head = *head;
	g->bytes = bytes;
	s->bytes += bytes;
	list_append(&s->segments, &g->link);
	return g;
}

static void free_segment(struct spool *s, struct spool_segment *g)
{
	s->bytes -= g->bytes;
	s->reading = s->reading == g ? NULL : s->reading;
	list_remove(&g->link);
	free(g->is_away);
	free(g);
}

static void check_settled(struct spool *s, struct spool_segment *g)
{
	if (g->unsettled || g == s->active || (s->is_reading && g == s->reading))
		return;
	disk_ask(s->disk, &(const struct disk_job){.task = DISK_REMOVE, .head = g->head, .flag = g->is_bad});
	free_segment(s, g);
}

static void hand_over(struct spool *s)
{
	if (!s->buffer.len)
		return;
	s->answered_ms = s->under_way ? s->answered_ms : (int64_t)uv_now(s->loop);
	s->under_way += s->buffer.len;
	disk_ask(s->disk,
		 &(const struct disk_job){
			 .task = DISK_APPEND, .bytes = s->buffer.at, .len = s->buffer.len, .last = s->next - 1});
	s->buffer = (struct bytes){NULL, 0, 0};
}

static void end_active(struct spool *s)
{
	struct spool_segment *g = s->active;

	if (!g)
		return;
	hand_over(s);
	s->active = NULL;
	disk_ask(s->disk, &(const struct disk_job){.task = DISK_END, .head = g->head});
	check_settled(s, g);
}

static void set_away(struct spool_segment *g, uint64_t i)
{
	size_t room = g->room ? g->room : 64;

	while (i / 8 >= room)
		room *= 2;
	if (room > g->room) {
		g->is_away = memory_realloc(g->is_away, room);
		memset(g->is_away + g->room, 0, room - g->room);
		g->room = room;
	}
	g->is_away[i / 8] |= (unsigned char)(1 << i % 8);
	g->away++;
}

/* If the event is away, marks it as in memory and returns true. */
static bool take_back(struct spool_segment *g, uint64_t i)
{
	if (i / 8 >= g->room || !(g->is_away[i / 8] & 1 << i % 8))
		return false;
	g->is_away[i / 8] &= (unsigned char)~(1 << i % 8);
	g->away--;
	return true;
}

void spool_put_away(struct spool_segment *segment, uint64_t ordinal)
{
	set_away(segment, ordinal - segment->head.first);
	segment->put_away++;
}

void spool_settle(struct spool *s, struct spool_segment *segment)
{
	segment->unsettled--;
	check_settled(s, segment);
}

/* --- writing --- */

static int64_t now_ms(const struct spool *s)
{
	return (int64_t)uv_now(s->loop);
}

static bool is_hung(const struct spool *s)
{
	return s->under_way && now_ms(s) - s->answered_ms >= RETRY_MS;
}

bool spool_is_out(const struct spool *s)
{
	return s->is_full || now_ms(s) < s->retry_ms || is_hung(s);
}

static void check_full(struct spool *s)
{
	bool is_full = s->bytes >= (s->is_full ? s->most - s->most / 8 : s->most);

	if (is_full != s->is_full)
		log_write(is_full ? LOG_WARN : LOG_INFO,
			  is_full ? "the spool is full, events stay in memory only" : "the spool has room again",
			  "bytes=%llu limit=%llu", (unsigned long long)s->bytes, (unsigned long long)s->most);
	s->is_full = is_full;
}

bool spool_can_take(struct spool *s)
{
	check_full(s);
	/* After a failure one record shows whether the disk works. */
	return !spool_is_out(s) && s->buffer.len + s->under_way < (s->retry_ms ? 1 : UNDER_WAY_MOST);
}

static void begin_segment(struct spool *s, const struct record *r)
{
	struct segment_head head = {.first = s->next, .oldest_us = r->came_us};

	end_active(s);
	uv_random(NULL, NULL, &head.salt, sizeof(head.salt), 0, NULL);
	s->active = add_segment(s, &head, SEGMENT_HEAD);
	disk_ask(s->disk, &(const struct disk_job){.task = DISK_BEGIN, .head = head});
}

struct spool_segment *spool_append(struct spool *s, struct record *r)
{
	size_t size = record_size(r);
	struct spool_segment *g;

	/* A segment's first record must be its oldest: begin another segment if the clock was set back. */
	if (!s->active || s->active->bytes >= SEGMENT_MOST || s->active->bytes >= s->most / 8 ||
	    r->came_us < s->active->head.oldest_us)
		begin_segment(s, r);
	g = s->active;
	r->ordinal = s->next++;
	record_write(bytes_reserve(&s->buffer, size), r, g->head.salt);
	s->buffer.len += size;
	g->bytes += size;
	s->bytes += size;
	g->head.count++;
	g->unsettled++;
	s->appended_ms = now_ms(s);
	return g;
}

void spool_flush(struct spool *s)
{
	hand_over(s);
	if (s->active && !s->active->unsettled && !s->under_way && now_ms(s) - s->appended_ms >= IDLE_MS)
		end_active(s);
	check_full(s);
	if (is_hung(s) && now_ms(s) - s->fails.last_ms >= RETRY_MS)
		log_spell_on(&s->fails, now_ms(s), "cannot write to the spool, events stay in memory only", hung);
	else if (!s->retry_ms)
		log_spell_off(&s->fails, now_ms(s), "the spool can be written again");
	if (!s->read_again_ms)
		log_spell_off(&s->reads_fail, now_ms(s), "the spool can be read again");
}

/* Jobs queued after this one will fail, too. */
static void fail(struct spool *s, int error)
{
	s->retry_ms = now_ms(s) + RETRY_MS;
	s->reason = strerror(error);
	log_spell_on(&s->fails, now_ms(s), "cannot write to the spool, events stay in memory only", s->reason);
	end_active(s);
}

static void on_written(struct spool *s, const struct disk_job *j)
{
	s->under_way -= j->len;
	s->answered_ms = now_ms(s);
	if (j->error) {
		fail(s, j->error);
	} else if (j->task == DISK_APPEND && now_ms(s) >= s->retry_ms) {
		s->retry_ms = 0;
		s->reason = NULL;
	}
	if (j->task == DISK_APPEND)
		s->on.on_written(s->on.arg, j->last, !j->error);
	if (j->error == ENOENT || j->error == EIO || (j->error && j->task != DISK_APPEND && j->task != DISK_BEGIN))
		s->on.on_doubt(s->on.arg);
	if (j->flag) /* for spool_sync, not for the timer */
		s->synced(s->synced_arg);
}

void spool_sync(struct spool *s, void (*synced)(void *arg), void *arg)
{
	s->synced = synced;
	s->synced_arg = arg;
	hand_over(s);
	disk_ask(s->disk, &(const struct disk_job){.task = DISK_SYNC, .flag = true});
}

/* --- reading --- */

static struct spool_segment *first_away(const struct spool *s)
{
	list_each(node, after, &s->segments) {
		struct spool_segment *g = list_entry(node, struct spool_segment, link);

		if (g->away)
			return g;
	}
	return NULL;
}

void spool_read(struct spool *s, size_t bytes)
{
	bool is_again = !s->reading || !s->reading->away;

	if (s->is_reading || now_ms(s) < s->read_again_ms)
		return;
	if (is_again && !(s->reading = first_away(s)))
		return;
	if (is_again)
		s->reading->put_away = 0;
	s->is_reading = true;
	disk_ask(s->disk,
		 &(const struct disk_job){.task = DISK_READ, .head = s->reading->head, .len = bytes, .flag = is_again});
}

static void give_up(struct spool *s, struct spool_segment *g, const char *why)
{
	uint64_t lost = g->away;

	log_error("events of the spool cannot be read", "segment=%llu events=%llu reason=%s",
		  (unsigned long long)g->head.first, (unsigned long long)lost, why);
	g->is_bad = true;
	g->away = 0;
	g->unsettled -= lost;
	memset(g->is_away, 0, g->room);
	s->on.on_lost(s->on.arg, lost);
}

static void take_records(struct spool *s, struct spool_segment *g, const char *at, size_t len)
{
	struct record r;
	size_t size;

	while (len && record_read(at, len, g->head.salt, &r, &size) == RECORD_WHOLE) {
		at += size;
		len -= size;
		if (r.ordinal >= g->head.first && take_back(g, r.ordinal - g->head.first))
			s->on.on_record(s->on.arg, g, &r);
	}
}

static void on_read(struct spool *s, const struct disk_job *j)
{
	struct spool_segment *g = s->reading;

	if (j->wrong)
		log_warn("records of the spool are damaged, and were skipped", "segment=%llu places=%zu",
			 (unsigned long long)g->head.first, j->wrong);
	g->is_bad |= j->wrong != 0;
	take_records(s, g, j->bytes, j->len);
	/* After reading the whole file, events that are still away are not in it, unless some were put away meanwhile.
	 */
	if (j->error == ENOENT || (j->flag && g->away && !g->put_away)) {
		give_up(s, g, j->error ? strerror(j->error) : "they are damaged or missing");
	} else if (j->error) { /* try the other segments before this one */
		s->read_again_ms = now_ms(s) + RETRY_MS;
		log_spell_on(&s->reads_fail, now_ms(s), "cannot read the spool, events stay there", strerror(j->error));
		list_remove(&g->link);
		list_append(&s->segments, &g->link);
	}
	if (!j->error)
		s->read_again_ms = 0;
	s->reading = j->flag || j->error ? NULL : g;
	s->is_reading = false;
	check_settled(s, g);
}

/* --- life --- */

/* A segment of an earlier process: all its records are away. */
static void on_found(void *arg, const struct segment_head *head, uint64_t bytes)
{
	struct spool *s = arg;
	struct spool_segment *g;

	s->next = head->first + (head->count ? head->count : 1);
	if (!head->count)
		return;
	g = add_segment(s, head, bytes);
	for (uint64_t i = g->unsettled = head->count; i--;)
		set_away(g, i);
}

static void on_closed(struct spool *s)
{
	list_each(node, after, &s->segments)
		free_segment(s, list_entry(node, struct spool_segment, link));
	s->closed(s->closed_arg);
	bytes_free(&s->buffer);
	free(s);
}

static void on_done(void *arg, const struct disk_job *j)
{
	if ((((struct spool *)arg)->closed != NULL) != (j->task == DISK_CLOSE))
		return;
	if (j->task == DISK_CLOSE)
		on_closed(arg);
	else if (j->task == DISK_READ)
		on_read(arg, j);
	else if (j->task != DISK_REMOVE)
		on_written(arg, j);
}

struct spool *spool_open(uv_loop_t *loop, const char *dir, uint64_t most, int64_t sync_ms, char *error, size_t size)
{
	struct spool *s = memory_calloc(1, sizeof(*s));

	s->loop = loop;
	s->most = most;
	s->next = 1;
	list_init(&s->segments);
	s->disk = disk_open(loop, dir, sync_ms, on_done, on_found, s, error, size);
	if (!s->disk) {
		free(s);
		return NULL;
	}
	return s;
}

void spool_listen(struct spool *s, const struct spool_callbacks *on)
{
	s->on = *on;
}

struct spool_view spool_view(const struct spool *s)
{
	struct spool_view view = {.bytes = s->bytes,
				  .reason = s->is_full                ? "it is full"
					    : is_hung(s)              ? hung
					    : now_ms(s) < s->retry_ms ? s->reason
								      : NULL};

	list_each(node, after, &s->segments) {
		const struct spool_segment *g = list_entry(node, struct spool_segment, link);

		view.events += g->unsettled;
		view.away += g->away;
		if (g->unsettled && (!view.oldest_us || g->head.oldest_us < view.oldest_us))
			view.oldest_us = g->head.oldest_us;
	}
	return view;
}

void spool_close(struct spool *s, void (*closed)(void *arg), void *arg)
{
	s->closed = closed;
	s->closed_arg = arg;
	end_active(s);
	disk_ask(s->disk, &(const struct disk_job){.task = DISK_CLOSE});
}
