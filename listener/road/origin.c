/* origin.c fills the columns of a row that say where and when its event came from. */
#include "road/origin.h"

#include <string.h>

void origin_add_source(struct array *a, const struct event *ev)
{
	const char *source = event_source(ev);

	if (source)
		array_add_ascii(a, source, strlen(source));
	else
		array_add_null(a);
}

void origin_add_time(struct array *a, const struct event *ev)
{
	if (ev->has_time)
		array_add_time(a, ev->time_us);
	else
		array_add_null(a);
}
