/* file.c opens the files that settings name. Its callers know what is in them. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define FILE_MOST (64 << 20) /* bytes */

static bool is_plain; /* open regular files only */

static int fault_of(int fd)
{
	struct stat file;

	if (fstat(fd, &file))
		return errno;
	if (S_ISDIR(file.st_mode))
		return EISDIR;
	if (is_plain && !S_ISREG(file.st_mode))
		return EOPNOTSUPP;
	return S_ISREG(file.st_mode) && file.st_size > FILE_MOST ? EFBIG : 0;
}

/* Does not wait until a pipe has a writer, but reads wait for its data. O_NONBLOCK has no effect on a regular file. */
FILE *file_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), fault;
	FILE *in;

	if (fd < 0)
		return NULL;
	fcntl(fd, F_SETFL, 0);
	fault = fault_of(fd);
	in = fault ? NULL : fdopen(fd, "r");
	if (in)
		return in;
	close(fd);
	if (fault)
		errno = fault;
	return NULL;
}

char *file_read(const char *path, size_t most, size_t *len)
{
	FILE *in = file_open(path);
	char *text = NULL;
	size_t n = 1;

	if (!in)
		return NULL;
	for (*len = 0; n && *len <= most; *len += n) {
		size_t room = *len + 4096 < most + 1 ? 2 * *len + 4096 : most + 1;

		text = memory_realloc(text, room + 1);
		n = fread(text + *len, 1, room - *len, in);
	}
	if (ferror(in) || *len > most) {
		int fault = ferror(in) ? errno : EFBIG;

		free(text);
		text = NULL;
		errno = fault;
	} else {
		text[*len] = '\0';
	}
	fclose(in);
	return text;
}

bool file_is_readable(const char *path)
{
	bool was_plain = is_plain;
	FILE *in;

	is_plain = true;
	in = file_open(path);
	is_plain = was_plain;
	if (in)
		fclose(in);
	return in != NULL;
}

void file_keep_plain(void)
{
	is_plain = true;
}

char *file_beside(const char *file, const char *path)
{
	const char *slash = *path == '/' ? NULL : strrchr(file, '/');

	return memory_printf("%.*s%s", slash ? (int)(slash + 1 - file) : 0, file, path);
}
