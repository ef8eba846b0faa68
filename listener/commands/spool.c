/* spool.c owns `wsonce spool`: it lists, exports or drops the segments in the directory of --spool. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/timestamp.h"
#include "commands/table.h"
#include "commands/ndjson.h"
#include "commands/segments.h"
#include "spool/segment.h"

struct tally {
	bool is_segment;
	uint64_t records, bytes;
	int64_t oldest_us;
};

typedef void record_fn(const struct record *r);

/* Reads a segment, and calls each, unless it is NULL, with its records. Returns false after printing why. */
static bool read_segment(struct segment_file *file, const char *name, record_fn *each, struct tally *t)
{
	struct segment_reader s = {.read = segment_pread, .source = file};
	enum segment_step step = segment_open(&s);
	struct record r;

	t->is_segment = step == SEGMENT_RECORD;
	while (step == SEGMENT_RECORD && (step = segment_next(&s, &r)) == SEGMENT_RECORD) {
		t->oldest_us = t->records++ ? t->oldest_us : r.came_us;
		t->bytes += s.size;
		if (each)
			each(&r);
	}
	if (step == SEGMENT_FAILED)
		dispatch_fail("%s cannot be read: %s", name, s.error ? strerror(s.error) : "it is not a segment");
	else if (s.wrong)
		dispatch_fail("%s has damaged records in %zu places, which were skipped", name, s.wrong);
	segment_close(&s);
	return step != SEGMENT_FAILED && !s.wrong;
}

static void export(const struct record *r)
{
	AUTO_BYTES event = {0};
	struct slice message = ndjson_message(&event, r);

	ndjson_write(stdout, message.at, message.len, r->kind == RECORD_EVENT);
}

static void print_segment(const char *name, const struct tally *t)
{
	char oldest[TIMESTAMP_SIZE] = "-";

	if (t->records)
		timestamp_print_to(t->oldest_us, 0, oldest);
	printf("%s  %10" PRIu64 " events  %12" PRIu64 " bytes  oldest %s\n", name, t->records, t->bytes, oldest);
}

static int do_segment(int dir, const char *name, const char *verb, struct tally *t)
{
	struct segment_file file;
	int error, status = STATUS_FINE;

	if (!segment_has_name(name))
		return dispatch_fail("%s does not have the name of a segment, and is left alone: wsonce replay reads "
				     "it under any name",
				     name);
	error = segment_open_file(&file, dir, name);
	if (error) /* ENOENT: its listener has removed it */
		return error == ENOENT ? STATUS_FINE : dispatch_fail("%s cannot be opened: %s", name, strerror(error));
	if (!read_segment(&file, name, strcmp(verb, "export") == 0 ? export : NULL, t))
		status = STATUS_FAILED;
	if (strcmp(verb, "list") == 0)
		print_segment(name, t);
	if (strcmp(verb, "drop") == 0 && t->is_segment && unlinkat(dir, name, 0))
		status = dispatch_fail("%s cannot be removed: %s", name, strerror(errno));
	close(file.fd);
	return status;
}

static int each_segment(int dir, const char *path, const char *verb)
{
	struct dirent **entries;
	struct tally total = {0};
	int segments = 0, status = STATUS_FINE, n = scandir(path, &entries, segment_is_entry, alphasort);

	if (n < 0)
		return dispatch_fail("%s cannot be read: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		struct tally t = {0};

		if (do_segment(dir, entries[i]->d_name, verb, &t))
			status = STATUS_FAILED;
		total.records += t.records;
		total.bytes += t.bytes;
		segments += t.is_segment;
		free(entries[i]);
	}
	free(entries);
	if (strcmp(verb, "export") != 0)
		printf("%s%" PRIu64 " events in %d segments, %" PRIu64 " bytes\n",
		       strcmp(verb, "drop") == 0 ? "dropped " : "", total.records, segments, total.bytes);
	return status;
}

int spool_command(const struct invocation *in)
{
	const char *path = in->words[0], *verb = in->words[1];
	int dir, status;

	if (strcmp(verb, "drop") != 0 && strcmp(verb, "list") != 0 && strcmp(verb, "export") != 0)
		return dispatch_refuse("spool DIR takes one of list, export and drop, not \"%.80s\"", verb);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return dispatch_fail("%s cannot be read: %s", path, strerror(errno));
	status = strcmp(verb, "drop") == 0 && segments_lock(path) < 0 ? STATUS_FAILED : each_segment(dir, path, verb);
	close(dir);
	return status;
}
