/* store_kind.h: the interface of a kind of store. Only store.c and the two kinds include it. */
#ifndef WSONCE_STORE_KIND_H
#define WSONCE_STORE_KIND_H

#include "store/store.h"

/* Each member does what the function store_X of store/store.h promises. A kind's struct store begins with a pointer to
 * its kind, which open sets. */
struct store_kind {
	struct store *(*open)(uv_loop_t *loop, const struct config *config, const struct store_callbacks *callbacks);
	struct store_view (*view)(const struct store *s);
	/* This and the next two are NULL for a kind without a server, which cannot fail over. */
	bool (*is_sure)(const struct store *s);
	int (*ask_epoch)(struct store *s);
	void (*give_up)(struct store *s);
	void (*insert)(struct store *s, const struct batch *b);
	void (*dead_letter)(struct store *s, const struct batch *b);
	int (*checkin)(struct store *s, const char *text);
	int (*put_cursors)(struct store *s, const struct cursors *cursors, uint32_t epoch);
	int (*read_cursors)(struct store *s, const char *const *sources, size_t n);
	void (*close)(struct store *s, void (*done)(void *arg), void *arg);
};

#define STORE_RAW_BYTES (64u << 10) /* bytes of a message without an id, kept in its dead letter */

/* A message without an id can never be stored, so its head and the digest of the whole are enough. A message with an id
 * keeps every byte. */
static inline size_t store_raw_len(const struct event *ev)
{
	return ev->id_len || ev->message_len < STORE_RAW_BYTES ? ev->message_len : STORE_RAW_BYTES;
}

extern const struct store_kind store_postgres, store_sqlite;

#endif
