/* bulk_change.c owns the changing of many rows: pages of ids, each page a transaction, so that an operator who
 * changes a million does not keep the fleet, or another operator, from its rows for long. */
#include "commands/bulk_change.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/redis_query.h"
#include "commands/json_out.h"

#define PAGE 1000

/* Without it, a message that comes again within the dedup window would be rejected by its mark, and open nothing. */
static void forget(struct redis_query *marks, const struct pg_result *rows)
{
	struct slice ids[PAGE];
	size_t n = 0;

	for (size_t i = 0; i < session_count(rows); i++)
		if (!session_is_null(rows, i, 1)) {
			ids[n].at = session_text(rows, i, 1);
			ids[n].len = strlen(ids[n].at);
			n++;
		}
	if (n && redis_query_forget(marks, ids, n, false))
		dispatch_fail("redis does not answer; its dead marks are not deleted");
}

/* Returns how many were changed, or -1 after saying why. */
static int64_t change_ids(struct session *s, const struct invocation *in, const struct bulk_change *change,
			  struct redis_query *marks, const struct letter_ids *ids)
{
	int64_t done = 0;

	for (size_t i = 0; i < ids->count; i += PAGE) {
		char *array = letters_array(ids, i, ids->count - i < PAGE ? ids->count - i : PAGE);
		const char *values[] = {array, change->note, in->config->instance_id};
		struct pg_result *rows;

		rows = session_ask(s, change->sql, 3, values);
		free(array);
		if (!rows)
			return -1;
		done += (int64_t)session_count(rows);
		if (marks)
			forget(marks, rows);
		session_drop(rows);
	}
	return done;
}

static void print(const struct bulk_change *change, int64_t done)
{
	struct json_out out;

	if (!change->is_json) {
		printf("%s %" PRId64 "\n", change->done_as, done);
		return;
	}
	json_out_open(&out);
	json_out_member(&out, change->done_as, json_integer((json_int_t)done));
	json_out_close(&out);
}

static int run(struct session *s, const struct invocation *in, const struct bulk_change *change)
{
	struct letter_filter filter = change->filter;
	struct letter_ids ids;
	struct redis_query *marks;
	int64_t done;
	int missed;

	filter.words = in->words;
	filter.word_count = in->word_count;
	if (letters_select(s, in->config, &filter, &ids))
		return STATUS_FAILED;
	missed = letters_miss(&filter, &ids);
	marks = change->forgets && ids.count ? redis_query_open(in->config) : NULL;
	done = change_ids(s, in, change, marks, &ids);
	redis_query_close(marks);
	if (done >= 0)
		print(change, done);
	if (done > 0 && change->warn)
		change->warn(s, &ids);
	letters_free(&ids);
	return done < 0 || missed ? STATUS_FAILED : STATUS_FINE;
}

int bulk_change_run(const struct invocation *in, const struct bulk_change *change)
{
	struct session *s = session_open(in->config);
	int status = s ? run(s, in, change) : STATUS_FAILED;

	session_close(s);
	return status;
}
