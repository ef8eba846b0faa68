/* The lines that log.c writes to standard error. */
#include "base/log.h"
#include "base/log_spell.h"

#include "unit.h"
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>

static int kept_stderr, capture;
static char line[10000];
static const char *volatile absent; /* NULL, which the compiler does not see */

static void init(void)
{
	log_setup(LOG_INFO, LOG_TEXT, NULL);
	capture = memfd_create("log", 0);
	kept_stderr = dup(STDERR_FILENO);
	dup2(capture, STDERR_FILENO);
}

static void fini(void)
{
	dup2(kept_stderr, STDERR_FILENO);
}

TestSuite(log, .init = init, .fini = fini, .timeout = 60);

/* What was written since the last call, without its newline. */
static const char *written(void)
{
	off_t size = lseek(capture, 0, SEEK_CUR);
	ssize_t n = pread(capture, line, sizeof(line) - 1, 0);

	cr_assert_eq(n, size);
	line[n] = '\0';
	cr_assert_eq(ftruncate(capture, 0), 0);
	lseek(capture, 0, SEEK_SET);
	if (!n)
		return "";
	cr_assert_eq(line[n - 1], '\n', "%s", line);
	line[n - 1] = '\0';
	cr_assert_null(strchr(line, '\n'), "more than one line: %s", line);
	return line;
}

/* What was written, without the time, which has 29 characters in text and 34 in JSON. */
static const char *written_after(const char *begin, size_t time_len)
{
	const char *text = written();

	cr_assert_eq(strncmp(text, begin, strlen(begin)), 0, "%s", text);
	cr_assert_eq(text[time_len - 1], ' ', "%s", text);
	return text + time_len;
}

static const char *written_text(void)
{
	return written_after("time=20", 30);
}

/* Standard error is a pipe into a program that was stopped. */
Test(log, lines_that_nobody_reads_are_lost_and_counted)
{
	static char room[1 << 20];
	ssize_t n;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	while (write(ends[1], room, sizeof(room)) > 0)
		;
	cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
	dup2(ends[1], STDERR_FILENO);
	for (int i = 0; i < 3; i++)
		log_warn("nobody", "n=%d", i);
	while (read(ends[0], room, sizeof(room)) > 0)
		;
	log_warn("somebody", "n=%d", 1);
	log_warn("again", "n=%d", 2);
	n = read(ends[0], room, sizeof(room) - 1);
	cr_assert_gt(n, 0);
	room[n] = '\0';
	cr_assert(strstr(room, "event=somebody n=1\n") && strstr(room, "event=again n=2\n"), "%s", room);
	cr_assert(strstr(room, "event=\"log lines were lost: standard error was full\" lines=3\n"), "%s", room);
	cr_assert_null(strstr(room, "event=nobody"));
}

/* Standard error is a file on a disk that is full for a while. */
Test(log, lines_that_a_full_disk_refuses_are_counted_and_a_line_that_it_cuts_has_an_end)
{
	struct rlimit room = {.rlim_cur = 20, .rlim_max = RLIM_INFINITY};
	char text[2000] = "";
	ssize_t n;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
	for (int i = 0; i < 3; i++)
		log_warn("nobody", "n=%d", i);
	room.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
	log_warn("somebody", "n=%d", 1);
	n = pread(capture, text, sizeof(text) - 1, 0);
	cr_assert_gt(n, 21);
	cr_assert_eq(strncmp(text + 20, "\ntime=", 6), 0, "%s", text);
	cr_assert(strstr(text, "event=somebody n=1\n"), "%s", text);
	cr_assert(strstr(text, "event=\"log lines were lost: standard error was full\" lines=3\n"), "%s", text);
}

