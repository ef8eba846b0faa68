/* reading.c knows the sources that this listener dials: what beats say about them, which ones it reads with --readers,
 * and which connections are silent.
 *
 * What a listener knows about the others may be three seconds old, and others may know something else. So it reads a
 * source if any answer of the last ten seconds makes it a reader, or if it gets no answers. It closes its connection
 * only if each reader has just reported one that is five seconds old and brings messages, if there are any. Thus a
 * reader that fails costs one of its connections; tests/model/readers.pml has the proof. */
#include "fleet/reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/hash.h"
#include "base/memory.h"

#define FRESH_MS 2000  /* an answer that took longer is too old */
#define TURN_MS  10000 /* how long a turn counts, and how long a reader may be without a connection */
#define LOST_MS  5000  /* time without an answer before everybody reads */

#define QUICK_REDIALS    3              /* redials of a silent connection, each as soon as it is silent again */
#define REDIAL_MS        INT64_C(30000) /* then the wait until the next redial, doubled each time */
#define REDIAL_DOUBLINGS 4
#define AGAIN_MS         60000 /* a silence is a new one if the last redial is this much older than the wait */
#define TELL_MS          60000

/* A source or one of its lines. The lines of a source are consecutive. */
struct dialled {
	char *name;
	const char *events; /* the name in its events if it is another pointer; else NULL */
	uint64_t id;
	unsigned int line, lines; /* its number, from 0, and how many there are */
	uint64_t counted;         /* its messages so far */
	uint64_t brought;         /* first line only: messages of the source, by any line */
	bool may_lead;            /* the next beat reports it */
	bool is_ours;             /* it reads the source, with --readers */
	int64_t ours_ms;          /* when that was last confirmed */
	int64_t open_ms;          /* first line only: when a beat last found it well connected, or left to others */
	struct vigil vigil;
	bool is_silent;
	struct silence silence; /* the last silence */
	uint64_t messages;      /* messages when it started */
	uint64_t heard;         /* what others had heard before the last redial */
	int64_t told_ms;        /* when it was last logged; 0: never */
	int64_t redialled_ms;   /* 0: never */
};

struct readings {
	struct reading_owner owner; /* on_ask NULL: no owner */
	size_t readers;             /* readers per source; 0: all */
	uint64_t seed;
	bool has_known;
	int64_t known_ms; /* when the last answer was requested */
	size_t count;
	struct dialled items[];
};

/* --- names --- */

uint64_t readings_source_id(const char *url, const char *name)
{
	const char *host = strstr(url, "://");
	const char *path, *at;

	host = host ? host + 3 : url;
	path = host + strcspn(host, "/?#");
	at = memrchr(host, '@', (size_t)(path - host)); /* ignore user and password */
	return hash_text(url, (size_t)(host - url)) * 31 + hash_text(at ? at + 1 : host, strlen(at ? at + 1 : host)) +
	       (*name ? hash_mix(hash_text(name, strlen(name))) : 0);
}

/* Each shard is a source of its own, so that their leaders spread over the fleet. */
static void add_shards(struct readings *all, const struct profile *p)
{
	for (long long shard = 1; shard <= p->shard.most; shard++) {
		char *name = memory_printf("%s/%lld", p->name, shard);

		all->items[all->count++] =
			(struct dialled){.name = name, .id = readings_source_id(p->url, name), .lines = 1};
	}
}

static void add_feed(struct readings *all, const struct profile *p)
{
	if (p->shard.var) {
		add_shards(all, p);
		return;
	}
	for (unsigned int line = 0; line < p->lines; line++)
		all->items[all->count++] = (struct dialled){.name = memory_strdup(p->name),
							    .id = readings_source_id(p->url, p->name),
							    .line = line,
							    .lines = (unsigned int)p->lines};
}

/* The address counts, because two fleets on one Redis may use one name for different feeds. */
struct readings *readings_new(const struct config *c, const char *name, int64_t now_ms)
{
	struct readings *all = memory_calloc(1, sizeof(*all) + config_lines_most(c) * sizeof(all->items[0]));

	all->readers = (size_t)c->readers;
	all->seed = roster_reader_seed(name, strlen(name));
	all->known_ms = now_ms;
	for (size_t i = 0; i < c->sources.count; i++)
		all->items[all->count++] = (struct dialled){.name = config_source_in_rows(c, i),
							    .id = readings_source_id(config_source_url(c, i), ""),
							    .lines = 1};
	for (size_t i = 0; i < c->feed_count; i++)
		add_feed(all, c->feeds[i]);
	return all;
}

