/* roster.c keeps what is known about the listeners of a fleet. Only speed and order depend on it. */
#include "fleet/roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

#define MESSAGES_MOST 0x3fffffff /* after this, counts start at 0 again */
#define SILENT_MS     3000       /* how old a report may be */
#define SILENT_HEARD  10
#define SILENT_ROUNDS 3
#define ROUND_MS      900 /* least time between two rounds: beats are a second apart, or less while events wait */
#define SILENT_USUAL  5
#define SILENT_OPEN_S 5  /* a newer connection may still bring messages that others had before */
#define NONCE_LEN     18 /* a dot, 16 hex digits and @, at the end of a name */
#define PROVED_S      5  /* how old a reader's connection must be */

static bool is_named(const struct peer *p, const char *name, size_t len)
{
	return p->len == len && memcmp(p->name, name, len) == 0;
}

static void free_peer(struct peer *p)
{
	free(p->name);
	free(p->sources);
}

static size_t find_place(struct roster *r)
{
	size_t oldest = 0;

	if (r->count < ROSTER_MAX)
		return r->count++;
	for (size_t i = 1; i < r->count; i++)
		if (r->peers[i].met_ms < r->peers[oldest].met_ms)
			oldest = i;
	free_peer(&r->peers[oldest]);
	return oldest;
}

uint64_t roster_reader_seed(const char *name, size_t len)
{
	return hash_text(name, len > NONCE_LEN ? len - NONCE_LEN : len);
}

static size_t add(struct roster *r, const char *name, size_t len, int64_t now_ms)
{
	size_t at = find_place(r);

	r->peers[at] = (struct peer){.name = memory_printf("%.*s", (int)len, name),
				     .len = len,
				     .seed = hash_text(name, len),
				     .since_ms = now_ms,
				     .reader_seed = roster_reader_seed(name, len)};
	return at;
}

uint16_t roster_find(struct roster *r, const char *name, size_t len, int64_t now_ms)
{
	size_t at = 0;

	if (!len || len > ROSTER_NAME_MAX || memchr(name, '\0', len))
		return 0;
	while (at < r->count && !is_named(&r->peers[at], name, len))
		at++;
	if (at == r->count)
		at = add(r, name, len, now_ms);
	r->peers[at].met_ms = now_ms;
	return (uint16_t)(at + 1);
}

struct peer *roster_peer(struct roster *r, uint16_t number)
{
	return number && number <= r->count ? &r->peers[number - 1] : NULL;
}

/* --- what they say --- */

/* A stranger may write a long report under a new name each second, so those of the dead are not kept. */
void roster_begin(struct roster *r)
{
	for (struct peer *p = r->peers; p < r->peers + r->count; p++) {
		if (!p->is_alive) {
			free(p->sources);
			p->sources = NULL;
			p->source_count = 0;
		}
		p->is_alive = false;
	}
}

/* Numbers are written with 6 bits per digit. */
static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

enum { ID_DIGITS = 11, MESSAGE_DIGITS = 5, QUIET_DIGITS = 3 };
enum { MAY_LEAD = 1, IS_DIALLED = 2, IS_OPEN = 4, IS_FAILING = 8 };

static uint64_t read_digits(const char **at, int n)
{
	uint64_t value = 0;

	for (; n; n--) {
		const char *digit = strchr(digits, *(*at)++);

		value = value << 6 | (digit ? (uint64_t)(digit - digits) & 63 : 0);
	}
	return value;
}

