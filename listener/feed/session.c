/* session.c owns what is remembered of a source from frame to frame and from connection to connection. */
#include "feed/session.h"

#include <stdlib.h>

#include "base/memory.h"

const char *const session_how_names[] = {"fresh", "redirect", "resume", "http-bootstrap"};

struct session {
	const struct profile *profile;
	bool is_recording;
};

struct session *session_new(const struct profile *p, bool is_recording)
{
	struct session *s = memory_calloc(1, sizeof(*s));

	s->profile = p;
	s->is_recording = is_recording;
	return s;
}

void session_free(struct session *s)
{
	free(s);
}

void session_connect(struct session *s, int64_t now_s, int64_t closed_s, size_t mirror, struct session_dial *dial)
{
	(void)s, (void)now_s, (void)closed_s, (void)mirror, (void)dial;
}

const char *session_url(struct session *s)
{
	(void)s;
	return NULL;
}

struct slice session_render(struct session *s, const json_t *t, const char **fault)
{
	(void)s, (void)t, (void)fault;
	return (struct slice){NULL, 0};
}

const char *session_render_text(struct session *s, const char *t, const char **fault)
{
	(void)s, (void)t, (void)fault;
	return NULL;
}

bool session_answer(struct session *s, const struct profile_http *http, const char *body, size_t len)
{
	(void)s, (void)http, (void)body, (void)len;
	return false;
}

struct slice session_var(const struct session *s, const char *name)
{
	(void)s, (void)name;
	return (struct slice){NULL, 0};
}

int64_t session_var_ms(const struct session *s, const char *name, double factor, int64_t fallback)
{
	(void)s, (void)name, (void)factor, (void)fallback;
	return 0;
}

void session_clear(struct session *s, const json_t *names)
{
	(void)s, (void)names;
}

size_t session_read(struct session *s, const char *message, size_t len, int64_t now_s,
		    const struct session_handler *handler, void *ctx)
{
	(void)s, (void)message, (void)len, (void)now_s, (void)handler, (void)ctx;
	return 0;
}

void session_advance(struct session *s, struct slice cursor, int64_t now_s)
{
	(void)s, (void)cursor, (void)now_s;
}

struct slice session_cursor(struct session *s)
{
	(void)s;
	return (struct slice){NULL, 0};
}

struct slice session_mark(struct session *s)
{
	(void)s;
	return (struct slice){NULL, 0};
}

bool session_restore(struct session *s, struct slice mark)
{
	(void)s, (void)mark;
	return false;
}
