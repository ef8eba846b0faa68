/* feed_event.h: turns an event that a profile has read into one for the pipeline. */
#ifndef WSONCE_FEED_EVENT_H
#define WSONCE_FEED_EVENT_H

#include "feed/session.h"
#include "pipeline/pipeline.h"

/* The result points into event and p; p must outlive the pipeline. is_shared: see struct feed_event. */
static inline struct feed_event feed_event_from(const struct session_event *event, const struct profile *p,
						bool is_shared)
{
	return (struct feed_event){
		.id = event->id,
		.type = event->type.at ? event->type : (struct slice){"", 0},
		.payload = event->payload,
		.time = event->time,
		.unit = event->time_unit,
		.source = profile_row_source(p),
		.missing = event->missing,
		.is_shared = is_shared,
	};
}

#endif
