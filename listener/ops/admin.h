/* admin.h: the pages for operators and their tools: health, readiness, metrics, status. */
#ifndef WSONCE_ADMIN_H
#define WSONCE_ADMIN_H

#include <stddef.h>
#include <uv.h>

#include "config/config.h"
#include "intake/ingest.h"
#include "ops/hour.h"
#include "pipeline/pipeline.h"
#include "outbox/relay.h"
#include "intake/source.h"

/* The parts that the pages show; sources, ingest and relay may be NULL. Must outlive the admin server. */
struct admin_parts {
	const struct config *config;
	const struct pipeline *pipeline;
	const struct sources *sources;
	const struct ingest *ingest;
	const struct relay *relay;
	const struct hour *hour;
	const struct report *report;
	bool is_draining;
};

struct admin;

/* Listens on the address of --admin. Returns NULL and a sentence in error if it cannot. */
struct admin *admin_open(uv_loop_t *loop, const struct admin_parts *parts, char *error, size_t size);

/* Closes all connections. Run the loop until it is done, then call admin_free. */
void admin_close(struct admin *a);

void admin_free(struct admin *a);

/* Writes since when and why webhook i has been paused or has failed. Returns false if neither. */
bool admin_describe_webhook(const struct relay *r, size_t i, int64_t now_ms, char *text, size_t size);

/* Writes why all messages are refused; "" if events are stored. Returns text. */
const char *admin_describe_rejected(char *text, size_t size);

/* Returns who holds up an event while others are stored, or that dead letters wait; "" if neither, or if nothing is
 * stored. */
const char *admin_describe_holder(const struct storing *s);

/* Writes what is unusual about the spool; "" if nothing is, or there is none. Returns text. */
const char *admin_describe_spool(const struct pipeline *p, char *text, size_t size);

#endif
