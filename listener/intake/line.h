/* line.h: one connection of a conversation: what is sent on it and when, and how its frames are read. */
#ifndef WSONCE_LINE_H
#define WSONCE_LINE_H

#include "intake/conversation.h"

/* Called from the loop, never from inside a call of this header. */
struct line_owner {
	void (*on_open)(void *arg, struct line *line);
	/* There is no connection, or none any more; the owner frees the line, in this call if it likes. */
	void (*on_end)(void *arg, struct line *line, const struct dial_end *end);
	/* A message has been read; is_ready: a rule with `ready` matched. */
	void (*on_ready)(void *arg, struct line *line, bool is_ready);
	/* A rule reconnects or is fatal; frame is the head of what matched. The owner may free the line. */
	void (*on_action)(void *arg, struct line *line, const struct profile_rule *rule, const char *frame);
	void (*on_rule)(void *arg, const struct profile_rule *rule, struct slice frame);
	/* What the frames of this rule came to. */
	void (*on_count)(void *arg, const struct profile_rule *rule, const struct rule_count *more);
	/* An event with a number of the profile's gap. */
	void (*on_number)(void *arg, const struct session_event *event);
	/* A server gave a value that may be a token. */
	void (*on_secret)(void *arg, const char *text, size_t len);
};

/* Begins to connect as how says, after its HTTP call if there is one. parts must outlive the line, how is copied. */
struct line *line_new(const struct conversation_parts *parts, const struct session_dial *how, size_t mirror,
		      const struct line_owner *owner, void *arg);

/* Ends the connection, if there is still one, with this code; 0: without a word. on_end is not called. */
void line_free(struct line *line, unsigned int code);

/* To be called ten times a second. May end in on_end. */
void line_tick(struct line *line);

bool line_is_open(const struct line *line);
int64_t line_since_ms(const struct line *line); /* loop clock, when it was begun */

/* Is it older than max_age_s allows? */
bool line_is_too_old(const struct line *line);

/* Is it not read from at present, or is what came meanwhile not read yet, though not for longer than 5 s? */
bool line_is_behind(const struct line *line);

/* It has a successor: it stays until nothing is owed on it, at most until then; longer while it is behind. */
void line_retire(struct line *line, int64_t until_ms);
bool line_is_done(const struct line *line);

#endif
