/* letters.c owns the choice of dead letters and dead deliveries: what the filters of the commands mean. */
#include "commands/letters.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/deliveries.h"
#include "commands/dispatch.h"

#define PAGE       16     /* messages looked into at once: each may be as long as --max-message */
#define WALK       100000 /* ids in a page of a walk, */
#define WALK_TYPED 1000   /* if messages are looked into */

/* By id, so that the newest are found at the end of an index. */
#define CHOSEN \
	"SELECT id FROM :schema.dead_letters" \
	" WHERE ($1::bigint = 0 OR last_seen >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond')" \
	" AND ($2::bigint = 0 OR last_seen < timestamptz 'epoch' + $2::bigint * interval '1 microsecond')" \
	" AND ($3::text = '' OR pg_catalog.strpos(pg_catalog.lower(reason), pg_catalog.lower($3::text)) > 0)" \
	" AND CASE $4::text WHEN 'all' THEN true WHEN 'open' THEN " LETTERS_OPEN " ELSE NOT " LETTERS_OPEN " END" \
	" AND ($5::bigint[] IS NULL OR id = ANY($5::bigint[])) AND consumer = $6::text AND $7::text IS " \
	"NULL" LETTERS_BETWEEN

#define LITE_MOMENT(us) \
	"strftime('%Y-%m-%dT%H:%M:%S', CAST(" us " AS INTEGER) / 1000000, 'unixepoch') || printf('.%06dZ', CAST(" us \
	" AS INTEGER) % 1000000)"
#define LITE_CHOSEN \
	"SELECT id FROM dead_letters WHERE (?1 = '0' OR last_seen >= " LITE_MOMENT( \
		"?1") ") AND (?2 = '0' OR last_seen < " LITE_MOMENT("?2") ") AND (?3 = '' OR instr(lower(reason), " \
									  "lower(?3)) > 0) AND CASE ?4 WHEN 'all' " \
									  "THEN true" \
									  " WHEN 'open' THEN " LETTERS_OPEN \
									  " ELSE NOT " LETTERS_OPEN \
									  " END AND (?5 IS NULL OR id " \
									  "IN " LETTERS_LITE_IDS( \
										  "?5") ") AND consumer = ?6 AND ?7 " \
											"IS NULL AND id > CAST(?9 AS " \
											"INTEGER) AND id <= CAST(?10 " \
											"AS INTEGER)"
#define LITE_LIMIT " LIMIT coalesce(nullif(CAST(?8 AS INTEGER), 0), -1)"

static const struct letter_choice choice = {
	.lite_oldest_sql = LITE_CHOSEN " ORDER BY id" LITE_LIMIT,
	.lite_newest_sql = "SELECT id FROM (" LITE_CHOSEN " ORDER BY id DESC" LITE_LIMIT ") ORDER BY id",
	.lite_end_sql = "SELECT max(id) FROM dead_letters",
	.oldest_sql = LETTERS_OLDEST(CHOSEN),
	.newest_sql = LETTERS_NEWEST(CHOSEN),
	.end_sql = "SELECT pg_catalog.max(id) FROM :schema.dead_letters",
};

static const char sql_raw[] =
	"SELECT id, raw, event_type FROM :schema.dead_letters WHERE id = ANY($1::bigint[]) ORDER BY id";

static const char lite_raw[] =
	"SELECT id, raw, event_type FROM dead_letters WHERE id IN " LETTERS_LITE_IDS("?1") " ORDER BY id";

bool letters_is_choice(const struct letter_filter *filter, bool is_all, int word_count)
{
	return is_all || word_count || filter->since_us || filter->until_us || filter->type || filter->reason ||
	       filter->target;
}

