/* checkpoint.c owns the file that says from where to go on: one line of JSON. */
#include "commands/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/dispatch.h"

int checkpoint_read(const char *path, uint64_t *offset, char fingerprint[65])
{
	json_t *root;
	json_int_t number = -1;
	const char *known = NULL;
	int result = 0;

	*offset = 0;
	if (access(path, F_OK) && errno == ENOENT)
		return 0;
	root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	if (!root || json_unpack(root, "{s:I, s:s}", "offset", &number, "fingerprint", &known) || number < 0 ||
	    strlen(known) != 64) {
		dispatch_fail("--checkpoint: %s is not a checkpoint, or cannot be read", path);
		result = -1;
	} else {
		*offset = (uint64_t)number;
		memcpy(fingerprint, known, 65);
	}
	json_decref(root);
	return result;
}

/* What is there by this name, perhaps a link that somebody else has put there, is not written to. */
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

/* The new name is on disk only when its folder is. */
static void sync_folder(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
}

int checkpoint_write(const char *path, uint64_t offset, const char *fingerprint)
{
	char text[160], *part;
	int len = snprintf(text, sizeof(text), "{\"offset\": %llu, \"fingerprint\": \"%s\"}\n",
			   (unsigned long long)offset, fingerprint);
	int result;

	if (asprintf(&part, "%s.part", path) < 0) {
		dispatch_fail("out of memory");
		return -1;
	}
	result = write_whole(part, text, (size_t)len) || rename(part, path) ? -1 : 0;
	if (result)
		dispatch_fail("--checkpoint: %s cannot be written: %s", path, strerror(errno));
	else
		sync_folder(path);
	free(part);
	return result;
}
