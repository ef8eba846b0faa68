/* checkpoint.c owns the file that says where a replay continues. */
#include "commands/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "commands/dispatch.h"

static bool is_checkpoint(const json_t *object)
{
	const json_t *offset = json_object_get(object, "offset"), *value;
	const char *name;

	json_object_foreach((json_t *)object, name, value) if (value != offset && !json_is_string(value)) return false;
	return json_is_integer(offset) && json_integer_value(offset) >= 0;
}

json_t *checkpoint_read(const char *path)
{
	json_t *object;

	if (access(path, F_OK) && errno == ENOENT)
		return json_object();
	object = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	if (is_checkpoint(object))
		return object;
	dispatch_fail("--checkpoint: %s %s", path,
		      access(path, R_OK)
			      ? "cannot be read: check its rights"
			      : "is not a checkpoint, which wsonce replay writes: give the name of a new file");
	json_decref(object);
	return NULL;
}

/* Writes a new file. Does not follow a link that somebody else has put there. */
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

/* Syncs the folder, without which the file's new name may not be on disk. */
static void sync_folder(char *path)
{
	int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

int checkpoint_write(const char *path, const json_t *checkpoint)
{
	AUTO_FREE char *text = json_dumps(checkpoint, 0), *part = memory_printf("%s.part", path);
	int result = write_whole(part, text, strlen(text)) || rename(part, path) ? -1 : 0;

	if (result)
		dispatch_fail("--checkpoint: cannot write %s: %s", path, strerror(errno));
	else
		sync_folder(part);
	return result;
}
