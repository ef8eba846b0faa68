/* spool.c owns `wsonce spool`: what lies in the directory of --spool, as a list, as NDJSON, or away with it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/timestamp.h"
#include "commands/dispatch.h"
#include "spool/segment.h"

/* What one segment had. */
struct tally {
	uint64_t records, bytes, wrong;
	int64_t oldest_us;
};

typedef void record_fn(const struct record *r);

/* Reads a segment, and calls each, unless it is NULL, with its records. Returns false after printing why. */
static bool read_segment(int dir, const char *name, record_fn *each, struct tally *t)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	struct segment_reader s = {.read = segment_pread, .source = &fd};
	enum segment_step step = segment_open(&s);
	bool is_read = step != SEGMENT_FAILED;
	struct record r;

	*t = (struct tally){0};
	while (step == SEGMENT_RECORD && (step = segment_next(&s, &r)) == SEGMENT_RECORD) {
		t->oldest_us = t->records++ ? t->oldest_us : r.came_us;
		t->bytes += s.size;
		if (each)
			each(&r);
	}
	t->wrong = s.wrong;
	if (step == SEGMENT_FAILED)
		dispatch_fail("%s cannot be read: %s", name, s.error ? strerror(s.error) : "it is not a segment");
	else if (s.wrong)
		dispatch_fail("%s has damaged records in %zu places, which were skipped", name, s.wrong);
	segment_close(&s);
	if (fd >= 0)
		close(fd);
	return is_read && step != SEGMENT_FAILED && !s.wrong;
}

/* On one line: the newlines of JSON stand between its tokens. */
static void put_message(struct slice message)
{
	for (size_t i = 0; i < message.len; i++)
		putchar(message.at[i] == '\n' || message.at[i] == '\r' ? ' ' : message.at[i]);
}

/* What a profile has read becomes a message that replay understands without it. */
static void export(const struct record *r)
{
	struct bytes head = {0};

	if (r->kind == RECORD_EVENT) {
		bytes_add_text(&head, "{\"event_id\":");
		json_write_string(&head, r->id.at, r->id.len);
		bytes_add_text(&head, ",\"event_type\":");
		json_write_string(&head, r->type.at, r->type.len);
		bytes_add_text(&head, ",\"payload\":");
		fputs(bytes_text(&head), stdout);
		bytes_free(&head);
	}
	put_message(r->message);
	fputs(r->kind == RECORD_EVENT ? "}\n" : "\n", stdout);
}

static void print_segment(const char *name, const struct tally *t)
{
	char oldest[TIMESTAMP_SIZE] = "-";

	if (t->records)
		timestamp_print_to(t->oldest_us, 0, oldest);
	printf("%s  %10" PRIu64 " events  %12" PRIu64 " bytes  oldest %s\n", name, t->records, t->bytes, oldest);
}

/* Locks the directory as a listener does. Returns -1 after printing why if that is impossible. */
static int lock(int dir, const char *path)
{
	int fd = openat(dir, SEGMENT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	dispatch_fail("%s: %s", path, errno == EWOULDBLOCK ? "a listener uses it" : strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int each_segment(int dir, const char *path, const char *verb)
{
	struct dirent **entries;
	struct tally total = {0}, t;
	bool is_list = strcmp(verb, "list") == 0, is_drop = strcmp(verb, "drop") == 0;
	int status = STATUS_FINE, n = scandir(path, &entries, segment_is_entry, alphasort);

	if (n < 0)
		return dispatch_fail("%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (!read_segment(dir, name, strcmp(verb, "export") == 0 ? export : NULL, &t))
			status = STATUS_FAILED;
		if (is_list)
			print_segment(name, &t);
		if (is_drop && unlinkat(dir, name, 0))
			status = dispatch_fail("%s: %s", name, strerror(errno));
		total.records += t.records;
		total.bytes += t.bytes;
		free(entries[i]);
	}
	free(entries);
	if (is_list || is_drop)
		printf("%s%" PRIu64 " events in %d segments, %" PRIu64 " bytes\n", is_drop ? "dropped " : "",
		       total.records, n, total.bytes);
	return status;
}

static int run_spool(const struct invocation *in)
{
	const char *path = in->words[0], *verb = in->words[1];
	bool is_drop = strcmp(verb, "drop") == 0;
	int dir, status, held = -1;

	if (!is_drop && strcmp(verb, "list") != 0 && strcmp(verb, "export") != 0) {
		dispatch_fail("\"%.80s\" is not one of: list export drop", verb);
		return STATUS_USAGE;
	}
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return dispatch_fail("%s: %s", path, strerror(errno));
	if (is_drop && (held = lock(dir, path)) < 0) {
		close(dir);
		return STATUS_FAILED;
	}
	status = each_segment(dir, path, verb);
	if (held >= 0)
		close(held);
	close(dir);
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