const char *letters_check(const struct letter_filter *filter, char **words, int word_count)
{
	static _Thread_local char sentence[160];

	if (filter->target && !filter->is_deliveries)
		return "--target goes with --deliveries";
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

static void add_id(struct letter_ids *ids, int64_t id)
{
	if (ids->count == ids->size) {
		ids->size = ids->size ? ids->size * 2 : 256;
		ids->at = memory_realloc(ids->at, ids->size * sizeof(*ids->at));
	}
	ids->at[ids->count++] = id;
}

void letters_free(struct letter_ids *ids)
{
	free(ids->at);
	*ids = (struct letter_ids){NULL, 0, 0, 0};
}

char *letters_array(const struct letter_ids *ids, size_t first, size_t n)
{
	char *text = memory_alloc(n * 21 + 3), *at = text;

	*at++ = '{';
	for (size_t i = first; i < first + n; i++)
		at += sprintf(at, "%s%" PRId64, i == first ? "" : ",", ids->at[i]);
	memcpy(at, "}", 2);
	return text;
}

/* The ids that were given, as an array. */
static char *words_array(const struct letter_filter *filter)
{
	struct letter_ids given = {NULL, 0, 0, 0};
	char *text;

	for (int i = 0; i < filter->word_count; i++)
		add_id(&given, strtoll(filter->words[i], NULL, 10));
	text = letters_array(&given, 0, given.count);
	letters_free(&given);
	return text;
}

struct envelope *letters_type_reader(const struct config *config)
{
	char *pointer = config->type_pointer;
	const struct config_list list = {&pointer, 1};

	/* The type is read as if it were the id: the only member that must be there. */
	return envelope_new(&list, pointer, "");
}

struct slice letters_type(struct envelope *reader, const char *message, size_t len)
{
	struct envelope_view view;

	if (envelope_read(reader, message, len, &view))
		return (struct slice){"", 0};
	return view.id;
}

static bool has_type(struct envelope *reader, const struct pg_result *rows, size_t row, const char *type)
{
	bool is_it;
	struct slice found;
	size_t len;
	char *raw;

	if (!session_is_null(rows, row, 2))
		return strcmp(session_text(rows, row, 2), type) == 0;
	raw = session_bytes(rows, row, 1, &len);
	found = letters_type(reader, raw, len);
	is_it = found.len == strlen(type) && memcmp(found.at, type, found.len) == 0;
	free(raw);
	return is_it;
}

/* --- the type of letters, which is in their messages --- */

/* Keeps those of the rows that have the type, at the end of ids. */
static void keep_page(int64_t limit, const char *type, struct envelope *reader, const struct pg_result *rows,
		      struct letter_ids *ids)
{
	for (size_t i = 0; i < session_count(rows) && (int64_t)ids->count < limit; i++)
		if (has_type(reader, rows, i, type))
			ids->at[ids->count++] = session_number(rows, i, 0);
}

static int keep_type(struct session *s, int64_t limit, const char *type, struct envelope *reader,
		     struct letter_ids *ids)
{
	struct letter_ids kept = {ids->at, 0, ids->size, ids->looked_at};

	for (size_t i = 0; i < ids->count && (int64_t)kept.count < limit; i += PAGE) {
		char *array = letters_array(ids, i, ids->count - i < PAGE ? ids->count - i : PAGE);
		const char *values[] = {array};
		struct pg_result *rows;

		rows = session_ask_either(s, sql_raw, lite_raw, 1, values);
		free(array);
		if (!rows)
			return -1;
		keep_page(limit, type, reader, rows, &kept);
		session_drop(rows);
	}
	*ids = kept;
	return 0;
}

/* --- choosing --- */

static struct pg_result *ask_for_ids(struct session *s, const struct letter_choice *c, bool is_newest,
				     const char *const *values)
{
	if (session_is_file(s) && c->lite_oldest_sql)
		return session_ask_either(s, NULL, is_newest ? c->lite_newest_sql : c->lite_oldest_sql, 10, values);
	return session_ask(s, is_newest ? c->newest_sql : c->oldest_sql, 10, values);
}

/* Up to limit of those whose ids are above after and not above end; limit 0: all. */
static int select_ids(const struct letter_walk *w, int64_t limit, struct letter_ids *ids)
{
	const struct letter_filter *filter = &w->filter;
	const struct letter_choice *c = filter->is_deliveries ? &deliveries_choice : &choice;
	char since[24], until[24], most[24], after[24], end[24];
	const char *values[] = {since,
				until,
				filter->reason ? filter->reason : "",
				filter->state ? filter->state : "open",
				w->words,
				filter->is_deliveries ? filter->target : w->config->consumer,
				filter->is_deliveries ? filter->type : NULL,
				most,
				after,
				end};
	struct pg_result *rows;

	snprintf(since, sizeof(since), "%" PRId64, filter->since_us);
	snprintf(until, sizeof(until), "%" PRId64, filter->until_us);
	snprintf(most, sizeof(most), "%" PRId64, limit);
	snprintf(after, sizeof(after), "%" PRId64, w->after);
	snprintf(end, sizeof(end), "%" PRId64, w->end);
	rows = ask_for_ids(w->session, c, filter->newest, values);
	if (rows && filter->newest && session_count(rows) > (size_t)filter->newest)
		ids->looked_at = (size_t)filter->newest;
	for (size_t i = ids->looked_at > 0; rows && i < session_count(rows); i++)
		add_id(ids, session_number(rows, i, 0));
	session_drop(rows);
	return rows ? 0 : -1;
}

static void open_walk(struct letter_walk *w, struct session *s, const struct config *config,
		      const struct letter_filter *filter)
{
	*w = (struct letter_walk){.session = s, .config = config, .filter = *filter, .after = -1, .end = INT64_MAX};
	if (filter->word_count)
		w->words = words_array(filter);
	if (filter->type && !filter->is_deliveries)
		w->reader = letters_type_reader(config);
}

int letters_walk_on(struct letter_walk *w)
{
	int64_t limit = w->filter.limit, left = limit ? limit - w->found : INT64_MAX;
	int64_t page = w->words ? 0 : w->reader ? WALK_TYPED : left < WALK ? left : WALK;

	w->ids.count = 0;
	if (w->is_over)
		return 0;
	if (select_ids(w, page ? page : w->reader ? 0 : limit, &w->ids))
		return -1;
	w->is_over = !page || (int64_t)w->ids.count < page;
	if (w->ids.count)
		w->after = w->ids.at[w->ids.count - 1];
	if (w->reader && keep_type(w->session, left, w->filter.type, w->reader, &w->ids))
		return -1;
	w->found += (int64_t)w->ids.count;
	w->is_over = w->is_over || (limit && w->found == limit);
	return 0;
}

int letters_walk_begin(struct letter_walk *w, struct session *s, const struct config *config,
		       const struct letter_filter *filter)
{
	const struct letter_choice *c = filter->is_deliveries ? &deliveries_choice : &choice;
	struct pg_result *rows;

	open_walk(w, s, config, filter);
	rows = c->lite_end_sql ? session_ask_either(s, c->end_sql, c->lite_end_sql, 0, NULL)
			       : session_ask(s, c->end_sql, 0, NULL);
	if (!rows)
		return -1;
	w->end = session_number(rows, 0, 0);
	session_drop(rows);
	return letters_walk_on(w);
}

void letters_walk_end(struct letter_walk *w)
{
	envelope_free(w->reader);
	free(w->words);
	letters_free(&w->ids);
}

int letters_select(struct session *s, const struct config *config, const struct letter_filter *filter,
		   struct letter_ids *ids)
{
	struct letter_walk w;
	int result;

	open_walk(&w, s, config, filter);
	result = select_ids(&w, filter->newest ? filter->newest + 1 : 0, &w.ids) ? -1 : 0;
	if (!result && w.reader)
		result = keep_type(s, INT64_MAX, filter->type, w.reader, &w.ids);
	*ids = w.ids;
	w.ids = (struct letter_ids){NULL, 0, 0, 0};
	letters_walk_end(&w);
	if (result)
		letters_free(ids);
	return result;
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int letters_miss(const struct letter_filter *filter, const struct letter_ids *found)
{
	int missed = 0;

	for (int i = 0; i < filter->word_count; i++) {
		int64_t id = strtoll(filter->words[i], NULL, 10);

		if (found->count && bsearch(&id, found->at, found->count, sizeof(id), compare_ids))
			continue;
		dispatch_fail("%s: %s", filter->words[i],
			      filter->is_deliveries ? "there is no such dead delivery"
						    : "this fleet (see --consumer) has no such open dead letter");
		missed++;
	}
	return missed;
}
