/* session_state.h: what a session remembers. For session.c and session_read.c alone. */
#ifndef WSONCE_FEED_SESSION_STATE_H
#define WSONCE_FEED_SESSION_STATE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "feed/cursor.h"
#include "feed/rules.h"
#include "feed/session.h"
#include "feed/template.h"
#include "feed/vars.h"

#define SCRATCH_BYTES 4096 /* for the decoded parts of an event of ordinary size */

struct session {
	const struct profile *profile;
	bool is_recording;
	bool has_cursor_var; /* a rule asks for $cursor */
	struct rules *rules;
	struct vars vars;
	struct cursor cursor;
	int64_t counter;
	struct bytes redirect; /* JSON of the URL that a rule has named; empty: none */
	char trouble[200];     /* "" : none */

	/* The dial at hand. */
	struct bytes url_json;
	char *url;
	char *shown;
	struct bytes texts; /* all of on_open, one after the other */
	struct slice *on_open;
	char fault[300];

	/* What lives until the next call. */
	struct bytes rendered;
	char *rendered_text;

	/* The frame at hand. */
	struct pointers *hold_pointers;
	struct conditions hold;  /* of hold_until */
	struct bytes spliced[2]; /* the frame with its json_strings decoded */
	struct bytes id;
	struct arena arena;
	_Alignas(16) char scratch[SCRATCH_BYTES];
};

/* Sets the variable cursor to what the next connection would ask for; without a cursor it stays. */
void session_set_cursor_var(struct session *s);
/* What templates of a frame may use. */
struct template_scope session_scope(struct session *s, struct slice frame);

#endif
