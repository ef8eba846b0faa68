/* What the pages of a listener make of its state. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ops/page.h"
#include "unit.h"

Test(page, numbers_have_the_digits_that_people_write)
{
	json_t *status = json_pack("{s:f, s:f}", "p50_ms", 0.1 - 0.024, "share", 1.1 * 1.1);
	char *event = page_event(status);

	cr_assert(strstr(event, "\"p50_ms\":0.076,"), "%s", event);
	cr_assert(strstr(event, "\"share\":1.21}"), "%s", event);
	free(event);
	json_decref(status);
}
