/* replay.c reads the file of a recorded feed. Lines are sent unchanged, valid or not. */
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

struct replay {
	FILE *file;
	char *line;  /* buffer of getline() */
	size_t size; /* its size */
};

struct replay *replay_open(const char *path)
{
	struct replay *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->file = fopen(path, "r");
	if (r->file)
		return r;
	free(r);
	return NULL;
}

bool replay_next(struct replay *r, const char **text, size_t *len)
{
	ssize_t n;

	while ((n = getline(&r->line, &r->size, r->file)) >= 0) {
		while (n && (r->line[n - 1] == '\n' || r->line[n - 1] == '\r'))
			n--;
		if (!n)
			continue;
		*text = r->line;
		*len = (size_t)n;
		return true;
	}
	return false;
}

void replay_close(struct replay *r)
{
	if (!r)
		return;
	fclose(r->file);
	free(r->line);
	free(r);
}
