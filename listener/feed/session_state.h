/* session_state.h: the state of a session. Only for session.c and session_read.c. */
#ifndef WSONCE_FEED_SESSION_STATE_H
#define WSONCE_FEED_SESSION_STATE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "feed/cursor.h"
#include "feed/rules.h"
#include "feed/session.h"
#include "feed/template.h"
#include "feed/vars.h"

#define SCRATCH_BYTES 4096 /* for the decoded parts of a typical event */

struct session {
	const struct profile *profile;
	bool is_recording;
	bool has_cursor_var; /* a rule uses $cursor */
	struct rules *rules;
	struct vars vars;
	struct cursor cursor;
	int64_t counter;
	struct bytes redirect; /* JSON of the URL that a rule has set; empty: none */
	char trouble[200];     /* "" : none */

	/* The current struct session_dial. */
	struct bytes url_json;
	char *url;
	char *redacted_url;
	struct bytes texts; /* all of on_open, one after the other */
	struct slice *on_open;
	char fault[300];

	int64_t now_ms;          /* time of the last URL; 0: not read yet */
	struct secrets *secrets; /* signatures are added here; may be NULL */

	struct bytes rendered; /* the result of a call, until the next one */

	/* The current frame. */
	struct conditions hold;  /* conditions of hold_until, on the pointers of rules->frame */
	struct bytes spliced[2]; /* buffers for the frame with its json_strings decoded */
	struct bytes id;
	struct arena arena;
	_Alignas(16) char scratch[SCRATCH_BYTES];
};

/* Sets the variable `cursor` to the cursor that the next connection would resume from; leaves it if there is none. */
void session_set_cursor_var(struct session *s);
/* The scope for templates of a frame. */
struct template_scope session_scope(struct session *s, struct slice frame);
/* As session_render_frame, in a scope. */
struct slice session_render_scope(struct session *s, const json_t *t, bool is_message, struct template_scope *scope);

#endif
