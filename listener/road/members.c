/* members.c owns the knowledge of who else hears the same feeds while there is no Redis to tell: each listener names
 * its session in Postgres after its fleet and itself, and asks for the names of the others, every second or, in a large
 * fleet, two. What follows from it is turns.c's and pipeline_claim.c's business, and nothing but speed depends on it: a
 * name too many costs events that are left to it some waiting, a name too few statements. */
#include "road/members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "road/fleet.h"

#define FIRST_ANSWERS 2    /* who starts with others asks a second time soon, */
#define SOON_MS       100  /* when they have asked as well; */
#define ALL_ANSWERS   6    /* who has lost Redis may have been told of it by a timeout, and others by another */
#define ASK_MS        1000 /* between two questions, or so many for each listener: fifty a second in all, */
#define ASK_EACH_MS   20   /* until the most is reached */
#define ASK_MOST_MS   2000
#define QUIET_MS      5000 /* without a message: after that the others need leave none to this listener */
#define HEAD          24   /* "wsonce <fleet> ", as in sql/queries/members.sql */
#define NOBODY        "wsonce"

static uint64_t hash_of(const char *text)
{
	return hash_mix(hash_text(text, strlen(text)));
}

/* Those with other feeds, another prefix or database, or whose rows are marks of a consumer, do not store these events.
 */
static void make_name(struct members *m, const char *database)
{
	const struct config *c = m->config;
	uint64_t fleet = hash_of(database) + 3 * hash_of(c->claim_prefix) + 5 * hash_of(c->consumer);

	for (size_t i = 0; i < c->sources.count; i++)
		fleet += hash_mix(fleet_source_id(config_source_url(c, i), "")); /* in whatever order */
	for (size_t i = 0; i < c->feed_count; i++)
		fleet += hash_mix(fleet_source_id(c->feeds[i]->url, c->feeds[i]->name));
	snprintf(m->name, sizeof(m->name), NOBODY " %016" PRIx64 " %016" PRIx64, hash_mix(fleet), m->seed);
}

void members_init(struct members *m, const struct config *config, const char *name)
{
	*m = (struct members){.config = config, .seed = hash_text(name, strlen(name))};
	make_name(m, "");
}

void members_set_database(struct members *m, const char *id)
{
	make_name(m, id);
}

void members_hear(struct members *m, int64_t now_ms)
{
	m->heard_ms = now_ms;
}

void members_forget(struct members *m)
{
	m->heard_ms = 0;
	m->answers = 0;
}

static int64_t pace_ms(const struct members *m)
{
	int64_t ms = ASK_EACH_MS * ((int64_t)m->count + 1);

	if (m->answers && m->answers < FIRST_ANSWERS)
		return SOON_MS;
	return ms < ASK_MS ? ASK_MS : ms > ASK_MOST_MS ? ASK_MOST_MS : ms;
}

int64_t members_wait(const struct members *m, int64_t now_ms)
{
	int64_t due_ms = m->asked_ms + pace_ms(m);

	if (m->is_asked || (!m->heard_ms && !m->is_named))
		return -1;
	return !m->asked_ms || due_ms <= now_ms ? 0 : due_ms - now_ms;
}

const char *members_asked(struct members *m, int64_t now_ms)
{
	if (m->heard_ms && now_ms - m->heard_ms > QUIET_MS)
		members_forget(m);
	m->is_named = m->heard_ms;
	m->asked_ms = now_ms;
	m->is_asked = true;
	m->found_count = 0;
	return m->is_named ? m->name : NOBODY;
}

void members_found(struct members *m, const char *name, size_t len)
{
	char text[MEMBERS_NAME];

	if (len != strlen(m->name) || memcmp(name, m->name, HEAD) != 0 || m->found_count == MEMBERS_MAX)
		return;
	memcpy(text, name, len);
	text[len] = '\0';
	m->found[m->found_count++] = strtoull(text + HEAD, NULL, 16);
}

void members_answered(struct members *m, bool is_told)
{
	m->is_asked = false;
	if (!is_told || !m->is_named || !m->heard_ms) {
		m->answers = 0;
		return;
	}
	memcpy(m->others, m->found, m->found_count * sizeof(*m->others));
	m->count = m->found_count;
	m->answers += m->answers < ALL_ANSWERS;
}

bool members_are_told(const struct members *m)
{
	return m->answers;
}

bool members_are_all(const struct members *m)
{
	return m->answers >= ALL_ANSWERS;
}

size_t members_size(const struct members *m)
{
	return m->answers ? m->count : 0;
}

size_t members_rank(const struct members *m, const char *id, size_t len)
{
	return m->answers ? fleet_rank_among(m->others, m->count, m->seed, id, len) : 0;
}
