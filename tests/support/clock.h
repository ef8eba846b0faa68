/* A monotonic clock that stands still until the test moves it, for tests that need no other process. */
#ifndef SUPPORT_CLOCK_H
#define SUPPORT_CLOCK_H

#include <stdint.h>

/* From here on the monotonic clock is the test's own. Call it before the loop is made. */
void clock_stop(void);

/* So many milliseconds pass at once; a loop sees it at its next uv_run() or uv_update_time(). */
void clock_pass(int64_t ms);

#endif
