/* template.h: messages to the source, made from a profile's templates. */
#ifndef WSONCE_FEED_TEMPLATE_H
#define WSONCE_FEED_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/slice.h"
#include "feed/vars.h"

/* What ${...} may stand for. */
struct template_scope {
	struct slice frame; /* at NULL: there is none */
	const struct vars *vars;
	int64_t *counter;   /* ${counter} takes the next number from it; NULL: it is a variable like others */
	bool keeps_secrets; /* ${env:X} and ${file:P} stay as they are written */
	bool is_url;     /* what the feed sent is percent-encoded, but at the beginning of a text, where it is a URL */
	char fault[200]; /* a secret that could not be read, one sentence; "" */
};

/* Appends t as JSON. false: it says nothing (the branch of an "if" that is null), and out is as it was. */
bool template_render(struct bytes *out, const json_t *t, struct template_scope *scope);

/* The same for a text, which is JSON then: a lone ${x} keeps its type. */
void template_render_text(struct bytes *out, const char *text, struct template_scope *scope);

/* Are all variables of a text set? */
bool template_is_complete(const char *text, const struct vars *vars);

#endif
