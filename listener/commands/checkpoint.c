/* checkpoint.c owns the file that says where to go on: one line of JSON. */
#include "commands/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "commands/dispatch.h"

static void take_text(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s", text ? text : "");
}

/* A text that is too long could be cut within a character. */
static bool fits(const char *text, size_t size)
{
	return !text || strlen(text) < size;
}

int checkpoint_read(const char *path, struct checkpoint *c)
{
	const char *known = NULL, *before = NULL, *database = NULL, *epoch = NULL, *consumer = NULL;
	json_t *root;
	json_int_t number = -1;
	int result = 0;

	*c = (struct checkpoint){.offset = 0};
	if (access(path, F_OK) && errno == ENOENT)
		return 0;
	root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	if (!root ||
	    json_unpack(root, "{s:I, s:s, s?s, s?s, s?s, s?s}", "offset", &number, "fingerprint", &known, "before",
			&before, "database", &database, "epoch", &epoch, "consumer", &consumer) ||
	    number < 0 || strlen(known) != 64 || !fits(before, sizeof(c->before)) ||
	    !fits(database, sizeof(c->database)) || !fits(epoch, sizeof(c->epoch)) ||
	    !fits(consumer, sizeof(c->consumer))) {
		dispatch_fail("--checkpoint: %s is not a checkpoint, or cannot be read", path);
		result = -1;
	} else {
		c->offset = (uint64_t)number;
		take_text(c->fingerprint, sizeof(c->fingerprint), known);
		take_text(c->before, sizeof(c->before), before);
		take_text(c->database, sizeof(c->database), database);
		take_text(c->epoch, sizeof(c->epoch), epoch);
		take_text(c->consumer, sizeof(c->consumer), consumer);
	}
	json_decref(root);
	return result;
}

/* Writes a new file. A link that somebody else has put there by this name is not followed. */
static int write_whole(const char *path, const char *text, size_t len)
{
	int fd = unlink(path) && errno != ENOENT
			 ? -1
			 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int result = fd < 0 || write(fd, text, len) != (ssize_t)len || fsync(fd) ? -1 : 0;

	if (fd >= 0 && close(fd))
		result = -1;
	return result;
}

/* A new name is on disk only when its folder is. */
static void sync_folder(const char *path)
{
	char *copy = memory_strdup(path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
}

static int write_and_rename(const char *path, const char *text)
{
	char *part = memory_printf("%s.part", path);
	int result = write_whole(part, text, strlen(text)) || rename(part, path) ? -1 : 0;

	if (result)
		dispatch_fail("--checkpoint: cannot write %s: %s", path, strerror(errno));
	else
		sync_folder(path);
	free(part);
	return result;
}

int checkpoint_write(const char *path, const struct checkpoint *c)
{
	json_t *root = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s}", "offset", (json_int_t)c->offset, "fingerprint",
				 c->fingerprint, "before", c->before, "database", c->database, "epoch", c->epoch,
				 "consumer", c->consumer);
	char *text = json_dumps(root, JSON_PRESERVE_ORDER);
	int result = write_and_rename(path, text);

	json_decref(root);
	free(text);
	return result;
}