static void write_digits(char **at, int n, uint64_t value)
{
	for (int i = n; i-- > 0; value >>= 6)
		(*at)[i] = digits[value & 63];
	*at += n;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void roster_write(char *text, const struct heard *s)
{
	write_digits(&text, ID_DIGITS, s->id);
	write_digits(&text, 1,
		     (s->may_lead ? MAY_LEAD : 0) | (s->is_dialled ? IS_DIALLED : 0) | (s->is_open ? IS_OPEN : 0) |
			     (s->is_failing ? IS_FAILING : 0));
	write_digits(&text, 1, (uint64_t)least(s->open_s, ROSTER_OPEN_MOST_S));
	write_digits(&text, MESSAGE_DIGITS, s->messages);
	write_digits(&text, QUIET_DIGITS, (uint64_t)least(s->quiet_ms, ROSTER_QUIET_MOST_MS) / 100);
}

static void read_source(struct heard *s, const char *at)
{
	uint64_t id = read_digits(&at, ID_DIGITS), flags = read_digits(&at, 1);

	*s = (struct heard){
		.id = id, .may_lead = flags & MAY_LEAD, .is_dialled = flags & IS_DIALLED, .is_open = flags & IS_OPEN};
	s->is_failing = flags & IS_FAILING;
	s->open_s = (int64_t)read_digits(&at, 1);
	s->messages = (uint32_t)read_digits(&at, MESSAGE_DIGITS);
	s->quiet_ms = (int64_t)read_digits(&at, QUIET_DIGITS) * 100;
}

/* Searches by id, which is the first member. */
struct heard *roster_source(const struct peer *p, uint64_t id)
{
	return p->source_count ? bsearch(&id, p->sources, p->source_count, sizeof(*p->sources), hash_compare) : NULL;
}

static void add_ahead(struct heard *now, const struct heard *before)
{
	uint32_t more = before ? (now->messages - before->messages) & MESSAGES_MOST : 0;

	now->ahead = before ? before->ahead : 0;
	/* If there seem to be more, the counter was reset. */
	if (more <= MESSAGES_MOST / 2 && now->open_s >= SILENT_OPEN_S)
		now->ahead += more;
}

static void read_sources(struct peer *p, const char *at, const char *end)
{
	const struct peer before = *p;

	at += at < end; /* the blank */
	p->source_count = (size_t)(end - at) / ROSTER_HEARD_SIZE;
	p->sources = memory_calloc(p->source_count + 1, sizeof(*p->sources));
	for (size_t i = 0; i < p->source_count; i++, at += ROSTER_HEARD_SIZE) {
		read_source(&p->sources[i], at);
		add_ahead(&p->sources[i], roster_source(&before, p->sources[i].id));
	}
	free(before.sources);
	qsort(p->sources, p->source_count, sizeof(*p->sources), hash_compare);
}

/* What precedes the sources in a report. */
struct head {
	char client[40];
	char database[40];
	char state;
	const char *sources, *end;
};

static bool read_head(struct head *h, const char *said, size_t len)
{
	int used = 0;

	*h = (struct head){.end = memchr(said, '\n', len)};
	if (!h->end)
		return false;
	sscanf(said, "2 %39s %c %39s %*39s%n", h->client, &h->state, h->database, &used);
	h->sources = said + used;
	return used && h->sources <= h->end;
}

void roster_note(struct roster *r, const char *name, size_t name_len, const char *said, size_t len, int64_t now_ms)
{
	struct peer *p = roster_peer(r, roster_find(r, name, name_len, now_ms));
	struct head head;

	if (!p)
		return;
	p->is_alive = true;
	p->state = PEER_WORKING;
	if (!read_head(&head, said, len)) {
		*p->client = '\0';
		p->source_count = 0;
		return;
	}
	memcpy(p->client, head.client, sizeof(p->client));
	p->state = head.state == 'd' ? PEER_DRAINING : head.state == 'p' ? PEER_PASSIVE : PEER_WORKING;
	if (head.end + 1 == said + len) /* it has no trouble */
		p->unable_ms = 0;
	else if (!p->unable_ms)
		p->unable_ms = now_ms;
	read_sources(p, head.sources, head.end);
}

bool roster_other_database(const char *said, size_t len, const char *ours, char found[40])
{
	struct head head;
	bool is_other = read_head(&head, said, len) && *head.database && strcmp(head.database, "-") != 0 &&
			strcmp(head.database, ours) != 0;

	memcpy(found, is_other ? head.database : (char[40]){""}, sizeof(head.database));
	return is_other && head.state == 'd';
}

bool roster_has_trouble(const struct roster *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->peers[i].is_alive && r->peers[i].unable_ms)
			return true;
	return false;
}

size_t roster_alive(const struct roster *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += r->peers[i].is_alive;
	return n;
}

/* --- who leads --- */

static bool may_lead(const struct peer *p, uint64_t source, int64_t now_ms)
{
	bool is_suspect = p->suspect_ms && now_ms - p->suspect_ms < ROSTER_SUSPECT_MS;
	const struct heard *s = roster_source(p, source);

	return p->is_alive && p->state == PEER_WORKING && !is_suspect && s && s->may_lead;
}

struct peer *roster_leader(struct roster *r, uint64_t source, uint64_t own_seed, int64_t now_ms)
{
	uint64_t most = hash_score(own_seed, source);
	struct peer *leader = NULL;

	for (size_t i = 0; i < r->count; i++)
		if (hash_score(r->peers[i].seed, source) > most && may_lead(&r->peers[i], source, now_ms)) {
			leader = &r->peers[i];
			most = hash_score(leader->seed, source);
		}
	return leader;
}

/* --- readers --- */

