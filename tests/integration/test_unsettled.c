/* Events that cannot be stored for long appear in a metric and in the log. */
#include "support.h"

#define SETTLED_MS 20000

static struct listener *listener;

Test(unsettled, events_that_wait_for_postgres_are_warned_of_until_they_are_stored)
{
	struct database *db = database_new(), *lock;

	listener = listener_start(&(struct listener_options){.database = db}, "--unsettled-warning 1s");
	struct peer *producer = peer_open_events(listener_ingest_port(listener), NULL);
	cr_assert_eq(listener_metric(listener, "wsonce_oldest_unsettled_seconds"), 0);
	lock = fleet_lock(db);
	peer_send_text(producer, "{\"event_id\":\"stuck-1\"}");
	peer_send_text(producer, "{\"event_id\":\"stuck-2\"}");
	await(listener_has_logged(listener, "events are overdue"), SETTLED_MS);
	cr_assert(listener_has_logged(listener, "oldest=stuck-1"));
	cr_assert_gt(listener_metric(listener, "wsonce_oldest_unsettled_seconds"), 1);
	fleet_unlock(lock);
	await(listener_has_logged(listener, "all overdue events have settled"), SETTLED_MS);
	cr_assert_eq(listener_metric(listener, "wsonce_oldest_unsettled_seconds"), 0);
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
}