Test(log, a_spell_is_logged_when_it_begins_each_minute_and_when_it_ends)
{
	struct log_spell s = {.times = 0};

	log_setup(LOG_INFO, LOG_TEXT, "a");
	cr_assert(log_spell_on(&s, 1000, "fails", "full"));
	cr_assert_str_eq(written_text(), "level=warn instance=a event=fails reason=full");
	cr_assert_not(log_spell_on(&s, 60999, "fails", "full"));
	cr_assert_str_eq(written(), "");
	cr_assert(log_spell_on(&s, 61000, "fails", "full"));
	cr_assert_str_eq(written_text(), "level=warn instance=a event=fails times=3 for_s=60 reason=full");
	log_spell_off(&s, 70999, "works");
	cr_assert_str_eq(written(), "", "it may fail again");
	log_spell_off(&s, 71000, "works");
	cr_assert_str_eq(written_text(), "level=info instance=a event=works times=3 for_s=60");
	log_spell_off(&s, 90000, "works");
	cr_assert_str_eq(written(), "", "it has ended");
	cr_assert(log_spell_on(&s, 90000, "fails", "full"));
	cr_assert_str_eq(written_text(), "level=warn instance=a event=fails reason=full");
}

/* What was written, which must be one JSON object. The caller drops the reference. */
static json_t *written_json(void)
{
	json_error_t where;
	const char *text = written();
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &where);

	cr_assert(json_is_object(object), "%s: %s", where.text, text);
	return object;
}

static void assert_member(const json_t *object, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(object, key));

	cr_assert_not_null(text, "%s: %s", key, line);
	cr_assert_str_eq(text, value);
}

/* --- text --- */

Test(log, text_line_has_time_level_event_and_fields)
{
	log_info("connected", "addr=%s took_ms=%ld", "127.0.0.1:80", 12L);
	cr_assert_str_eq(written_text(), "level=info event=connected addr=127.0.0.1:80 took_ms=12");
}

Test(log, time_is_utc_with_milliseconds)
{
	int n = 0;

	log_info("x", "a=%d", 1);
	written();
	sscanf(line, "time=%*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ %n", &n);
	cr_assert_eq(n, 30, "%s", line);
}

Test(log, every_kind_of_number_is_written)
{
	log_info("x", "a=%d b=%u c=%ld d=%lu e=%lld f=%zu g=%.1f h=%llu", -1, 4000000000u, -2L, 3UL, -5000000000LL,
		 (size_t)6, 7.25, 18000000000000000000ULL);
	cr_assert_str_eq(written_text(), "level=info event=x a=-1 b=4000000000 c=-2 d=3 e=-5000000000 f=6 g=7.2 "
					 "h=18000000000000000000");
}

Test(log, null_string_is_left_out_with_its_key)
{
	log_info("x", "a=%s b=%s c=%d", absent, "b", 1);
	cr_assert_str_eq(written_text(), "level=info event=x b=b c=1");
	log_info("x", "a=%s", absent);
	cr_assert_str_eq(written_text(), "level=info event=x");
}

Test(log, value_that_is_more_than_a_word_is_quoted)
{
	log_warn("two words", "a=%s b=%s c=%s d=%s", "", "x y", "k=v", "\xc3\xa9");
	cr_assert_str_eq(written_text(), "level=warn event=\"two words\" a=\"\" b=\"x y\" c=\"k=v\" d=\"\xc3\xa9\"");
}

Test(log, quotes_backslashes_and_control_characters_are_escaped)
{
	log_info("x", "a=%s b=%s c=%s", "say \"hi\"", "C:\\x", "a\nb\t\x01\x7f");
	cr_assert_str_eq(written_text(),
			 "level=info event=x a=\"say \\\"hi\\\"\" b=\"C:\\\\x\" c=\"a\\u000ab\\u0009\\u0001\\u007f\"");
}

Test(log, percent_signs_in_a_value_are_nothing_special)
{
	log_info("x", "a=%s b=%d", "%s%n", 1);
	cr_assert_str_eq(written_text(), "level=info event=x a=%s%n b=1");
}