static const struct heard *source_of_reader(const struct peer *p, uint64_t source)
{
	const struct heard *s = p->is_alive && p->state != PEER_DRAINING ? roster_source(p, source) : NULL;

	return s && s->is_dialled ? s : NULL;
}

bool roster_has_able(const struct roster *r, uint64_t source)
{
	for (size_t i = 0; i < r->count; i++)
		if (!r->peers[i].unable_ms && source_of_reader(&r->peers[i], source))
			return true;
	return false;
}

/* True if it has not been able to store for long. A peer is noted again each second. */
static bool is_unable(const struct peer *p)
{
	return p->unable_ms && p->met_ms - p->unable_ms >= ROSTER_UNABLE_MS;
}

bool roster_is_reader(const struct roster *r, uint64_t source, uint64_t reader_seed, size_t readers, bool is_able)
{
	uint64_t own = hash_score(reader_seed, source);
	size_t before = 0, failing = 0;

	for (size_t i = 0; i < r->count && before < 2 * readers; i++) {
		const struct heard *s = source_of_reader(&r->peers[i], source);

		if (!s || hash_score(r->peers[i].reader_seed, source) <= own || (is_able && is_unable(&r->peers[i])))
			continue;
		before++;
		failing += s->is_failing;
	}
	return before < readers + (failing < readers ? failing : readers);
}

static bool reads_well(const struct heard *s, int64_t quiet_ms)
{
	int64_t open_ms = s->open_s * 1000;

	return s->is_open && s->open_s >= PROVED_S && (s->quiet_ms < open_ms || quiet_ms >= open_ms);
}

bool roster_is_read(const struct roster *r, uint64_t source, size_t readers, int64_t quiet_ms)
{
	size_t failing = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct heard *s = source_of_reader(&r->peers[i], source);

		if (!s || reads_well(s, quiet_ms) ||
		    !roster_is_reader(r, source, r->peers[i].reader_seed, readers, !is_unable(&r->peers[i])))
			continue;
		if (!s->is_failing || failing++ == readers)
			return false;
	}
	return true;
}

/* --- silence --- */

/* Starts to count what others hear. */
static void level(struct roster *r, uint64_t source)
{
	for (size_t i = 0; i < r->count; i++) {
		struct heard *s = roster_source(&r->peers[i], source);

		if (s)
			s->ahead = 0;
	}
}

static uint32_t most_ahead(const struct roster *r, uint64_t source)
{
	uint32_t most = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct heard *s = r->peers[i].is_alive ? roster_source(&r->peers[i], source) : NULL;

		if (s && s->ahead > most)
			most = s->ahead;
	}
	return most;
}

/* Measures the interval of messages since the last answer. The connection was opened at open_ms. */
static void note_interval(struct vigil *v, int64_t open_ms, int64_t last_ms, uint64_t messages)
{
	int64_t from_ms = v->since_ms > open_ms ? v->since_ms : open_ms, interval;

	if (messages > v->messages && last_ms > from_ms) {
		interval = (last_ms - from_ms) / (int64_t)(messages - v->messages);
		v->usual_ms += v->usual_ms ? (interval - v->usual_ms) / 8 : interval;
	}
	v->messages = messages;
}

/* Reports are up to three seconds old, and count only if all are newer than our last message. */
bool roster_is_silent(struct roster *r, uint64_t source, struct vigil *v, int64_t open_ms, int64_t last_ms,
		      uint64_t messages, int64_t asked_ms)
{
	int64_t since_ms = open_ms && last_ms > open_ms ? last_ms : open_ms;
	uint32_t heard;

	note_interval(v, open_ms, last_ms, messages);
	if (since_ms != v->since_ms)
		v->is_counting = false;
	v->since_ms = since_ms;
	if (!v->is_counting) {
		level(r, source);
		v->heard = v->rounds = 0;
		v->began = v->beside;
		v->is_counting = since_ms && asked_ms - since_ms >= SILENT_MS;
		return false;
	}
	heard = most_ahead(r, source);
	if (v->beside - v->began > heard)
		heard = (uint32_t)(v->beside - v->began);
	if (heard > v->heard && asked_ms - v->round_ms >= ROUND_MS) {
		v->rounds++;
		v->round_ms = asked_ms;
	}
	v->heard = heard;
	return heard >= SILENT_HEARD && v->rounds >= SILENT_ROUNDS && asked_ms - since_ms >= SILENT_USUAL * v->usual_ms;
}

void roster_free(struct roster *r)
{
	for (size_t i = 0; i < r->count; i++)
		free_peer(&r->peers[i]);
}
