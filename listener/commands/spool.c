/* spool.c owns `wsonce spool`: what lies in the directory of --spool, as a list, as NDJSON, or away with it. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/timestamp.h"
#include "commands/dispatch.h"
#include "commands/ndjson.h"
#include "commands/segments.h"
#include "spool/segment.h"

/* What one segment had. */
struct tally {
	uint64_t records, bytes;
	int64_t oldest_us;
};

/* Reads a segment, and prints its messages if is_export is set. Returns false after printing why. */
static bool read_segment(const char *path, bool is_export, struct tally *t)
{
	struct ndjson *lines = ndjson_open(path, NDJSON_UNLIMITED);
	enum ndjson_result result = NDJSON_FAILED;
	struct ndjson_line line;

	*t = (struct tally){0};
	while (lines && (result = ndjson_wait(lines, &line)) == NDJSON_LINE && line.record) {
		t->oldest_us = t->records ? t->oldest_us : line.record->came_us;
		t->records = line.number;
		t->bytes += line.end - line.begin;
		if (is_export)
			ndjson_write(stdout, line.bytes, line.len);
	}
	if (result == NDJSON_LINE)
		dispatch_fail("%s: is not a segment", path);
	ndjson_close(lines);
	return result == NDJSON_END;
}

static void print_segment(const char *name, const struct tally *t)
{
	char oldest[TIMESTAMP_SIZE] = "-";

	if (t->records)
		timestamp_print_to(t->oldest_us, 0, oldest);
	printf("%s  %10" PRIu64 " events  %12" PRIu64 " bytes  oldest %s\n", name, t->records, t->bytes, oldest);
}

static int each_segment(const char *dir, const char *verb)
{
	struct dirent **entries;
	struct tally total = {0}, t;
	bool is_list = strcmp(verb, "list") == 0, is_drop = strcmp(verb, "drop") == 0;
	int status = STATUS_FINE, n = scandir(dir, &entries, segment_is_entry, alphasort);

	if (n < 0)
		return dispatch_fail("%s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		char *path = memory_printf("%s/%s", dir, entries[i]->d_name);

		if (!read_segment(path, strcmp(verb, "export") == 0, &t))
			status = STATUS_FAILED;
		if (is_list)
			print_segment(entries[i]->d_name, &t);
		if (is_drop && unlink(path))
			status = dispatch_fail("%s: %s", path, strerror(errno));
		total.records += t.records;
		total.bytes += t.bytes;
		free(entries[i]);
		free(path);
	}
	free(entries);
	if (is_list || is_drop)
		printf("%s%" PRIu64 " events in %d segments, %" PRIu64 " bytes\n", is_drop ? "dropped " : "",
		       total.records, n, total.bytes);
	return status;
}

static int run_spool(const struct invocation *in)
{
	const char *dir = in->words[0], *verb = in->words[1];
	bool is_drop = strcmp(verb, "drop") == 0;
	int status, lock = -1;

	if (!is_drop && strcmp(verb, "list") != 0 && strcmp(verb, "export") != 0) {
		dispatch_fail("\"%.80s\" is not one of: list export drop", verb);
		return STATUS_USAGE;
	}
	if (is_drop && (lock = segments_lock(dir)) < 0)
		return STATUS_FAILED;
	status = each_segment(dir, verb);
	if (lock >= 0)
		close(lock);
	return status;
}

const struct subcommand spool_command = {
	.name = "spool",
	.arguments = "DIR list|export|drop",
	.least_words = 2,
	.most_words = 2,
	.summary = "list, export or drop the events in a listener's spool",
	.help = "Shows the segments in DIR, the --spool of a listener, with the number of events in each; or prints "
		"their messages, one per line, for wsonce replay on another machine; or removes them, if no listener "
		"uses DIR. What a profile has read is exported as event_id, event_type and payload. Some of the events "
		"may be stored already.",
	.settings = SETTINGS_NONE,
	.run = run_spool,
};