Test(log, control_characters_beyond_ascii_are_escaped_too)
{
	log_info("x", "a=%s", "\xc2\x9b\x32J\xc2\xa0\xc3\xa4");
	cr_assert_str_eq(written_text(), "level=info event=x a=\"\\u009b2J\xc2\xa0\xc3\xa4\"");
}

Test(log, characters_that_turn_the_direction_or_end_a_line_are_escaped)
{
	log_info("x", "a=%s", "\u061c\u200e\u200f\u2028\u202e\u2066\u2069\u200d\u2027\u202f\u206a");
	cr_assert_str_eq(written_text(), "level=info event=x a=\"\\u061c\\u200e\\u200f\\u2028\\u202e\\u2066\\u2069"
					 "\u200d\u2027\u202f\u206a\"");
}

Test(log, instance_is_on_every_line)
{
	log_setup(LOG_INFO, LOG_TEXT, "host 1");
	log_error("x", "a=%d", 1);
	cr_assert_str_eq(written_text(), "level=error instance=\"host 1\" event=x a=1");
}

Test(log, line_below_the_level_is_not_written)
{
	log_debug("x", "a=%d", 1);
	cr_assert_str_eq(written(), "");
	log_setup(LOG_ERROR, LOG_TEXT, NULL);
	log_warn("x", "a=%d", 1);
	cr_assert_str_eq(written(), "");
	log_error("x", "a=%d", 1);
	cr_assert_str_neq(written(), "");
	log_setup(LOG_DEBUG, LOG_TEXT, NULL);
	log_debug("x", "a=%d", 1);
	cr_assert_str_eq(written_text(), "level=debug event=x a=1");
}

/* --- JSON --- */

Test(log, json_line_is_an_object_with_the_values_as_they_are)
{
	log_setup(LOG_INFO, LOG_JSON, "host 1");
	log_warn("two words", "a=%s b=%s c=%d d=%.1f e=%s", "say \"hi\" \\", "\n\x01\xc3\xa9", -7, 0.5, "12");
	json_t *object = written_json();
	assert_member(object, "level", "warn");
	assert_member(object, "instance", "host 1");
	assert_member(object, "event", "two words");
	assert_member(object, "a", "say \"hi\" \\");
	assert_member(object, "b", "\n\x01\xc3\xa9");
	assert_member(object, "e", "12");
	cr_assert_eq(json_integer_value(json_object_get(object, "c")), -7);
	cr_assert_eq(json_real_value(json_object_get(object, "d")), 0.5);
	cr_assert_eq(strlen(json_string_value(json_object_get(object, "time"))), 24);
	json_decref(object);
}

Test(log, null_string_is_left_out_of_json)
{
	log_setup(LOG_INFO, LOG_JSON, NULL);
	log_info("x", "a=%s b=%s", absent, "b");
	json_t *object = written_json();
	cr_assert_null(json_object_get(object, "a"));
	cr_assert_null(json_object_get(object, "instance"));
	assert_member(object, "b", "b");
	json_decref(object);
}

/* --- long values --- */

static void write_long_values(char c)
{
	char text[5001];

	memset(text, c, 5000);
	text[5000] = '\0';
	log_info("x", "a=%s b=%s c=%s d=%s e=%s f=%s g=%s h=%s n=%d", text, text, text, text, text, text, text, text,
		 1);
}

Test(log, long_value_is_cut)
{
	char text[5001];

	memset(text, 'x', 5000);
	text[5000] = '\0';
	log_info("x", "a=%s b=%d", text, 1);
	cr_assert_lt(strlen(written_text()), 700);
	cr_assert_str_eq(line + strlen(line) - 5, "\" b=1");
}

Test(log, line_with_too_much_in_it_is_still_one_line)
{
	write_long_values('x');
	cr_assert_lt(strlen(written_text()), 4096);
	write_long_values('\n');
	cr_assert_lt(strlen(written_text()), 4096);
}

