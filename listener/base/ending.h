/* ending.h: the end of an object that has parts, such as handles of libuv and connections, which close on the loop. */
#ifndef WSONCE_ENDING_H
#define WSONCE_ENDING_H

#include <uv.h>

/* A member of the object. All zeros until ending_begin(). */
struct ending {
	int parts; /* left to close; 0: it has not begun to end */
	void (*release)(void *object);
	void *object;
	void (*done)(void *arg);
	void *arg;
};

/* One of its parts is closed. After the last one the object is released, and its owner told. */
static inline void ending_part(void *ending)
{
	struct ending e = *(struct ending *)ending;

	((struct ending *)ending)->parts--;
	if (e.parts > 1)
		return;
	e.release(e.object);
	e.done(e.arg);
}

/* The object ends: once this number of parts is closed, release is called with it, and then done with arg. */
static inline void ending_begin(struct ending *e, int parts, void (*release)(void *object), void *object,
				void (*done)(void *arg), void *arg)
{
	*e = (struct ending){parts, release, object, done, arg};
}

static inline void ending_on_handle(uv_handle_t *handle)
{
	ending_part(handle->data);
}

/* Closes a timer or another handle that is a part, and overwrites its data. */
static inline void ending_close(struct ending *e, void *handle)
{
	((uv_handle_t *)handle)->data = e;
	uv_close(handle, ending_on_handle);
}

#endif