size_t readings_find(const struct readings *all, const char *name)
{
	for (size_t i = all->count; i-- > 0;)
		if (all->items[i].events == name || strcmp(all->items[i].name, name) == 0)
			return i - all->items[i].line;
	return all->count;
}

void readings_set_events(struct readings *all, size_t i, const char *name)
{
	all->items[i].events = name;
}

size_t readings_count(const struct readings *all)
{
	return all->count;
}

uint64_t readings_id(const struct readings *all, size_t i)
{
	return all->items[i].id;
}

/* --- what is said --- */

void readings_set_owner(struct readings *all, const struct reading_owner *owner)
{
	all->owner = owner ? *owner : (struct reading_owner){0};
}

bool readings_may_lead(struct readings *all, size_t i)
{
	all->items[i].may_lead = true;
	return all->owner.on_ask;
}

static struct reading ask(const struct readings *all, size_t i)
{
	return all->owner.on_ask(all->owner.arg, i);
}

/* Returns one reading for all lines of a source: any open connection, and the last message. It is doubted, or talks, if
 * each line that is connected does. */
static struct reading ask_lines(const struct readings *all, size_t first)
{
	struct reading both = {.is_doubted = true, .is_talking = true};

	for (size_t i = first; i < first + all->items[first].lines; i++) {
		const struct reading r = ask(all, i);

		if (r.open_ms && (!both.open_ms || r.open_ms < both.open_ms))
			both.open_ms = r.open_ms;
		if (r.last_ms > both.last_ms)
			both.last_ms = r.last_ms;
		both.is_doubted &= !r.open_ms || r.is_doubted;
		both.is_talking &= !r.open_ms || r.is_talking;
	}
	return both;
}

/* Returns the messages of the source so far, by the line that brings most. What one of several lines receives right
 * after it connects does not count: the others had it before. */
static uint64_t count(struct readings *all, size_t first, int64_t now_ms)
{
	struct dialled *d = &all->items[first];
	uint64_t most = 0;

	for (size_t k = 0; k < d->lines; k++) {
		const struct reading r = ask(all, first + k);
		uint64_t more = r.messages - d[k].counted;

		d[k].counted = r.messages;
		if (more > most && (d->lines == 1 || now_ms - r.open_ms >= LOST_MS))
			most = more;
	}
	return d->brought += most;
}

static struct heard describe(struct readings *all, size_t first, int64_t now_ms)
{
	struct dialled *d = &all->items[first];
	const struct reading r = ask_lines(all, first);
	int64_t proved_ms;
	bool is_heard = false;

	for (size_t k = 0; k < d->lines; k++)
		is_heard |= !d[k].is_silent;
	/* If connections keep ending, the waits between them are long. */
	proved_ms = now_ms - d->open_ms < TURN_MS ? LOST_MS : BACKOFF_GOOD_MS;
	if ((r.open_ms && !r.is_doubted && now_ms - r.open_ms >= proved_ms) || ask(all, first).is_standby)
		d->open_ms = now_ms;
	return (struct heard){
		.id = d->id,
		.may_lead = d->may_lead && is_heard,
		.is_dialled = true,
		.is_open = r.open_ms,
		.is_failing = now_ms - d->open_ms >= TURN_MS,
		.open_s = r.open_ms && !r.is_talking ? (now_ms - r.open_ms) / 1000 : 0,
		.messages = (uint32_t)count(all, first, now_ms),
		.quiet_ms = r.last_ms ? now_ms - r.last_ms : ROSTER_QUIET_MOST_MS,
	};
}

char *readings_write(struct readings *all, char *text, int64_t now_ms)
{
	for (size_t i = 0; all->owner.on_ask && i < all->count; i += all->items[i].lines) {
		const struct heard said = describe(all, i, now_ms);

		all->items[i].may_lead = false;
		if (ask(all, i).is_idle)
			continue;
		roster_write(text, &said);
		text += ROSTER_HEARD_SIZE;
	}
	return text;
}

/* --- turns --- */

static void set_turn(struct readings *all, size_t i, bool is_ours)
{
	struct dialled *d = &all->items[i];

	if (d->is_ours == is_ours)
		return;
	d->is_ours = is_ours;
	all->owner.on_turn(all->owner.arg, i, is_ours);
}

static void take_turn(struct readings *all, size_t i, int64_t now_ms)
{
	all->items[i].ours_ms = now_ms;
	set_turn(all, i, true);
}

/* Returns for how long our connections to a source have brought nothing. */
static int64_t quiet_ms(const struct readings *all, size_t i, int64_t now_ms)
{
	const struct reading r = ask_lines(all, i - all->items[i].line);

	return r.open_ms && r.last_ms ? now_ms - r.last_ms : INT64_MAX;
}

