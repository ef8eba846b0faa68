/* webhooks.c owns `wsonce webhooks list`, `show`, `pause`, `resume` and `resend`: the deliveries of one webhook.
 * dead_letters.c has the dead ones. */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/timestamp.h"
#include "commands/table.h"
#include "commands/interrupt.h"
#include "commands/json_out.h"
#include "commands/progress.h"
#include "commands/session.h"
#include "webhooks_list.sql.h"
#include "webhooks_resend.sql.h"

#define PAGE INT64_C(1000) /* events read by one statement */

/* --- list, show --- */

/* Returns an array of the webhooks that match; or NULL after printing why. */
static json_t *read_states(struct session *session, const char *name)
{
	AUTO_ROWS *rows = session_query(session, SQL_WEBHOOKS_LIST, NULL, "s", name);

	return rows ? json_loads(session_text(rows, 0, 0), 0, NULL) : NULL;
}

static void print_state(const json_t *w)
{
	json_out_line("%-20s %-10s pending %" JSON_INTEGER_FORMAT " (%" JSON_INTEGER_FORMAT
		      " failing), dead %" JSON_INTEGER_FORMAT "%s%s%s",
		      member_text(w, "name"), member_text(w, "state"), member_number(w, "pending"),
		      member_number(w, "failing"), member_number(w, "dead"),
		      *member_text(w, "dead_counted") ? " (or more)" : "", *member_text(w, "reason") ? ": " : "",
		      member_text(w, "reason"));
}

int webhooks_list(const struct invocation *in)
{
	const struct given *o = in->options;
	json_t *states = read_states(in->session, NULL), *state;
	size_t i;

	if (!states)
		return STATUS_FAILED;
	if (o->is_json) {
		json_out_object(json_pack("{s:o}", "webhooks", states));
		return STATUS_FINE;
	}
	json_array_foreach(states, i, state) print_state(state);
	if (!i)
		printf("no running listener has a webhook, and there are no deliveries\n");
	json_decref(states);
	return STATUS_FINE;
}

/* Returns the state of a webhook; or NULL after printing why. */
static json_t *find_state(struct session *session, const char *name)
{
	json_auto_t *states = read_states(session, name);

	if (states && !json_array_size(states))
		dispatch_fail("no running listener has a webhook %s, and no delivery of it is pending or dead", name);
	return json_incref(json_array_get(states, 0));
}

int webhooks_show(const struct invocation *in)
{
	const struct given *o = in->options;
	json_auto_t *state = find_state(in->session, in->words[0]);

	if (!state)
		return STATUS_FAILED;
	if (o->is_json)
		json_out_object(json_incref(state));
	else
		json_out_named(state);
	return STATUS_FINE;
}

/* --- pause, resume --- */

int webhooks_pause(const struct invocation *in)
{
	const struct given *o = in->options;
	json_auto_t *state = find_state(in->session, in->words[0]);

	if (!state ||
	    session_run(in->session,
			"INSERT INTO :schema.webhook_pauses (target, reason) VALUES ($1, $2) ON CONFLICT (target) DO "
			"UPDATE SET reason = $2, paused_by = session_user, paused_at = pg_catalog.now()",
			NULL, "ss", in->words[0], o->note ? o->note : "by an operator"))
		return STATUS_FAILED;
	json_out_line("paused %s; its deliveries wait until wsonce webhooks resume", in->words[0]);
	return STATUS_FINE;
}

int webhooks_resume(const struct invocation *in)
{
	AUTO_ROWS *rows =
		session_query(in->session, "DELETE FROM :schema.webhook_pauses WHERE target = $1 RETURNING target",
			      NULL, "s", in->words[0]);

	if (!rows)
		return STATUS_FAILED;
	if (!session_count(rows))
		return dispatch_fail("the webhook %s is not paused", in->words[0]);
	json_out_line("resumed %s", in->words[0]);
	return STATUS_FINE;
}

/* --- resend --- */

struct resend {
	int64_t until_us; /* end of the span; at most the start of the command: later events get deliveries anyway */
	int64_t after_us; /* time of the last event that was read */
	int64_t after_id;
	int64_t chosen;
	int64_t had_one; /* chosen events that had a delivery already */
};

enum resend_column { READ, LAST_US, LAST_ID, CHOSEN, HAD_ONE };

/* Begins a page. The lock lets only one command queue at a time, and since it is taken before the snapshot, the next
 * one sees what was queued. It does not block listeners. Without the hint, Postgres reads all pending deliveries to
 * find those of a page. */
