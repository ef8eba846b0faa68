/* dead_letter_walk.c owns the filter of the dead-letters commands: it turns options into pages of ids. */
#include "commands/dead_letters.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "dead_letters_find.sql.h"
#include "deliveries_find.sql.h"
#include "sqlite_dead_letters_find.sql.h"

#define MESSAGES 16     /* read at once: each may be as long as --max-message */
#define IDS      100000 /* in a page */
#define IDS_READ 1000   /* if their messages are read for the type */

/* The oldest and the newest of the ids that a statement finds. The planner takes a LIMIT that it does not know for a
 * small one (see lease.sql), and so reads no further than it must. */
#define OLDEST(find) find " ORDER BY id LIMIT nullif($8::bigint, 0)"
#define NEWEST(find) \
	"WITH wanted AS MATERIALIZED (SELECT 1 WHERE pg_catalog.set_config('wsonce.wanted', $8::text, true) <> '')" \
	" SELECT id FROM wanted, LATERAL (" find " ORDER BY id DESC LIMIT" \
	" coalesce(nullif(pg_catalog.current_setting('wsonce.wanted', true), ''), '1')::bigint) AS newest ORDER BY id"
#define LITE_OLDEST(find) find " ORDER BY id LIMIT coalesce(nullif(CAST(?8 AS INTEGER), 0), -1)"
#define LITE_NEWEST(find) \
	"SELECT id FROM (" find " ORDER BY id DESC LIMIT coalesce(nullif(CAST(?8 AS INTEGER), 0), -1)) ORDER BY id"

static const char *const find_sql[2][2] = {
	{OLDEST(SQL_DEAD_LETTERS_FIND), NEWEST(SQL_DEAD_LETTERS_FIND)},
	{OLDEST(SQL_DELIVERIES_FIND), NEWEST(SQL_DELIVERIES_FIND)},
};
static const char *const lite_find_sql[2] = {LITE_OLDEST(SQL_SQLITE_DEAD_LETTERS_FIND),
					     LITE_NEWEST(SQL_SQLITE_DEAD_LETTERS_FIND)};

const char *dead_letters_check(const struct dead_letter_filter *filter, char **words, int word_count)
{
	static _Thread_local char sentence[160];

	if (filter->target && !filter->is_deliveries)
		return "--target goes with --deliveries";
	if (filter->since_us && filter->until_us && filter->since_us >= filter->until_us)
		return "--since must be before --until; an age such as 7d is a time before now";
	for (int i = 0; i < word_count; i++) {
		size_t n = strspn(words[i], "0123456789");

		if (n && !words[i][n] && n < 19)
			continue;
		snprintf(sentence, sizeof(sentence), "\"%.80s\" is not the id of a dead %s, which is a number",
			 words[i], filter->is_deliveries ? "delivery" : "letter");
		return sentence;
	}
	return NULL;
}

/* --- ids --- */

static void add_id(struct dead_letter_ids *ids, int64_t id)
{
	if (ids->count == ids->size) {
		ids->size = ids->size ? ids->size * 2 : 256;
		ids->at = memory_realloc(ids->at, ids->size * sizeof(*ids->at));
	}
	ids->at[ids->count++] = id;
}

char *dead_letter_ids_array(const struct dead_letter_ids *ids, size_t first, size_t most)
{
	size_t end = ids->count - first < most ? ids->count : first + most;
	char *text = memory_alloc((end - first) * 21 + 3), *at = text;

	*at++ = '{';
	for (size_t i = first; i < end; i++)
		at += sprintf(at, "%s%" PRId64, i == first ? "" : ",", ids->at[i]);
	memcpy(at, "}", 2);
	return text;
}

static char *words_array(const struct dead_letter_filter *filter)
{
	struct dead_letter_ids given = {NULL, 0, 0};
	char *text;

	for (int i = 0; i < filter->word_count; i++)
		add_id(&given, strtoll(filter->words[i], NULL, 10));
	text = dead_letter_ids_array(&given, 0, given.count);
	free(given.at);
	return text;
}

/* --- the type of a letter, which is in its message --- */

struct envelope *dead_letters_type_reader(const struct config *config)
{
	char *pointer = config->type_pointer;
	const struct config_list list = {&pointer, 1};

	/* The type is read as if it were the id, the only member that must be there. */
	return envelope_new(&list, pointer, "");
}

struct slice dead_letters_type(struct envelope *reader, const char *message, size_t len)
{
	struct envelope_view view;

	return envelope_read(reader, message, len, &view) ? (struct slice){"", 0} : view.id;
}

static bool has_type(const struct dead_letter_walk *w, const struct pg_result *rows, size_t row)
{
	const char *type = w->filter.type;
	struct slice found;
	bool is_equal;
	size_t len;
	char *raw;

	if (!session_is_null(rows, row, 2))
		return strcmp(session_text(rows, row, 2), type) == 0;
	raw = session_bytes(rows, row, 1, &len);
	found = dead_letters_type(w->reader, raw, len);
	is_equal = found.len == strlen(type) && memcmp(found.at, type, found.len) == 0;
	free(raw);
	return is_equal;
}

