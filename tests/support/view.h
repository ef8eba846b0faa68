/* view.h: makes the result of envelope_read() without a message. */
#ifndef WSONCE_TESTS_VIEW_H
#define WSONCE_TESTS_VIEW_H

#include <string.h>

#include "event/event.h"

static inline struct envelope_view view_of(const struct events *es, const char *id, const char *type,
					   const char *payload)
{
	struct envelope_view view = {
		.id = {id, strlen(id)}, .type = {type, strlen(type)}, .payload = {payload, strlen(payload)}};

	events_hash(es, &view);
	return view;
}

/* The event in flight with this id, or NULL. */
static inline struct event *find_event(const struct events *es, const char *id)
{
	struct envelope_view view = view_of(es, id, "", "");

	return event_find(es, &view);
}

#endif