static const char begin_page[] = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0;"
				 "SET LOCAL lock_timeout = 0; SET LOCAL jit = off; SET LOCAL enable_seqscan = off;"
				 "LOCK TABLE :schema.webhook_pauses IN SHARE UPDATE EXCLUSIVE MODE";

/* Queues a page. Returns how many events it had, or -1. */
static int64_t resend_page(struct resend *r, const struct invocation *in, int64_t most)
{
	const struct given *o = in->options;
	AUTO_ROWS *rows =
		session_run_alone(in->session, begin_page)
			? NULL
			: session_query(in->session, SQL_WEBHOOKS_RESEND, NULL, "snsnnnsnn", in->words[0], r->until_us,
					o->type, r->after_us, r->after_id, PAGE, o->event, (int64_t)!o->is_dry, most);
	int64_t n = rows && !session_run_alone(in->session, "COMMIT") ? session_number(rows, 0, READ) : -1;

	if (n > 0) {
		r->after_us = session_number(rows, 0, LAST_US);
		r->after_id = session_number(rows, 0, LAST_ID);
		r->chosen += session_number(rows, 0, CHOSEN);
		r->had_one += session_number(rows, 0, HAD_ONE);
	}
	return n;
}

/* Waits until the queued deliveries are due at the given rate. */
static void keep_rate(const struct resend *r, int64_t rate, int64_t began_ms)
{
	int64_t due_ms = rate ? began_ms + (r->chosen - r->had_one) * 1000 / rate : 0;

	for (int64_t ms; (ms = due_ms - clock_ms(CLOCK_MONOTONIC)) > 0 && !interrupt_has_come();)
		poll(NULL, 0, ms < 200 ? (int)ms : 200);
}

static void print_resent(const struct resend *r, const struct given *o)
{
	if (o->is_json)
		json_out_object(json_pack("{s:I, s:I, s:b, s:b}", o->is_dry ? "would_queue" : "queued",
					  (json_int_t)(r->chosen - r->had_one), "have_a_delivery",
					  (json_int_t)r->had_one, "dry_run", o->is_dry, "interrupted",
					  interrupt_has_come()));
	else
		printf("%s %" PRId64 ", left out %" PRId64 " that have a pending or dead delivery\n",
		       o->is_dry ? "would queue" : "queued", r->chosen - r->had_one, r->had_one);
}

/* Returns the database's time, by which events were stored; or -1. */
static int64_t read_now_us(struct session *session)
{
	AUTO_ROWS *rows = session_query(
		session, "SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.now()) * 1000000)::bigint", NULL, "");

	return rows ? session_number(rows, 0, 0) : -1;
}

int webhooks_resend(const struct invocation *in)
{
	const struct given *o = in->options;
	struct resend r = {.until_us = o->until_us ? o->until_us : read_now_us(in->session), .after_us = o->since_us};
	int64_t most = o->rate && o->rate < PAGE ? o->rate : PAGE, n, began_ms = clock_ms(CLOCK_MONOTONIC);
	json_auto_t *state = r.until_us < 0 ? NULL : find_state(in->session, in->words[0]);
	char from[TIMESTAMP_SIZE];

	interrupt_watch();
	if (!state)
		return STATUS_FAILED;
	if (strcmp(member_text(state, "state"), "delivering") != 0)
		dispatch_fail("%s is %s: its deliveries wait", in->words[0], member_text(state, "state"));
	do {
		n = resend_page(&r, in, most);
		progress_show("queued: %" PRId64, r.chosen - r.had_one);
		keep_rate(&r, o->is_dry ? 0 : o->rate, began_ms);
	} while (n > 0 && !interrupt_has_come());
	progress_clear();
	if (!n && o->event && !r.after_id)
		return dispatch_fail("no event %s is stored%s, or its payload was purged", o->event,
				     o->since_us || o->until_us ? " in that time" : "");
	print_resent(&r, o);
	if ((n < 0 && r.after_id) || interrupt_has_come())
		dispatch_fail("interrupted; go on with --since %s", timestamp_print(r.after_us, from));
	return n || interrupt_has_come() ? STATUS_FAILED : STATUS_FINE;
}

const char *webhooks_check(const struct invocation *in)
{
	const struct given *o = in->options;

	return o->since_us || o->event ? NULL : "give --since or --event: which events to send again";
}
