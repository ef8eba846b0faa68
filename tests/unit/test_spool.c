/* The spool: its records, what is read of a damaged segment, and the account of a directory. */
#include "spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/memory.h"
#include "base/crc32c.h"
#include "spool/segment.h"
#include "spool/spooling.h"

#include "clock.h"
#include "loop.h"
#include "unit.h"

#define SALT 0x1badcafeu

Test(spool, a_checksum_is_crc32c)
{
	/* RFC 3720, B.4, and the check value of the CRC catalogue */
	static const unsigned char zeros[32];
	unsigned char ascending[32];

	for (int i = 0; i < 32; i++)
		ascending[i] = (unsigned char)i;
	cr_assert_eq(crc32c(0, "123456789", 9), 0xe3069283u);
	cr_assert_eq(crc32c(0, zeros, 32), 0x8a9136aau);
	cr_assert_eq(crc32c(0, ascending, 32), 0x46dd794eu);
	cr_assert_eq(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

static struct slice slice(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static struct record example(uint64_t ordinal)
{
	return (struct record){.kind = RECORD_EVENT,
			       .has_time = true,
			       .ordinal = ordinal,
			       .came_us = 1700000000000001,
			       .time_us = -5,
			       .source = slice("feed"),
			       .id = slice("e-1"),
			       .type = slice("trade"),
			       .message = slice("{\"price\":1}")};
}

/* --- a segment in memory --- */

struct image {
	char bytes[100000];
	size_t len;
	size_t at[200]; /* where records begin */
	int count;
	int error;   /* of each read */
	size_t most; /* bytes of a read */
};

static struct image image;

static void put_record(void)
{
	struct record r = example((uint64_t)image.count + 1);

	image.at[image.count++] = image.len;
	record_write(image.bytes + image.len, &r, SALT);
	image.len += record_size(&r);
}

static void make_image(int records)
{
	struct segment_head head = {.first = 1, .oldest_us = 7, .salt = SALT, .count = (uint64_t)records};

	image = (struct image){.most = sizeof(image.bytes)};
	segment_head_write(image.bytes, &head);
	image.len = SEGMENT_HEAD;
	for (int i = 0; i < records; i++)
		put_record();
}

static ssize_t read_image(void *source, char *to, size_t n, off_t at)
{
	size_t left = image.len - (size_t)at;

	if (image.error) {
		errno = image.error;
		return -1;
	}
	n = n < left ? n : left;
	n = n < image.most ? n : image.most;
	memcpy(to, image.bytes + at, n);
	return (ssize_t)n;
}

/* Reads it all. Returns the records as text: their ordinals. */
static const char *read_all(struct segment_reader *s)
{
	static char text[2000];
	struct record r;
	enum segment_step step;

	*s = (struct segment_reader){.read = read_image};
	*text = '\0';
	cr_assert_eq(segment_open(s), SEGMENT_RECORD);
	while ((step = segment_next(s, &r)) == SEGMENT_RECORD)
		sprintf(text + strlen(text), "%llu ", (unsigned long long)r.ordinal);
	cr_assert_eq(step, SEGMENT_END);
	segment_close(s);
	return text;
}

Test(spool, a_record_is_read_as_it_was_written)
{
	struct segment_reader s = {.read = read_image};
	struct record r, was = example(1);

	make_image(1);
	cr_assert_eq(segment_open(&s), SEGMENT_RECORD);
	cr_assert_eq(s.head.first, 1);
	cr_assert_eq(s.head.oldest_us, 7);
	cr_assert_eq(s.head.count, 1);
	cr_assert_eq(segment_next(&s, &r), SEGMENT_RECORD);
	cr_assert(r.kind == was.kind && r.has_time && r.came_us == was.came_us && r.time_us == was.time_us);
	cr_assert(r.source.len == 4 && memcmp(r.source.at, "feed", 4) == 0);
	cr_assert(r.id.len == 3 && memcmp(r.id.at, "e-1", 3) == 0);
	cr_assert(r.type.len == 5 && memcmp(r.type.at, "trade", 5) == 0);
	cr_assert(r.message.len == was.message.len && memcmp(r.message.at, was.message.at, r.message.len) == 0);
	cr_assert_eq(segment_next(&s, &r), SEGMENT_END);
	segment_close(&s);
}

Test(spool, however_little_is_read_at_once_the_records_are_the_same)
{
	struct segment_reader s;

	make_image(5);
	image.most = 1;
	cr_assert_str_eq(read_all(&s), "1 2 3 4 5 ");
	cr_assert(s.wrong == 0 && s.torn == 0);
}

Test(spool, wherever_the_end_is_torn_the_whole_records_are_read)
{
	struct segment_reader s;

	make_image(3);
	size_t whole = image.len;
	for (image.len = image.at[2] + 1; image.len < whole; image.len++) {
		cr_assert_str_eq(read_all(&s), "1 2 ");
		cr_assert(s.wrong == 0 && s.torn == image.len - image.at[2], "%zu %zu", s.wrong, s.torn);
	}
}

Test(spool, a_flipped_bit_costs_one_record)
{
	struct segment_reader s;

	make_image(3);
	for (size_t i = image.at[1]; i < image.at[2]; i++) {
		image.bytes[i] ^= 4;
		cr_assert_str_eq(read_all(&s), "1 3 ", "bit in byte %zu", i - image.at[1]);
		cr_assert_eq(s.wrong, 1);
		image.bytes[i] ^= 4;
	}
}

Test(spool, a_record_inside_a_message_is_not_read)
{
	struct segment_reader s;
	struct record r = example(9), outer = example(1);
	char inner[200];

	make_image(0);
	record_write(inner, &r, SALT + 1); /* a stranger does not know the salt */
	outer.message = (struct slice){inner, record_size(&r)};
	record_write(image.bytes + image.len, &outer, SALT);
	image.len += record_size(&outer);
	image.count = 1;
	put_record();
	image.bytes[SEGMENT_HEAD + 30] ^= 1;
	cr_assert_str_eq(read_all(&s), "2 ");
}

Test(spool, a_file_that_is_no_segment_or_cannot_be_read_is_told_apart)
{
	struct segment_reader s = {.read = read_image};
	struct record r;

	make_image(1);
	image.bytes[3] ^= 1;
	cr_assert_eq(segment_open(&s), SEGMENT_FAILED);
	cr_assert_eq(s.error, 0);
	segment_close(&s);
	make_image(1);
	image.len = SEGMENT_HEAD - 1;
	s = (struct segment_reader){.read = read_image};
	cr_assert_eq(segment_open(&s), SEGMENT_END);
	segment_close(&s);
	make_image(1);
	image.len = SEGMENT_HEAD;
	s = (struct segment_reader){.read = read_image};
	cr_assert_eq(segment_open(&s), SEGMENT_RECORD);
	image.error = EIO;
	cr_assert_eq(segment_next(&s, &r), SEGMENT_FAILED);
	cr_assert_eq(s.error, EIO);
	segment_close(&s);
}

/* --- a directory --- */

static uv_loop_t loop;
static struct spool *spool;
static char dir[64];
static int64_t sync_ms;
static off_t synced;   /* bytes that a segment without its count had at its last sync */
static int sync_error; /* errno of the next sync */
static struct {
	uint64_t written, failed, lost;
	char back[2000]; /* the ordinals that came back */
	struct spool_segment *segments[300];
	bool is_synced, is_closed;
} seen;

static void on_written(void *arg, uint64_t last, bool is_written)
{
	*(is_written ? &seen.written : &seen.failed) = last;
}

static void on_doubt(void *arg)
{
}

static void on_record(void *arg, struct spool_segment *segment, const struct record *r)
{
	seen.segments[r->ordinal] = segment;
	sprintf(seen.back + strlen(seen.back), "%llu ", (unsigned long long)r->ordinal);
}

static void on_lost(void *arg, uint64_t events)
{
	seen.lost += events;
}

static void on_synced(void *arg)
{
	seen.is_synced = true;
}

static void on_closed(void *arg)
{
	seen.is_closed = true;
}

static void open_spool(uint64_t most)
{
	const struct spool_callbacks on = {on_written, on_doubt, on_record, on_lost, NULL};
	char error[200];

	memset(&seen, 0, sizeof(seen));
	uv_loop_init(&loop);
	spool = spool_open(&loop, dir, most, sync_ms, error, sizeof(error));
	cr_assert(spool, "%s", error);
	spool_listen(spool, &on);
}

/* In place of the C library's. */
int fdatasync(int fd)
{
	uint64_t count = 0;
	struct stat st;

	if (fstat(fd, &st) == 0 && pread(fd, &count, sizeof(count), 32) == sizeof(count) && !count)
		synced = st.st_size;
	errno = sync_error;
	sync_error = 0;
	return errno ? -1 : (int)syscall(SYS_fdatasync, fd);
}

static void make_dir(void)
{
	sync_ms = 5;
	strcpy(dir, "/tmp/wsonce-spool-XXXXXX");
	cr_assert(mkdtemp(dir));
	strcat(dir, "/spool");
}

static int count_files(const char *ending)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += strlen(e->d_name) > strlen(ending) &&
		     strcmp(e->d_name + strlen(e->d_name) - strlen(ending), ending) == 0;
	if (d)
		closedir(d);
	return n;
}

/* A fixed wait would be too long or too short. */
#define wait_for(what) \
	do { \
		uv_update_time(&loop); \
		for (uint64_t end_ = uv_now(&loop) + 10000; !(what) && uv_now(&loop) < end_;) { \
			uv_run(&loop, UV_RUN_NOWAIT); \
			usleep(200); \
		} \
		cr_assert(what); \
	} while (0)

/* For a stopped clock. */
#define run_until(what) \
	for (int i_ = 0; !(what); i_++) { \
		cr_assert_lt(i_, 50000); \
		uv_run(&loop, UV_RUN_NOWAIT); \
		usleep(200); \
	}

static void close_spool(void)
{
	spool_close(spool, on_closed, NULL);
	wait_for(seen.is_closed);
	loop_end(&loop);
}

static void remove_dir(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %.*s", (int)strlen(dir) - 6, dir);
	cr_assert_eq(system(command), 0);
}

static int run_in_dir(const char *script)
{
	char command[1000];

	snprintf(command, sizeof(command), "cd %s && { %s; }", dir, script);
	return system(command);
}

TestSuite(spooled, .init = make_dir, .fini = remove_dir);

/* Appends that many records and waits until they are written. */
static void append(int n)
{
	struct record r;

	for (int i = 0; i < n; i++) {
		r = example(0);
		struct spool_segment *segment = spool_append(spool, &r);
		seen.segments[r.ordinal] = segment;
	}
	spool_flush(spool);
	wait_for(seen.written == r.ordinal);
}

Test(spooled, what_has_settled_leaves_no_file)
{
	struct stat st;

	open_spool(1 << 30);
	cr_assert_eq(stat(dir, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0700);
	append(3);
	cr_assert_eq(count_files(".segment"), 1);
	cr_assert_eq(spool_view(spool).events, 3);
	for (int i = 1; i <= 3; i++)
		spool_settle(spool, seen.segments[i]);
	close_spool();
	cr_assert_eq(count_files(".segment"), 0);
}

Test(spooled, what_left_memory_comes_back_in_order_and_once)
{
	open_spool(1 << 30);
	append(10);
	for (int i = 10; i > 4; i--)
		spool_put_away(seen.segments[i], (uint64_t)i);
	cr_assert_eq(spool_view(spool).away, 6);
	wait_for((spool_read(spool, 100), !spool_view(spool).away));
	cr_assert_str_eq(seen.back, "5 6 7 8 9 10 ");
	spool_put_away(seen.segments[5], 5); /* behind where it was read last */
	wait_for((spool_read(spool, 100), !spool_view(spool).away));
	cr_assert_str_eq(seen.back, "5 6 7 8 9 10 5 ");
	close_spool();
	cr_assert_eq(seen.lost, 0);
}

Test(spooled, another_process_finds_what_had_not_settled)
{
	open_spool(1 << 30);
	append(3);
	close_spool();
	open_spool(1 << 30);
	cr_assert_eq(spool_view(spool).events, 3);
	cr_assert_eq(spool_view(spool).oldest_us, 1700000000000001);
	append(1); /* its ordinal is a new one */
	cr_assert_eq(seen.written, 4);
	spool_read(spool, 1 << 20);
	wait_for(!spool_view(spool).away);
	cr_assert_str_eq(seen.back, "1 2 3 ");
	for (int i = 1; i <= 4; i++)
		spool_settle(spool, seen.segments[i]);
	close_spool();
	cr_assert_eq(count_files(".segment"), 0);
}

Test(spooled, the_oldest_is_told_when_the_clock_was_set_back)
{
	struct record r = example(0);

	open_spool(1 << 30);
	append(1);
	r.came_us--;
	seen.segments[2] = spool_append(spool, &r);
	append(1);
	spool_settle(spool, seen.segments[1]);
	close_spool();
	open_spool(1 << 30);
	cr_assert_eq(spool_view(spool).oldest_us, r.came_us);
	close_spool();
}

static const char *segment_path(void)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/" SEGMENT_NAME, dir, 1ull);
	return path;
}

/* As when `wsonce spool` runs beside a listener: half a record at the end of a file is not damage, nor are the records
 * after it once it is whole. */
Test(spooled, what_a_file_grows_by_while_it_is_read_is_not_read)
{
	struct segment_file file;
	struct segment_reader s = {.read = segment_pread, .source = &file};
	struct record r;

	make_image(3);
	cr_assert_eq(mkdir(dir, 0700), 0);
	int fd = open(segment_path(), O_RDWR | O_CREAT, 0600);
	cr_assert_eq(pwrite(fd, image.bytes, image.at[1] + 60, 0), (ssize_t)image.at[1] + 60);
	cr_assert_eq(segment_open_file(&file, AT_FDCWD, segment_path()), 0);
	cr_assert_eq(segment_open(&s), SEGMENT_RECORD);
	cr_assert_eq(segment_next(&s, &r), SEGMENT_RECORD);
	cr_assert_eq(pwrite(fd, image.bytes, image.len, 0), (ssize_t)image.len);
	cr_assert_eq(segment_next(&s, &r), SEGMENT_END);
	cr_assert(s.wrong == 0 && s.torn == 60, "%zu %zu", s.wrong, s.torn);
	segment_close(&s);
	close(file.fd);
	close(fd);
}

static void damage(off_t at)
{
	int fd = open(segment_path(), O_RDWR);

	cr_assert_eq(pwrite(fd, "\xff\xff", 2, at), 2);
	close(fd);
}

Test(spooled, a_damaged_record_is_skipped_and_the_file_is_kept)
{
	open_spool(1 << 30);
	append(3);
	close_spool();
	damage(SEGMENT_HEAD + 20);
	open_spool(1 << 30);
	spool_read(spool, 1 << 20);
	wait_for(seen.lost == 1);
	cr_assert_str_eq(seen.back, "2 3 ");
	spool_settle(spool, seen.segments[2]);
	spool_settle(spool, seen.segments[3]);
	close_spool();
	cr_assert_eq(count_files(".segment"), 0);
	cr_assert_eq(count_files(".bad"), 1);
}

Test(spooled, the_second_process_on_a_directory_is_refused)
{
	char error[200];

	open_spool(1 << 30);
	cr_assert_null(spool_open(&loop, dir, 1, 5, error, sizeof(error)));
	cr_assert(strstr(error, "another process uses it"), "%s", error);
	close_spool();
}

Test(spooled, a_link_in_the_place_of_the_lock_is_not_followed)
{
	char error[200], victim[300], lock[300];

	snprintf(victim, sizeof(victim), "%s.victim", dir);
	snprintf(lock, sizeof(lock), "%s/" SEGMENT_LOCK, dir);
	cr_assert_eq(mkdir(dir, 0700) + symlink(victim, lock), 0);
	cr_assert_null(spool_open(&loop, dir, 1, 5, error, sizeof(error)));
	cr_assert_eq(access(victim, F_OK), -1, "%s", error);
	unlink(lock);
}

/* Its owner could take away what is in it. */
Test(spooled, a_directory_of_another_user_is_refused)
{
	char error[200];

	if (geteuid())
		cr_skip_test("only root can make one");
	cr_assert_eq(mkdir(dir, 0777) + chown(dir, 65534, 65534), 0);
	cr_assert_null(spool_open(&loop, dir, 1, 5, error, sizeof(error)));
	cr_assert(strstr(error, "another user owns the directory"), "%s", error);
}

Test(spooled, a_directory_that_is_removed_is_done_without)
{
	open_spool(1 << 30);
	append(1);
	remove_dir();
	cr_assert(spool_can_take(spool));
	spool_append(spool, &(struct record){.message = slice("{}")});
	spool_flush(spool);
	wait_for(seen.failed == 2);
	cr_assert_not(spool_can_take(spool));
	cr_assert(spool_view(spool).reason);
	close_spool();
}

/* What another process does with a new directory by that name is its own business. */
Test(spooled, a_directory_that_is_renamed_is_used_on)
{
	char moved[100];
	struct stat st;

	snprintf(moved, sizeof(moved), "%s-away", dir);
	open_spool(1 << 30);
	append(2);
	cr_assert_eq(rename(dir, moved), 0);
	append(1);
	for (int i = 1; i <= 3; i++)
		spool_put_away(seen.segments[i], (uint64_t)i);
	wait_for((spool_read(spool, 100), !spool_view(spool).away));
	cr_assert_str_eq(seen.back, "1 2 3 ");
	for (int i = 1; i <= 3; i++)
		spool_settle(spool, seen.segments[i]);
	close_spool();
	cr_assert_neq(stat(dir, &st), 0);
	strcpy(dir, moved);
	cr_assert_eq(count_files(".segment"), 0);
	strcpy(strstr(dir, "-away"), "");
}

Test(spooled, a_full_spool_takes_no_more_until_segments_have_gone)
{
	open_spool(1000);
	cr_assert(spool_can_take(spool));
	append(20);
	cr_assert_not(spool_can_take(spool));
	cr_assert(spool_is_out(spool));
	for (int i = 1; i <= 20; i++)
		spool_settle(spool, seen.segments[i]);
	wait_for((spool_flush(spool), spool_can_take(spool))); /* a second of idleness ends the segment */
	close_spool();
}

Test(spooled, what_was_appended_before_a_sync_is_on_disk)
{
	open_spool(1 << 30);
	spool_append(spool, &(struct record){.message = slice("{}")});
	spool_sync(spool, on_synced, NULL);
	wait_for(seen.is_synced);
	cr_assert_eq(seen.written, 1);
	close_spool();
}

static struct events events;

/* Opens a spool, and returns what writes events to it. */
static struct spooling *open_spooling(const struct spooling_callbacks *on)
{
	static const struct config config = {.inflight_bytes = 1 << 20, .batch_max = 10};
	struct spooling *s;

	open_spool(1 << 30);
	events_init(&events);
	s = spooling_new(&loop, &config, &events, on);
	spooling_use(s, spool);
	return s;
}

static struct event *take(struct spooling *s, const char *id)
{
	struct envelope_view view = {.id = slice(id), .type = slice("")};
	struct event *ev = event_new(&events, EV_CLAIMING, "{}", 2, &view, NULL, 0);

	spooling_take(s, ev, false);
	return ev;
}

static void limit_files(rlim_t bytes)
{
	setrlimit(RLIMIT_FSIZE, &(const struct rlimit){bytes, RLIM_INFINITY});
}

static void on_begin(void *arg, struct event *ev, bool is_ours)
{
}

/* What a disk has taken that hangs may never be there. */
Test(spooled, an_event_is_unsafe_until_it_is_written)
{
	const struct spooling_callbacks on = {.begin = on_begin};
	struct spooling *s;

	s = open_spooling(&on);
	take(s, "a");
	cr_assert_eq(spooling_unsafe(s), 1);
	spooling_turn(s);
	cr_assert_eq(spooling_unsafe(s), 1);
	wait_for(!spooling_unsafe(s));
	events_clear(&events);
	close_spool();
	spooling_free(s);
}

static void on_begin_counted(void *arg, struct event *ev, bool is_ours)
{
	++*(int *)arg;
}

/* Events that are to be written before they are claimed do not wait for it. */
Test(spooled, a_disk_that_hangs_is_done_without)
{
	int begun = 0;
	const struct spooling_callbacks on = {.begin = on_begin_counted, .arg = &begun};
	struct spooling *s;

	capture_begin();
	clock_stop();
	s = open_spooling(&on);
	take(s, "a");
	spooling_turn(s);
	cr_assert(!begun && !spool_is_out(spool));
	clock_pass(5000);
	uv_update_time(&loop);
	spooling_turn(s);
	cr_assert(begun == 1 && spool_is_out(spool) && spool_view(spool).reason);
	spooling_turn(s);
	cr_assert_eq(captured_times("reason=\"the disk does not answer\""), 1, "%s", captured());
	run_until(!spool_is_out(spool));
	cr_assert_eq(begun, 1);
	capture_end();
	events_clear(&events);
	spool_close(spool, on_closed, NULL);
	run_until(seen.is_closed);
	spooling_free(s);
}

/* A disk that fails may have lost what was written before. */
Test(spooled, after_a_failure_what_is_in_memory_is_written_again)
{
	const struct spooling_callbacks on = {.begin = on_begin};
	struct spooling *s;

	clock_stop();
	s = open_spooling(&on);
	take(s, "a");
	spooling_turn(s);
	run_until(!spooling_unsafe(s));
	cr_assert_eq(run_in_dir("rm *.segment"), 0);
	take(s, "b");
	spooling_turn(s);
	run_until(spool_is_out(spool));
	cr_assert_eq(spooling_unsafe(s), 2);
	clock_pass(5000);
	uv_update_time(&loop);
	run_until((spooling_turn(s), !spooling_unsafe(s)));
	cr_assert_eq(spool_view(spool).events, 2);
	cr_assert_eq(count_files(".segment"), 1);
	sync_error = ENOSPC; /* as of a volume that is larger than its disks */
	spool_sync(spool, on_synced, NULL);
	run_until(seen.is_synced);
	cr_assert_eq(spooling_unsafe(s), 2);
	clock_pass(5000);
	uv_update_time(&loop);
	limit_files(60);
	signal(SIGXFSZ, SIG_IGN);
	spooling_turn(s);
	run_until(spool_is_out(spool));
	limit_files(RLIM_INFINITY);
	cr_assert_eq(spool_view(spool).events, 2, "what was written before stays until it is written again");
	cr_assert_eq(spooling_unsafe(s), 2);
	clock_pass(5000);
	uv_update_time(&loop);
	run_until((spooling_turn(s), !spooling_unsafe(s)));
	cr_assert_eq(spool_view(spool).events, 2);
	run_until(count_files(".segment") == 1);
	sync_error = EROFS; /* after an append that failed */
	limit_files(60);
	take(s, "c");
	spooling_turn(s);
	run_until(spool_is_out(spool));
	limit_files(RLIM_INFINITY);
	cr_assert_eq(spooling_unsafe(s), 3);
	events_clear(&events);
	spool_close(spool, on_closed, NULL);
	run_until(seen.is_closed);
	spooling_free(s);
}

/* Otherwise no record would be left if the younger one cannot be written. */
Test(spooled, of_two_records_the_one_on_disk_stays)
{
	const struct spooling_callbacks on = {.begin = on_begin};
	struct record r = example(0);
	struct spooling *s;
	struct event *ev;

	s = open_spooling(&on);
	struct spool_segment *older = spool_append(spool, &r);
	ev = take(s, "e-1");
	spooling_turn(s);
	spooling_join(s, ev, older, r.ordinal);
	cr_assert_eq(spooling_unsafe(s), 0);
	cr_assert_eq(ev->ordinal, r.ordinal);
	cr_assert_eq(spool_view(spool).events, 1);
	events_clear(&events);
	close_spool();
	spooling_free(s);
}

Test(spooled, a_spool_that_has_emptied_is_not_full)
{
	open_spool(1000);
	append(20);
	spool_flush(spool);
	cr_assert(spool_is_out(spool));
	for (int i = 1; i <= 20; i++)
		spool_settle(spool, seen.segments[i]);
	wait_for((spool_flush(spool), !spool_is_out(spool)));
	cr_assert_null(spool_view(spool).reason);
	close_spool();
}

/* As long as other files take the descriptors. */
Test(spooled, a_segment_that_cannot_be_read_is_tried_again)
{
	struct rlimit files;

	open_spool(1 << 30);
	append(3);
	for (int i = 1; i <= 3; i++)
		spool_put_away(seen.segments[i], (uint64_t)i);
	getrlimit(RLIMIT_NOFILE, &files);
	struct rlimit none = files;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	spool_read(spool, 100);
	for (int i = 0; i < 100; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	cr_assert_eq(seen.lost, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	loop.time += 5000;
	spool_read(spool, 100);
	wait_for((loop.time += 5000, spool_read(spool, 100), !spool_view(spool).away));
	cr_assert_str_eq(seen.back, "1 2 3 ");
	for (int i = 1; i <= 3; i++)
		spool_settle(spool, seen.segments[i]);
	close_spool();
	cr_assert_eq(count_files(".segment"), 0);
	cr_assert_eq(count_files(".bad"), 0);
}

/* Nothing may be written for days after the disk works again. */
Test(spooled, trouble_is_over_without_another_write)
{
	struct rlimit files, none = {0};

	capture_begin();
	clock_stop();
	open_spool(1 << 30);
	getrlimit(RLIMIT_NOFILE, &files);
	none.rlim_max = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	spool_append(spool, &(struct record){.message = slice("{}")});
	spool_flush(spool);
	run_until(seen.failed == 1);
	setrlimit(RLIMIT_NOFILE, &files);
	clock_pass(5000);
	uv_update_time(&loop);
	cr_assert(spool_can_take(spool));
	spool_append(spool, &(struct record){.message = slice("{}")});
	cr_assert_not(spool_can_take(spool), "one record shows whether the disk works");
	spool_flush(spool);
	run_until(seen.written == 2);
	cr_assert(spool_can_take(spool));
	clock_pass(5000);
	uv_update_time(&loop);
	spool_flush(spool);
	cr_assert_eq(captured_times("the spool can be written again"), 1, "%s", captured());
	capture_end();
	spool_close(spool, on_closed, NULL);
	run_until(seen.is_closed);
}

/* One segment that cannot be read does not keep the others. */
Test(spooled, events_of_other_segments_come_back_meanwhile)
{
	open_spool(800);
	append(2);
	cr_assert_eq(count_files(".segment"), 2);
	spool_put_away(seen.segments[1], 1);
	spool_put_away(seen.segments[2], 2);
	cr_assert_eq(run_in_dir("mv *1.segment x && mkdir d && ln -s d 00000000000000000001.segment"), 0);
	wait_for((loop.time += 5000, spool_read(spool, 100), *seen.back));
	cr_assert_str_eq(seen.back, "2 ");
	cr_assert_eq(seen.lost, 0);
	/* in one step: a read may be under way */
	cr_assert_eq(run_in_dir("mv -T x 00000000000000000001.segment && rmdir d"), 0);
	wait_for((loop.time += 5000, spool_read(spool, 100), !spool_view(spool).away));
	cr_assert_str_eq(seen.back, "2 1 ");
	close_spool();
}

Test(spooled, a_segment_that_is_gone_costs_its_events)
{
	open_spool(1 << 30);
	append(2);
	spool_put_away(seen.segments[2], 2);
	cr_assert_eq(run_in_dir("rm *.segment"), 0);
	spool_read(spool, 100);
	wait_for(seen.lost == 1);
	cr_assert_eq(spool_view(spool).events, 1);
	close_spool();
}

/* Their names are not given to segments either. */
Test(spooled, files_of_others_stay)
{
	cr_assert_eq(mkdir(dir, 0700), 0);
	cr_assert_eq(run_in_dir("printf hello >00000000000000000004.segment;"
				"mkdir 00000000000000000005.segment; mkfifo 00000000000000000006.segment;"
				"ln -s 7 00000000000000000007.segment; seq 1000 >00000000000000000008.segment;"
				"printf bad >00000000000000000009.segment.bad; printf note >00010.segment"),
		     0);
	open_spool(1 << 30);
	cr_assert_eq(spool_view(spool).events, 0);
	spool_append(spool, &(struct record){.message = slice("{}")});
	spool_flush(spool);
	wait_for(seen.written == 10);
	close_spool();
	cr_assert_eq(run_in_dir("test $(cat *4.segment) = hello && test -d *5.segment && test -p *6.segment &&"
				"test -L *7.segment && test $(cat *8.segment | wc -l) = 1000 &&"
				"test $(cat *9.segment.bad) = bad && test $(cat 00010.segment) = note"),
		     0);
}

Test(spooled, a_file_that_took_the_place_of_a_segment_stays)
{
	open_spool(1 << 30);
	append(1);
	cr_assert_eq(run_in_dir("rm *.segment && seq 1000 >00000000000000000001.segment"), 0);
	spool_settle(spool, seen.segments[1]);
	close_spool();
	cr_assert_eq(run_in_dir("test $(cat *.segment | wc -l) = 1000"), 0);
}

/* The rest of the only record may be useful to somebody. */
Test(spooled, a_segment_without_a_whole_record_is_kept)
{
	open_spool(1 << 30);
	append(1);
	cr_assert_eq(run_in_dir("for f in *.segment; do head -c 100 $f >x && mv x $f; done"), 0);
	close_spool();
	cr_assert_eq(run_in_dir("for f in *.segment; do head -c 32 $f >x && head -c 16 /dev/zero >>x &&"
				"tail -c +49 $f >>x && mv x $f; done"),
		     0);
	open_spool(1 << 30);
	cr_assert_eq(spool_view(spool).events, 0);
	close_spool();
	cr_assert_eq(count_files(".bad"), 1);
}

Test(spooled, a_segment_whose_name_is_not_its_own_is_left_alone)
{
	open_spool(1 << 30);
	append(2);
	close_spool();
	cr_assert_eq(run_in_dir("mv *.segment 00000000000000000007.segment"), 0);
	open_spool(1 << 30);
	cr_assert_eq(spool_view(spool).events, 0);
	close_spool();
	cr_assert_eq(count_files(".segment"), 1);
}

/* To look for records in 30 GiB takes 15 seconds, while the listener neither starts nor ends. */
Test(spooled, a_file_that_is_larger_than_any_segment_is_left_alone, .timeout = 5)
{
	open_spool(1 << 30);
	append(2);
	close_spool();
	cr_assert_eq(run_in_dir("for f in *.segment; do head -c 32 $f >x && truncate -s 30G x && mv x $f; done"), 0);
	open_spool(1 << 30);
	cr_assert_eq(spool_view(spool).events, 0);
	close_spool();
	cr_assert_eq(count_files(".segment"), 1);
}

/* A loss of power must not leave a count of records that are not there. */
Test(spooled, the_count_is_written_after_its_records_are_on_disk)
{
	struct stat st;

	sync_ms = 3600000;
	synced = 0;
	open_spool(1 << 30);
	append(3);
	close_spool();
	cr_assert_eq(stat(segment_path(), &st), 0);
	cr_assert_eq(synced, st.st_size);
}

static int deleted_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	char path[300], target[300];
	int n = 0;

	for (struct dirent *e; (e = readdir(d));) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = '\0';
		n += strstr(target, dir) && strstr(target, "(deleted)");
	}
	closedir(d);
	return n;
}

Test(spooled, a_segment_that_was_removed_takes_no_room)
{
	open_spool(1 << 30);
	append(3);
	for (int i = 1; i <= 3; i++)
		spool_put_away(seen.segments[i], (uint64_t)i);
	wait_for((spool_read(spool, 100), !spool_view(spool).away));
	for (int i = 1; i <= 3; i++)
		spool_settle(spool, seen.segments[i]);
	wait_for((loop.time += 1000, spool_flush(spool), !count_files(".segment")));
	cr_assert_eq(deleted_files(), 0);
	close_spool();
}