static void judge_turn(struct readings *all, size_t i, const struct roster *roster, int64_t asked_ms, int64_t now_ms,
		       bool is_able)
{
	const struct dialled *d = &all->items[i];

	if (roster_is_reader(roster, d->id, all->seed, all->readers, is_able))
		take_turn(all, i, now_ms);
	else if (d->is_ours && now_ms - asked_ms < FRESH_MS && now_ms - d->ours_ms >= TURN_MS &&
		 roster_is_read(roster, d->id, all->readers, quiet_ms(all, i, now_ms)))
		set_turn(all, i, false);
}

/* --- silence --- */

/* The first redials come at once. If the feed stays silent, the wait doubles each time. */
static int64_t redial_wait_ms(const struct dialled *d)
{
	unsigned int more = d->silence.redials - QUICK_REDIALS;

	return d->silence.redials < QUICK_REDIALS ? 0
						  : REDIAL_MS << (more < REDIAL_DOUBLINGS ? more : REDIAL_DOUBLINGS);
}

static void begin_silence(struct dialled *d, uint64_t messages, int64_t now_ms)
{
	/* Else this is the same silence, which the redial ended only for a while. */
	if (now_ms - d->redialled_ms > AGAIN_MS + redial_wait_ms(d))
		d->silence.redials = 0;
	d->silence.since_ms = d->vigil.since_ms;
	d->messages = messages;
	d->heard = 0;
	d->is_silent = true;
}

static void go_on_silent(struct readings *all, size_t i, int64_t now_ms)
{
	struct dialled *d = &all->items[i];
	struct silence *s = &d->silence;

	s->heard = d->heard + d->vigil.heard;
	s->is_redialled = now_ms - d->redialled_ms >= redial_wait_ms(d);
	s->is_told = !d->told_ms || now_ms - d->told_ms >= TELL_MS;
	if (s->is_told)
		d->told_ms = now_ms;
	if (s->is_redialled) {
		d->heard = s->heard;
		d->redialled_ms = now_ms;
		s->redials++;
	}
	if (s->is_redialled || s->is_told)
		all->owner.on_silent(all->owner.arg, i, s);
}

static void judge_silence(struct readings *all, size_t i, struct roster *roster, int64_t asked_ms, int64_t now_ms)
{
	struct dialled *d = &all->items[i];
	const struct reading r = ask(all, i);
	int64_t open_ms = r.is_paused || r.is_alone || r.is_talking ? 0 : r.open_ms;
	bool is_silent;

	d->vigil.beside = d->lines > 1 ? count(all, i - d->line, now_ms) : 0;
	is_silent = roster_is_silent(roster, d->id, &d->vigil, open_ms, r.last_ms, r.messages, asked_ms);

	if (is_silent && !d->is_silent)
		begin_silence(d, r.messages, now_ms);
	if (is_silent)
		go_on_silent(all, i, now_ms);
}

/* Call when the source has brought a message, or other listeners read it. */
static void end_silence(struct readings *all, size_t i)
{
	struct dialled *d = &all->items[i];
	bool is_left = all->readers && !d->is_ours;

	if (!d->is_silent || (!is_left && ask(all, i).messages == d->messages))
		return;
	d->is_silent = false;
	all->owner.on_silent(all->owner.arg, i, NULL);
}

const struct silence *readings_silence(const struct readings *all, size_t i)
{
	return all->items[i].is_silent ? &all->items[i].silence : NULL;
}

/* --- answers --- */

void readings_judge(struct readings *all, struct roster *roster, int64_t asked_ms, int64_t now_ms, bool is_able)
{
	if (!all->owner.on_ask)
		return;
	all->known_ms = asked_ms;
	all->has_known = true;
	for (size_t i = 0; i < all->count; i++) {
		if (all->readers)
			judge_turn(all, i, roster, asked_ms, now_ms, is_able);
		judge_silence(all, i, roster, asked_ms, now_ms);
	}
}

void readings_tick(struct readings *all, int64_t now_ms)
{
	bool is_lost = all->readers && now_ms - all->known_ms >= LOST_MS;

	if (!all->owner.on_ask)
		return;
	all->has_known |= is_lost;
	for (size_t i = 0; i < all->count; i++) {
		if (is_lost)
			take_turn(all, i, now_ms);
		end_silence(all, i);
	}
}

bool readings_know(const struct readings *all)
{
	return all->has_known;
}

void readings_free(struct readings *all)
{
	for (size_t i = 0; i < all->count; i++)
		free(all->items[i].name);
	free(all);
}
