/* list.h: a doubly linked list. Its links are members of the structs on the list. */
#ifndef WSONCE_LIST_H
#define WSONCE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

/* clang-format off */
#define list_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))
/* clang-format on */

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *l, struct list *node)
{
	node->prev = l->prev;
	node->next = l;
	l->prev->next = node;
	l->prev = node;
}

/* Links node to itself, so it may be removed twice. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Returns the next node, and prefetches it. */
static inline struct list *list_next(const struct list *node)
{
	__builtin_prefetch(node->next);
	return node->next;
}

/* Walks l. The body may remove the current node, but no other. */
#define list_each(node, after, l) \
	for (struct list *node = (l)->next, *after = list_next(node); node != (l); \
	     node = after, after = list_next(node))

#endif
