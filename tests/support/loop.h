/* The end of a unit test's loop. */
#ifndef SUPPORT_LOOP_H
#define SUPPORT_LOOP_H

#include <criterion/criterion.h>
#include <uv.h>

static inline void loop_on_closed(void *arg)
{
}

/* Runs it to its end. A forgotten handle fails the test. */
static inline void loop_end(uv_loop_t *loop)
{
	uv_run(loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(loop), 0, "a handle is left");
}

#endif
