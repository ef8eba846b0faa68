/* fill.h: asks a feed's HTTP interface for events that no connection brought, as `fill` of its profile says. */
#ifndef WSONCE_FILL_H
#define WSONCE_FILL_H

#include "feed/session.h"
#include "fleet/presence.h"
#include "intake/feed_client.h"
#include "net/request.h"
#include "pipeline/pipeline.h"

struct fill;

struct fill_parts {
	uv_loop_t *loop;
	struct requests *requests;
	struct pipeline *pipeline;
	struct presence *presence; /* NULL: this listener is alone */
	const struct profile *profile;
	const struct feed_client *client; /* the source's client, which knows its secrets */
	struct session *const *session;   /* the source's session, whose variables the calls use */
};

/* Returns NULL unless the profile has `fill`; all functions below accept NULL. parts is copied; what it points to must
 * outlive the result. */
struct fill *fill_new(const struct fill_parts *parts);

/* Call when numbers are missing before this event. If no other listener leads the source two seconds later, this one
 * asks for them. */
void fill_hole(struct fill *f, const struct session_event *event);
/* Call when the source is connected again: the same for events after its cursor. */
void fill_reconnected(struct fill *f);

/* Returns how many missing numbers were fetched. */
uint64_t fill_filled(const struct fill *f);

/* Ends the calls. Run the loop before fill_free(). */
void fill_close(struct fill *f);
/* Call when the pipeline has no more events. */
void fill_free(struct fill *f);

#endif
