/* reload.h: what a listener does on SIGHUP. */
#ifndef WSONCE_RELOAD_H
#define WSONCE_RELOAD_H

#include "config/config.h"
#include "intake/ingest.h"
#include "intake/post.h"
#include "intake/source.h"
#include "outbox/relay.h"
#include "pipeline/pipeline.h"

/* The parts that reload. Pointers may be NULL if the listener has no such part. */
struct reload_parts {
	struct config *config;
	int argc; /* the command line that config was read from */
	char **argv;
	int64_t asked_connections; /* settings before the limit of open files lowered them in config */
	int64_t asked_handshakes;
	struct pipeline *pipeline;
	struct relay *relay;
	struct sources *sources;
	struct ingest *ingest;
	struct posts *posts;
};

/* Reads settings, tokens and certificates again and applies what can change while the listener runs. Logs one line,
 * which names changed settings that need a restart; or, after any error, logs it and changes nothing. */
void reload(const struct reload_parts *p);

#endif
