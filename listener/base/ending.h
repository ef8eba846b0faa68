/* ending.h: frees an object after its parts, such as libuv handles and connections, have closed on the loop. */
#ifndef WSONCE_ENDING_H
#define WSONCE_ENDING_H

#include <uv.h>

/* A member of the object. All zeros until ending_begin(). */
struct ending {
	int parts; /* still to close; 0: before ending_begin() */
	void (*release)(void *object);
	void *object;
	void (*done)(void *arg);
	void *arg;
};

/* Call when a part has closed. After the last one, calls release and then done. */
static inline void ending_part(void *ending)
{
	struct ending e = *(struct ending *)ending;

	((struct ending *)ending)->parts--;
	if (e.parts > 1)
		return;
	e.release(e.object);
	e.done(e.arg);
}

/* Begins the end of object: when this many parts have closed, release(object) and then done(arg) are called. */
static inline void ending_begin(struct ending *e, int parts, void (*release)(void *object), void *object,
				void (*done)(void *arg), void *arg)
{
	*e = (struct ending){parts, release, object, done, arg};
}

static inline void ending_on_handle(uv_handle_t *handle)
{
	ending_part(handle->data);
}

/* Closes a handle that is a part, such as a timer. Overwrites the handle's data. */
static inline void ending_close(struct ending *e, void *handle)
{
	((uv_handle_t *)handle)->data = e;
	uv_close(handle, ending_on_handle);
}

#endif
