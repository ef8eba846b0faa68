/* Events that cannot be stored for long appear in a metric, on the status page, and in the log. */
#include "support.h"

#define SETTLED_MS 20000

static struct listener *listener;

/* True if the status page warns. *id is the id of the oldest event; the caller frees it. */
static bool has_warning(char **id)
{
	char *body = listener_http(listener, "/api/status", NULL);
	json_t *root = json_loads(body ? body : "{}", 0, NULL), *unsettled = json_object_get(root, "unsettled");
	bool has = json_is_true(json_object_get(unsettled, "warning"));
	const char *oldest = json_string_value(json_object_get(unsettled, "oldest_id"));

	cr_assert(!has || json_integer_value(json_object_get(unsettled, "events")) > 0);
	free(*id);
	*id = strdup(oldest ? oldest : "");
	return has;
}

Test(unsettled, events_that_wait_for_postgres_are_warned_of_until_they_are_stored)
{
	struct database *db = database_new(), *lock;
	char *id = NULL;

	listener = listener_start(&(struct listener_options){.database = db}, "--unsettled-warning 1s");
	struct peer *producer = peer_open_events(listener_ingest_port(listener), NULL);
	cr_assert_eq(listener_metric(listener, "wsonce_oldest_unsettled_seconds"), 0);
	cr_assert(!has_warning(&id));
	lock = fleet_lock(db);
	peer_send_text(producer, "{\"event_id\":\"stuck-1\"}");
	peer_send_text(producer, "{\"event_id\":\"stuck-2\"}");
	await(listener_has_logged(listener, "events are overdue"), SETTLED_MS);
	cr_assert(listener_has_logged(listener, "oldest=stuck-1"));
	cr_assert(has_warning(&id));
	cr_assert_str_eq(id, "stuck-1");
	cr_assert_gt(listener_metric(listener, "wsonce_oldest_unsettled_seconds"), 1);
	fleet_unlock(lock);
	await(listener_has_logged(listener, "all overdue events have settled"), SETTLED_MS);
	cr_assert(!has_warning(&id));
	cr_assert_eq(listener_metric(listener, "wsonce_oldest_unsettled_seconds"), 0);
	peer_free(producer);
	cr_assert_eq(listener_stop(listener), 0);
}
