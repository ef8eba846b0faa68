/* template.h: renders a profile's templates. */
#ifndef WSONCE_FEED_TEMPLATE_H
#define WSONCE_FEED_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/slice.h"
#include "feed/secrets.h"
#include "feed/vars.h"

/* What ${...} can refer to. */
struct template_scope {
	struct slice frame; /* at is NULL if absent */
	const struct vars *vars;
	int64_t *counter;        /* source of ${counter}; NULL: `counter` is an ordinary variable */
	struct slice each;       /* value of ${each} in a list; at is NULL outside of one */
	int64_t now_ms;          /* the time, since 1970; 0: not read yet */
	bool keeps_secrets;      /* leave secrets and signatures as ${...} */
	bool is_url;             /* percent-encode the feed's values, except one at the start, which is a URL */
	struct secrets *secrets; /* signatures are added here; may be NULL */
	size_t searched;         /* bytes of the frame that were searched for values */
	char fault[200];         /* a secret cannot be read, or a text is too long: one sentence, or "" */
};

/* Appends t as JSON. Returns false and leaves out unchanged if t has no value (an "if" branch that is null). */
bool template_render(struct bytes *out, const json_t *t, struct template_scope *scope);

/* The same for a text. A text that is only ${x} keeps the type of x. */
void template_render_text(struct bytes *out, const char *text, struct template_scope *scope);

/* Appends the text as it is, not as JSON. Placeholders without a value are left out. */
void template_fill(struct bytes *out, const char *text, struct template_scope *scope);

/* Appends a message to send: {"text": T} is the text T, anything else JSON. A recording has JSON only. */
bool template_render_message(struct bytes *out, const json_t *t, struct template_scope *scope);

/* Walks an array of templates. A list in it, {"each": "$x", "give": T}, stands for T for each element of the array x:
 *     struct template_walk w = {.array = templates}; while ((t = template_next(&w, &scope))) render(t); */
struct template_walk {
	const json_t *array; /* NULL: empty */
	size_t next;
	const json_t *give; /* T of the current list; NULL: not in a list */
	struct json_walk elements;
	struct slice outer; /* ${each} of a list around the array */
};

/* False, with a fault, if out is too long to append more of a list to it, or the frame was searched too often: a feed's
 * list may be long, and may be given a long value of the feed, or one of a long frame, with each element. */
bool template_has_room(const struct bytes *out, struct template_scope *scope);
const json_t *template_next(struct template_walk *w, struct template_scope *scope);

/* True if all variables in text are set. */
bool template_is_complete(const char *text, const struct vars *vars);

#endif