Test(log, json_line_with_too_much_in_it_is_still_json)
{
	log_setup(LOG_INFO, LOG_JSON, NULL);
	write_long_values('x');
	json_decref(written_json());
	write_long_values('\n');
	json_decref(written_json());
	write_long_values('"');
	json_decref(written_json());
}

Test(log, long_value_is_cut_between_two_characters)
{
	char text[2000] = "";

	for (int i = 0; i < 900; i++)
		strcat(text, i ? "\xc3\xa9" : "x");
	log_setup(LOG_INFO, LOG_JSON, NULL);
	log_info("x", "a=%s", text);
	json_decref(written_json());
}

Test(log, json_line_is_json_whatever_bytes_a_value_holds)
{
	log_setup(LOG_INFO, LOG_JSON, NULL);
	log_info("x", "a=%s", "\xff\xc3(");
	json_decref(written_json());
}

Test(log, lines_that_a_minute_lacks_are_counted_in_the_next_one)
{
	capture_begin();
	for (int i = 0; i < 25; i++)
		log_one_of_many(LOG_WARN, 60000, "gone", "source=%d", i);
	log_one_of_many(LOG_WARN, 120000, "gone", "source=%d", 25);
	cr_assert_eq(captured_times("event=gone"), 21, "%s", captured());
	cr_assert_eq(captured_times("source=25 more_lines=5"), 1, "%s", captured());
	capture_end();
}

Test(log, lines_about_many_webhooks_are_limited_each_minute)
{
	struct log_spell spells[25] = {{.target = NULL}};

	capture_begin();
	for (int i = 0; i < 25; i++)
		spells[i].target = "hook";
	for (int minute = 0; minute < 3; minute++)
		for (int i = 0; i < 25; i++)
			log_spell_on(&spells[i], 60000 * (minute + 1), "webhook fails", "refused");
	cr_assert_eq(captured_times("target=hook reason=refused"), 20, "%s", captured());
	cr_assert_eq(captured_times("times=2 for_s=60"), 20);
	cr_assert_eq(captured_times("times=3 for_s=120 reason=refused more_lines=5"), 1, "%s", captured());
	capture_end();
}

Test(log, failing_webhooks_hide_no_source_and_no_source_hides_them)
{
	struct log_spell spells[25] = {{.target = NULL}};

	capture_begin();
	for (int i = 0; i < 25; i++)
		log_of_many(i % 2 ? LOG_AGAIN : LOG_NEW, LOG_WARN, 60000, "gone", "source=%d", i);
	for (int i = 0; i < 25; i++) {
		spells[i].target = "hook";
		log_spell_on(&spells[i], 60000, "webhook fails", "refused");
	}
	for (int i = 0; i < 25; i++)
		log_one_of_many(LOG_WARN, 120000, "gone", "source=%d", i);
	for (int i = 0; i < 25; i++)
		log_spell_on(&spells[i], 120000, "webhook fails", "refused");
	log_of_many(LOG_AGAIN, LOG_WARN, 120000, "gone", "source=%d", 99);
	cr_assert_eq(captured_times("target=hook reason=refused"), 20, "%s", captured());
	cr_assert_eq(captured_times("target=hook times=2"), 20, "%s", captured());
	cr_assert_eq(captured_times("source=99 "), 1, "%s", captured());
	capture_end();
}

Test(log, warnings_of_failures_that_go_on_hide_no_new_one)
{
	capture_begin();
	for (int i = 0; i < 25; i++)
		log_of_many(LOG_AGAIN, LOG_WARN, 60000, "gone", "source=%d", i);
	log_of_many(LOG_NEW, LOG_WARN, 60000, "gone", "source=%d", 25);
	cr_assert_eq(captured_times("event=gone"), 21, "%s", captured());
	cr_assert_eq(captured_times("source=25 "), 1, "%s", captured());
	capture_end();
}
