/* letters.c owns the choice of dead letters and dead deliveries: what the filters of the commands mean. */
#include "commands/letters.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/deliveries.h"
#include "commands/dispatch.h"

#define PAGE "16" /* messages looked into at once: each may be as long as --max-message */

static const char sql_select[] =
	"SELECT id, CASE WHEN $8::text = '' THEN NULL ELSE raw END FROM :schema.dead_letters"
	" WHERE id > $1::bigint"
	" AND ($2::bigint = 0 OR last_seen >= timestamptz 'epoch' + $2::bigint * interval '1 microsecond')"
	" AND ($3::bigint = 0 OR last_seen < timestamptz 'epoch' + $3::bigint * interval '1 microsecond')"
	" AND ($4::text = '' OR pg_catalog.strpos(pg_catalog.lower(reason), pg_catalog.lower($4::text)) > 0)"
	" AND CASE $5::text WHEN 'all' THEN true WHEN 'open' THEN " LETTERS_OPEN " ELSE NOT " LETTERS_OPEN " END"
	" AND ($6::bigint[] IS NULL OR id = ANY($6::bigint[])) AND consumer = $9::text"
	" ORDER BY id LIMIT nullif($7::bigint, 0)";

bool letters_is_choice(const struct letter_filter *filter, bool is_all, int word_count)
{
	return is_all || word_count || filter->since_us || filter->until_us || filter->type || filter->reason ||
	       filter->target;
}

const char *letters_check(const struct letter_filter *filter, char **words, int word_count)
{
	static char sentence[160];

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

static int add_id(struct letter_ids *ids, int64_t id)
{
	if (ids->count == ids->size) {
		size_t size = ids->size ? ids->size * 2 : 256;
		int64_t *at = realloc(ids->at, size * sizeof(*at));

		if (!at)
			return dispatch_fail("out of memory");
		ids->at = at;
		ids->size = size;
	}
	ids->at[ids->count++] = id;
	return 0;
}

void letters_free(struct letter_ids *ids)
{
	free(ids->at);
	*ids = (struct letter_ids){NULL, 0, 0};
}

char *letters_array(const struct letter_ids *ids, size_t first, size_t n)
{
	char *text = malloc(n * 21 + 3), *at = text;

	if (!text)
		return NULL;
	*at++ = '{';
	for (size_t i = first; i < first + n; i++)
		at += sprintf(at, "%s%" PRId64, i == first ? "" : ",", ids->at[i]);
	memcpy(at, "}", 2);
	return text;
}

/* The ids that were given, as an array; NULL after saying that memory is out. */
static char *words_array(const struct letter_filter *filter)
{
	struct letter_ids given = {NULL, 0, 0};
	char *text = NULL;
	int failed = 0;

	for (int i = 0; i < filter->word_count && !failed; i++)
		failed = add_id(&given, strtoll(filter->words[i], NULL, 10));
	if (!failed && !(text = letters_array(&given, 0, given.count)))
		dispatch_fail("out of memory");
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
	size_t len;
	char *raw = session_bytes(rows, row, 1, &len);
	struct slice found = raw ? letters_type(reader, raw, len) : (struct slice){"", 0};
	bool is_it = found.len == strlen(type) && memcmp(found.at, type, found.len) == 0;

	free(raw);
	return is_it;
}

/* Takes what fits from a page; returns whether there may be more. */
static int take_page(const struct letter_filter *filter, struct envelope *reader, const struct pg_result *rows,
		     struct letter_ids *ids)
{
	for (size_t i = 0; i < session_count(rows); i++) {
		if (filter->limit && ids->count == (size_t)filter->limit)
			return 0;
		if (reader && !has_type(reader, rows, i, filter->type))
			continue;
		if (add_id(ids, session_number(rows, i, 0)))
			return -1;
	}
	return reader && session_count(rows) > 0;
}

static int select_pages(struct session *s, const struct config *config, const struct letter_filter *filter,
			struct envelope *reader, const char *words, struct letter_ids *ids)
{
	const char *sql = filter->is_deliveries ? deliveries_select_sql : sql_select;
	char last[24] = "0", since[24], until[24], limit[24];
	const char *values[] = {last,
				since,
				until,
				filter->reason ? filter->reason : "",
				filter->state ? filter->state : "open",
				words,
				reader ? PAGE : limit,
				reader ? "raw" : "",
				filter->is_deliveries ? filter->target : config->consumer,
				filter->type};
	int more = 1;

	snprintf(since, sizeof(since), "%" PRId64, filter->since_us);
	snprintf(until, sizeof(until), "%" PRId64, filter->until_us);
	snprintf(limit, sizeof(limit), "%" PRId64, filter->limit);
	while (more > 0) {
		struct pg_result *rows = session_ask(s, sql, filter->is_deliveries ? 10 : 9, values);

		if (!rows)
			return -1;
		if (session_count(rows))
			snprintf(last, sizeof(last), "%s", session_text(rows, session_count(rows) - 1, 0));
		more = take_page(filter, reader, rows, ids);
		session_drop(rows);
	}
	return more;
}

/* The type of a letter is in its message; a delivery has a column of it. */
int letters_select(struct session *s, const struct config *config, const struct letter_filter *filter,
		   struct letter_ids *ids)
{
	bool needs_reader = filter->type && !filter->is_deliveries;
	struct envelope *reader = needs_reader ? letters_type_reader(config) : NULL;
	char *words = filter->word_count ? words_array(filter) : NULL;
	int result = -1;

	*ids = (struct letter_ids){NULL, 0, 0};
	if (needs_reader && !reader)
		dispatch_fail("out of memory");
	else if (words || !filter->word_count)
		result = select_pages(s, config, filter, reader, words, ids);
	envelope_free(reader);
	free(words);
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
