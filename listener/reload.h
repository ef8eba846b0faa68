/* reload.h: what a listener does on SIGHUP. */
#ifndef WSONCE_RELOAD_H
#define WSONCE_RELOAD_H

#include "config/config.h"
#include "intake/ingest.h"
#include "intake/post.h"
#include "outbox/relay.h"
#include "road/pipeline.h"

/* What takes part. NULL: the listener has none. */
struct reload_parts {
	struct config *config;
	int argc; /* the command line that config was read from */
	char **argv;
	int64_t asked_connections; /* of producers, before the limit of open files changed it in config, */
	int64_t asked_handshakes;  /* likewise */
	struct pipeline *pipeline;
	struct relay *relay;
	struct ingest *ingest;
	struct posts *posts;
};

/* Reads settings, tokens and certificates again. Puts to use what can change while the listener runs, and says so in
 * one line of the log, with the names of the settings that have changed and need a restart; or, after any error, says
 * that and changes nothing. */
void reload(const struct reload_parts *p);

#endif
