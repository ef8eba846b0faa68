/* page.c owns the files of the web page, which are in the program (page/). What they show is the business of admin.c
 * and commands/dashboard.c. */
#include "ops/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "page_css.h"
#include "page_html.h"
#include "page_js.h"
#include "page_svg.h"

static const struct {
	const char *path;
	const char *type;
	const char *text;
} files[] = {
	{"/", "text/html; charset=utf-8", PAGE_HTML},
	{"/page.css", "text/css; charset=utf-8", PAGE_CSS},
	{"/page.js", "text/javascript; charset=utf-8", PAGE_JS},
	{"/page.svg", "image/svg+xml", PAGE_SVG},
};

const char *page_file(const char *path, const char **type)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (strcmp(files[i].path, path) != 0)
			continue;
		*type = files[i].type;
		return files[i].text;
	}
	return NULL;
}

/* JSON in one line has no line break that would end the event. */
char *page_event(const json_t *status)
{
	char *json = memory_given(json_dumps(status, JSON_COMPACT | JSON_REAL_PRECISION(15)), "jansson");
	char *event = memory_printf("retry: 2000\nevent: status\ndata: %s\n\n", json);

	free(json);
	return event;
}
