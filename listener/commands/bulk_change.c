/* bulk_change.c owns the changing of many rows: pages of ids, each page a transaction, so that an operator who
 * changes a million does not keep the fleet, or another operator, from its rows for long. */
#include "commands/bulk_change.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/deliveries.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "commands/redis_query.h"

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

/* Adds to done how many of them were changed. */
static int change_ids(const struct letter_walk *w, const struct bulk_change *change, struct redis_query *marks,
		      int64_t *done)
{
	const struct letter_ids *ids = &w->ids;

	for (size_t i = 0; i < ids->count && !interrupt_has_come(); i += PAGE) {
		char *array = letters_array(ids, i, ids->count - i < PAGE ? ids->count - i : PAGE);
		const char *values[] = {array, change->note, w->config->instance_id};
		struct pg_result *rows;

		rows = change->lite_sql ? session_ask_either(w->session, change->sql, change->lite_sql, 3, values)
					: session_ask(w->session, change->sql, 3, values);
		free(array);
		if (!rows)
			return -1;
		*done += (int64_t)session_count(rows);
		if (marks)
			forget(marks, rows);
		session_drop(rows);
		progress_show("%s: %" PRId64 ", up to id %" PRId64, change->done_as, *done, ids->at[i]);
	}
	return 0;
}

static int change_all(struct letter_walk *w, const struct bulk_change *change, struct redis_query *marks, int64_t *done)
{
	int failed = change_ids(w, change, marks, done);

	while (!failed && !w->is_over && !interrupt_has_come())
		failed = letters_walk_on(w) || change_ids(w, change, marks, done) ? -1 : 0;
	progress_clear();
	return failed;
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
	json_out_member(&out, "interrupted", json_boolean(interrupt_has_come()));
	json_out_close(&out);
}

static int change_and_tell(struct letter_walk *w, const struct bulk_change *change, int64_t last_action)
{
	struct redis_query *marks = change->forgets && w->ids.count ? redis_query_open(w->config) : NULL;
	int64_t done = 0;
	int failed = change_all(w, change, marks, &done);

	redis_query_close(marks);
	print(change, done);
	if (failed)
		dispatch_fail("stopped before the end: those that are counted are %s, and perhaps %d more; run again "
			      "for the rest",
			      change->done_as, PAGE);
	else if (interrupt_has_come())
		dispatch_fail("interrupted; the count above is complete, run again for the rest");
	if (done && change->is_delivered && !failed)
		deliveries_warn(w->session, last_action);
	return failed || interrupt_has_come() ? STATUS_FAILED : STATUS_FINE;
}

static int run(struct session *s, const struct invocation *in, const struct bulk_change *change)
{
	struct letter_filter filter = change->filter;
	struct letter_walk walk = {.is_over = true};
	int64_t last_action = change->is_delivered ? deliveries_last_action(s) : 0;
	int status = STATUS_FAILED;

	filter.words = in->words;
	filter.word_count = in->word_count;
	interrupt_watch();
	if (last_action >= 0 && letters_walk_begin(&walk, s, in->config, &filter) == 0) {
		int missed = letters_miss(&filter, &walk.ids);

		status = change_and_tell(&walk, change, last_action);
		status = missed ? STATUS_FAILED : status;
	}
	letters_walk_end(&walk);
	return status;
}

int bulk_change_run(const struct invocation *in, const struct bulk_change *change)
{
	struct session *s = session_open(in->config);
	int status = s ? run(s, in, change) : STATUS_FAILED;

	session_close(s);
	return status;
}