/* Keeps those of the page that have the type, at most limit. */
static int keep_type(struct dead_letter_walk *w, int64_t limit)
{
	struct dead_letter_ids *ids = &w->ids;
	size_t kept = 0;

	for (size_t i = 0; i < ids->count && (int64_t)kept < limit; i += MESSAGES) {
		char *array = dead_letter_ids_array(ids, i, MESSAGES);
		struct pg_result *rows = session_ask_either(
			w->session,
			"SELECT id, raw, event_type FROM :schema.dead_letters WHERE id = ANY($1::bigint[]) ORDER BY id",
			"SELECT id, raw, event_type FROM dead_letters"
			" WHERE id IN (SELECT value FROM json_each('[' || trim(?1, '{}') || ']')) ORDER BY id",
			1, (const char *[]){array});

		free(array);
		if (!rows)
			return -1;
		for (size_t row = 0; row < session_count(rows) && (int64_t)kept < limit; row++)
			if (has_type(w, rows, row))
				ids->at[kept++] = session_number(rows, row, 0);
		session_drop(rows);
	}
	ids->count = kept;
	return 0;
}

/* --- pages --- */

/* Finds up to limit ids from w->after to w->end; limit 0: all. */
static int find(struct dead_letter_walk *w, int64_t limit)
{
	const struct dead_letter_filter *f = &w->filter;
	char since[24], until[24], most[24], after[24], end[24];
	const char *values[] = {since,
				until,
				f->reason ? f->reason : "",
				f->state ? f->state : "open",
				w->words,
				f->is_deliveries ? f->target : w->config->consumer,
				f->is_deliveries ? f->type : NULL,
				most,
				after,
				end};
	struct pg_result *rows;

	snprintf(since, sizeof(since), "%" PRId64, f->since_us);
	snprintf(until, sizeof(until), "%" PRId64, f->until_us);
	snprintf(most, sizeof(most), "%" PRId64, limit);
	snprintf(after, sizeof(after), "%" PRId64, w->after);
	snprintf(end, sizeof(end), "%" PRId64, w->end);
	rows = session_ask_either(w->session, find_sql[f->is_deliveries][f->newest > 0],
				  f->is_deliveries ? NULL : lite_find_sql[f->newest > 0], 10, values);
	w->ids.count = 0;
	w->looked_at = rows && f->newest && session_count(rows) > (size_t)f->newest ? (size_t)f->newest : 0;
	for (size_t i = w->looked_at > 0; rows && i < session_count(rows); i++)
		add_id(&w->ids, session_number(rows, i, 0));
	session_drop(rows);
	return rows ? 0 : -1;
}

int dead_letter_walk_next(struct dead_letter_walk *w)
{
	int64_t limit = w->filter.limit, left = limit ? limit - w->found : INT64_MAX;
	int64_t page = w->words || w->filter.is_one_page ? 0 : w->reader ? IDS_READ : left < IDS ? left : IDS;
	/* One more than the newest, to tell whether those are all. */
	int64_t most = page || w->reader ? page : limit;

	w->ids.count = 0;
	if (w->is_over)
		return 0;
	if (find(w, w->filter.newest ? w->filter.newest + 1 : most))
		return -1;
	w->is_over = !page || (int64_t)w->ids.count < page;
	if (w->ids.count)
		w->after = w->ids.at[w->ids.count - 1];
	if (w->reader && keep_type(w, left))
		return -1;
	w->found += (int64_t)w->ids.count;
	w->is_over = w->is_over || (limit && w->found == limit);
	return 0;
}

int dead_letter_walk_begin(struct dead_letter_walk *w, struct session *s, const struct config *config,
			   const struct dead_letter_filter *filter)
{
	bool is_deliveries = filter->is_deliveries;
	struct pg_result *rows;

	*w = (struct dead_letter_walk){.session = s, .config = config, .filter = *filter, .after = -1};
	if (filter->word_count)
		w->words = words_array(filter);
	if (filter->type && !is_deliveries)
		w->reader = dead_letters_type_reader(config);
	rows = session_ask_either(s,
				  is_deliveries ? "SELECT pg_catalog.max(id) FROM :schema.outbox"
						: "SELECT pg_catalog.max(id) FROM :schema.dead_letters",
				  is_deliveries ? NULL : "SELECT max(id) FROM dead_letters", 0, NULL);
	if (!rows)
		return -1;
	w->end = session_number(rows, 0, 0);
	session_drop(rows);
	return dead_letter_walk_next(w);
}

void dead_letter_walk_end(struct dead_letter_walk *w)
{
	envelope_free(w->reader);
	free(w->words);
	free(w->ids.at);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int dead_letter_walk_missed(const struct dead_letter_walk *w)
{
	bool is_deliveries = w->filter.is_deliveries;
	const char *state = w->filter.state ? w->filter.state : "open";
	int missed = 0;

	for (int i = 0; i < w->filter.word_count; i++) {
		const char *word = w->filter.words[i];
		int64_t id = strtoll(word, NULL, 10);

		if (w->ids.count && bsearch(&id, w->ids.at, w->ids.count, sizeof(id), compare_ids))
			continue;
		dispatch_fail(is_deliveries ? "%s: there is no such %s delivery"
					    : "%s: this fleet (see --consumer) has no such %s dead letter",
			      word, is_deliveries && strcmp(state, "open") == 0 ? "dead" : state);
		missed++;
	}
	return missed;
}
