/* Whose turn it is to read a source, in reading.c, and what is said of sources: from what other listeners say. */
#include "config/profile.h"
#include "fleet/reading.h"
#include "unit.h"

#include "base/backoff.h"
#include "base/hash.h"

#define URL     "ws://feed/x"
#define BEAT_MS 1000
#define TURN_MS 10000
#define LOST_MS 5000
#define NONCE   ".0123456789abcdef@"

static struct readings *readings;
static struct roster roster;
static struct config config;
static struct reading reading, beside; /* of the only line, or of both */
static bool is_ours, is_unable;
static int turns;
static int64_t now;

static struct reading on_ask(void *arg, size_t i)
{
	cr_assert_lt(i, readings_count(readings));
	return i ? beside : reading;
}

static void on_turn(void *arg, size_t i, bool is_ours_now)
{
	cr_assert_eq(i, 0);
	cr_assert_neq(is_ours_now, is_ours, "told twice");
	is_ours = is_ours_now;
	turns++;
	reading.open_ms = is_ours ? now : 0;
	reading.is_standby = !is_ours;
}

static int redials, warnings, recoveries;
static uint64_t heard_by_other;

/* Each redial gives a new connection. */
static void on_silent(void *arg, size_t i, const struct silence *s)
{
	cr_assert_eq(i, 0);
	recoveries += !s;
	if (!s)
		return;
	warnings += s->is_told;
	redials += s->is_redialled;
	heard_by_other = s->heard;
	if (s->is_redialled)
		reading.open_ms = now;
}

static void open_readings(int64_t k)
{
	static char *urls[] = {(char *)URL};

	config.sources.items = urls;
	config.sources.count = 1;
	config.readers = k;
	now = 1000;
	reading.is_standby = true;
	readings = readings_new(&config, "i" NONCE, now);
	readings_set_owner(readings,
			   &(struct reading_owner){.on_ask = on_ask, .on_turn = on_turn, .on_silent = on_silent});
}

/* The same of a profile with two lines, whose source has the same id as another's. */
static void open_lines(void)
{
	static struct profile profile = {.name = "two", .url = URL, .lines = 2};
	static struct profile *feeds[] = {&profile};

	config.feeds = feeds;
	config.feed_count = 1;
	now = 1000;
	readings = readings_new(&config, "i" NONCE, now);
	readings_set_owner(readings,
			   &(struct reading_owner){.on_ask = on_ask, .on_turn = on_turn, .on_silent = on_silent});
}

static void tear_down(void)
{
	readings_free(readings);
	roster_free(&roster);
}

TestSuite(reading, .fini = tear_down);

static void pass(int64_t ms)
{
	for (; ms > 0; ms -= BEAT_MS) {
		now += BEAT_MS;
		readings_tick(readings, now);
	}
}

/* A listener that comes before us for the source, or after us: the nth of these. */
static const char *name_of(bool is_before, int nth)
{
	static char name[60];
	uint64_t source = readings_source_id(URL, ""), own = hash_score(hash_text("i", 1), source);

	for (int n = 0; nth >= 0; n++) {
		int len = snprintf(name, sizeof(name), "%d" NONCE, n);

		nth -= (hash_score(hash_text(name, (size_t)len - 18), source) > own) == is_before;
	}
	return name;
}

/* What one of the others says: whether it comes before us, and how its connection is. */
struct other {
	bool is_before;
	int open_s;      /* 0: it has none */
	int64_t quiet_s; /* since its last message */
	uint32_t messages;
	bool is_of_another_source;
	bool is_draining;
	bool is_unable;  /* it cannot store */
	bool is_failing; /* it cannot connect */
};

static void tell(int64_t asked_ms, const struct other *others, size_t n)
{
	char said[200], source[ROSTER_HEARD_SIZE + 1] = "";

	roster_begin(&roster);
	for (size_t i = 0; i < n; i++) {
		const struct other *o = &others[i];
		const char *name = name_of(o->is_before, (int)i);

		roster_write(source, &(struct heard){.id = readings_source_id(URL, "") + o->is_of_another_source,
						     .is_dialled = true,
						     .is_open = o->open_s,
						     .is_failing = o->is_failing,
						     .open_s = o->open_s,
						     .messages = o->messages,
						     .quiet_ms = o->quiet_s * 1000});
		snprintf(said, sizeof(said), "2 - %c - 1 %s\n%s", o->is_draining ? 'd' : 'w', source,
			 o->is_unable ? "no route" : "");
		roster_note(&roster, name, strlen(name), said, strlen(said), now);
	}
	readings_judge(readings, &roster, asked_ms, now, !is_unable);
}

#define TELL(...) \
	tell(now, (const struct other[]){__VA_ARGS__ __VA_OPT__(, ){0}}, \
	     sizeof((const struct other[]){__VA_ARGS__ __VA_OPT__(, ){0}}) / sizeof(struct other) - 1)

/* Beats of so long, each answered so. */
#define TELL_FOR(ms, ...) \
	for (int64_t at_ = 0; at_ < (ms); at_ += BEAT_MS) { \
		pass(BEAT_MS); \
		TELL(__VA_ARGS__); \
	}

#define BEFORE .is_before = true
#define WELL   .open_s = 9, .quiet_s = 1

Test(reading, who_is_alone_reads)
{
	open_readings(1);
	cr_assert_not(is_ours, "nobody was asked yet");
	cr_assert_not(readings_know(readings));
	TELL();
	cr_assert(readings_know(readings));
	cr_assert(is_ours);
}

Test(reading, who_comes_after_as_many_as_are_wanted_does_not_read)
{
	open_readings(2);
	TELL({BEFORE}, {BEFORE});
	cr_assert_not(is_ours);
	TELL({BEFORE}, {0}, {0});
	cr_assert(is_ours, "one before us is gone, and those behind us do not count");
}

Test(reading, who_leaves_or_does_not_dial_the_source_is_no_reader)
{
	open_readings(1);
	TELL({BEFORE});
	cr_assert_not(is_ours);
	TELL({BEFORE, .is_draining = true}, {BEFORE, .is_of_another_source = true});
	cr_assert(is_ours);
}

Test(reading, who_can_store_reads_beside_a_reader_that_has_not_been_able_to_for_forty_seconds)
{
	open_readings(1);
	TELL({BEFORE, WELL});
	TELL_FOR(40 * BEAT_MS, {BEFORE, WELL, .is_unable = true});
	cr_assert_not(is_ours);
	TELL_FOR(BEAT_MS, {BEFORE, WELL, .is_unable = true});
	cr_assert(is_ours);
	TELL_FOR(2 * TURN_MS, {BEFORE, WELL, .is_unable = true});
	cr_assert(is_ours);
	is_unable = true;
	TELL_FOR(TURN_MS + BEAT_MS, {BEFORE, WELL, .is_unable = true});
	cr_assert_not(is_ours, "it cannot store, either");
}

Test(reading, beside_each_reader_that_cannot_connect_another_one_reads)
{
	open_readings(1);
	TELL({BEFORE}, {BEFORE});
	TELL({BEFORE, .is_failing = true}, {BEFORE});
	cr_assert_not(is_ours, "one comes before us that has not failed");
	TELL({BEFORE, .is_failing = true}, {BEFORE, .is_failing = true});
	cr_assert_not(is_ours, "two fail for one reader: the feed is down");
	TELL({BEFORE, .is_failing = true});
	cr_assert(is_ours);
	TELL_FOR(2 * TURN_MS, {BEFORE, .is_failing = true});
	cr_assert(is_ours);
	TELL_FOR(TURN_MS + BEAT_MS, {BEFORE, WELL});
	cr_assert_not(is_ours);
}

/* As after some time without Redis, when all read. The last of the others that are told here comes first. */
Test(reading, one_that_is_not_needed_hangs_up_though_a_reader_cannot_connect)
{
	open_readings(1);
	pass(LOST_MS);
	TELL_FOR(2 * TURN_MS, {BEFORE, WELL}, {BEFORE});
	cr_assert(is_ours, "it may connect soon, and has no substitute yet");
	TELL_FOR(2 * TURN_MS, {BEFORE, .is_failing = true}, {BEFORE, .is_failing = true});
	cr_assert(is_ours, "the substitute cannot connect, either");
	TELL_FOR(TURN_MS + BEAT_MS, {BEFORE, WELL}, {BEFORE, .is_failing = true});
	cr_assert_not(is_ours);
}

/* Whatever the cause: it is refused or told to wait, or its connections end at once. */
Test(reading, a_listener_says_when_it_has_not_been_connected_for_long)
{
	char said[ROSTER_HEARD_SIZE + 1] = "";

	open_readings(1);
	TELL_FOR(TURN_MS, {BEFORE, WELL});
	readings_write(readings, said, now);
	cr_assert_eq(said[11], '2', "it need not: %s", said);
	TELL({WELL});
	readings_write(readings, said, now);
	cr_assert_eq(said[11], '6', "%s", said);
	readings_write(readings, said, now += LOST_MS);
	reading.open_ms = 0;
	readings_write(readings, said, now + TURN_MS - 1);
	cr_assert_eq(said[11], '2', "%s", said);
	readings_write(readings, said, now + TURN_MS);
	cr_assert_eq(said[11], 'A', "%s", said);
	reading.open_ms = now += TURN_MS;
	readings_write(readings, said, now + BACKOFF_GOOD_MS - 1);
	cr_assert_eq(said[11], 'E', "it may end again: %s", said);
	readings_write(readings, said, now += BACKOFF_GOOD_MS);
	cr_assert_eq(said[11], '6', "%s", said);
	reading.is_doubted = true;
	readings_write(readings, said, now + TURN_MS);
	cr_assert_eq(said[11], 'E', "it is connected, and brings nothing: %s", said);
}

Test(reading, who_cannot_store_hangs_up_only_if_as_many_read_as_before)
{
	is_unable = true;
	open_readings(1);
	TELL({0, WELL});
	TELL_FOR(60 * BEAT_MS, {0, WELL});
	cr_assert(is_ours, "the other one may know nothing of this");
}

Test(reading, without_an_answer_everybody_reads)
{
	open_readings(1);
	pass(LOST_MS - BEAT_MS);
	cr_assert_not(is_ours);
	pass(2 * BEAT_MS);
	cr_assert(is_ours);
	cr_assert(readings_know(readings));
}

Test(reading, nobody_hangs_up_before_each_reader_has_shown_for_five_seconds_that_it_reads)
{
	open_readings(2);
	TELL();
	TELL_FOR(2 * TURN_MS, {BEFORE, WELL}, {BEFORE});
	cr_assert(is_ours, "one has no connection");
	TELL_FOR(BEAT_MS, {BEFORE, WELL}, {BEFORE, .open_s = 4, .quiet_s = 1});
	cr_assert(is_ours, "one has a connection that is too new");
	TELL_FOR(BEAT_MS, {BEFORE, WELL}, {BEFORE, .open_s = 5, .quiet_s = 1});
	cr_assert_not(is_ours);
}

Test(reading, who_was_a_reader_in_the_last_ten_seconds_does_not_hang_up)
{
	open_readings(1);
	TELL();
	TELL_FOR(TURN_MS - BEAT_MS, {BEFORE, WELL});
	cr_assert(is_ours);
	TELL_FOR(BEAT_MS, {0});
	TELL_FOR(TURN_MS - BEAT_MS, {BEFORE, WELL});
	cr_assert(is_ours, "it was one once more");
	TELL_FOR(BEAT_MS, {BEFORE, WELL});
	cr_assert_not(is_ours);
}

Test(reading, a_connection_that_brings_nothing_counts_only_if_ours_brings_nothing)
{
	open_readings(1);
	TELL();
	for (int i = 0; i < 20; i++) {
		reading.last_ms = now;
		TELL_FOR(BEAT_MS, {BEFORE, .open_s = 9, .quiet_s = 9});
	}
	cr_assert(is_ours, "ours has brought something since");
	reading.last_ms = now - 60000;
	TELL_FOR(BEAT_MS, {BEFORE, .open_s = 9, .quiet_s = 9});
	cr_assert_not(is_ours);
}

Test(reading, nobody_hangs_up_on_an_answer_that_was_long_on_its_way)
{
	const struct other well[] = {{BEFORE, WELL}};

	open_readings(1);
	TELL();
	TELL_FOR(TURN_MS - BEAT_MS, {BEFORE, WELL});
	pass(3 * BEAT_MS);
	tell(now - 2000, well, 1);
	cr_assert(is_ours, "the reader may be dead by now");
	tell(now - 1999, well, 1);
	cr_assert_not(is_ours);
}

Test(reading, without_readers_everybody_reads_and_is_told_nothing)
{
	open_readings(0);
	TELL({BEFORE, WELL});
	pass(2 * LOST_MS);
	cr_assert_eq(turns, 0);
}

Test(reading, whose_sources_are_closed_is_told_nothing)
{
	open_readings(1);
	readings_set_owner(readings, NULL);
	TELL();
	pass(2 * LOST_MS);
	cr_assert_eq(turns, 0);
}

/* --- silence --- */

/* For so long another listener hears 20 messages a second, and this one nothing. Returns the redials. */
static int be_deaf(int64_t ms)
{
	static uint32_t messages;
	int before = redials;

	for (int64_t end = now + ms; now < end;) {
		pass(BEAT_MS);
		messages += 20;
		TELL({WELL, .messages = messages});
	}
	return redials - before;
}

static void start_deaf(void)
{
	open_readings(0);
	reading = (struct reading){.open_ms = 1, .messages = 5, .last_ms = now};
	be_deaf(3000);
	cr_assert_null(readings_silence(readings, 0));
}

Test(reading, a_silent_connection_is_dialled_again_three_times_and_then_less_and_less_often)
{
	start_deaf();
	cr_assert_eq(be_deaf(4000), 1);
	cr_assert_eq(warnings, 1);
	cr_assert_eq(heard_by_other, 60);
	cr_assert_eq(readings_silence(readings, 0)->redials, 1);
	cr_assert_eq(be_deaf(20000), 2, "each as soon as it is known to be silent");
	cr_assert_eq(be_deaf(20000), 0);
	cr_assert_eq(be_deaf(10000), 1, "after half a minute");
	cr_assert_eq(be_deaf(50000), 0);
	cr_assert_eq(be_deaf(15000), 1, "after a minute");
	be_deaf(7200000 - 122000);
	cr_assert_leq(redials, 25, "%d", redials);
	cr_assert_geq(redials, 15, "%d", redials);
	cr_assert(warnings >= 110 && warnings <= 120, "once a minute, but %d", warnings);
	cr_assert_eq(recoveries, 0);
}

static void hear(int64_t ms)
{
	for (int64_t end = now + ms; now < end;) {
		reading.messages += 20;
		reading.last_ms = now;
		be_deaf(1000);
	}
}

Test(reading, a_message_ends_the_silence_and_a_later_one_begins_anew)
{
	start_deaf();
	be_deaf(60000);
	cr_assert_eq(redials, 4);
	reading.messages++;
	reading.last_ms = now;
	be_deaf(1000);
	cr_assert_eq(recoveries, 1);
	cr_assert_null(readings_silence(readings, 0));
	hear(120000);
	warnings = redials = 0;
	cr_assert_eq(be_deaf(30000), 3);
	cr_assert_eq(warnings, 1);
}

Test(reading, a_message_ends_it_without_redis_too_and_so_does_leaving_the_source)
{
	start_deaf();
	be_deaf(4000);
	cr_assert_not_null(readings_silence(readings, 0));
	reading.messages++;
	readings_tick(readings, now);
	cr_assert_null(readings_silence(readings, 0));
	tear_down();
	roster = (struct roster){0};
	open_readings(1);
	TELL();
	reading = (struct reading){.open_ms = 1, .messages = 5, .last_ms = now};
	be_deaf(7000);
	cr_assert_not_null(readings_silence(readings, 0));
	TELL_FOR(TURN_MS, {BEFORE, WELL});
	cr_assert_not(is_ours);
	readings_tick(readings, now);
	cr_assert_null(readings_silence(readings, 0));
}

/* Such as a snapshot for each that connects. */
Test(reading, who_is_sent_something_after_each_redial_backs_off_too)
{
	start_deaf();
	for (int i = 0; i < 20; i++) {
		be_deaf(10000);
		reading.messages++;
		reading.last_ms = now;
	}
	cr_assert_leq(redials, 8, "%d", redials);
	cr_assert_leq(warnings, 4, "%d", warnings);
}

/* The connections of a fleet take the feed from each other. */
Test(reading, who_hears_for_a_minute_after_each_redial_backs_off_too)
{
	start_deaf();
	for (int i = 0; i < 40; i++) {
		be_deaf(20000);
		hear(65000);
	}
	cr_assert_leq(redials, 15, "%d", redials);
}

Test(reading, who_is_not_read_or_hears_other_messages_than_the_others_is_not_silent)
{
	start_deaf();
	reading.is_paused = true;
	cr_assert_eq(be_deaf(60000), 0);
	reading.is_paused = false;
	reading.is_alone = true;
	cr_assert_eq(be_deaf(60000), 0);
	reading.is_alone = false;
	reading.is_talking = true;
	cr_assert_eq(be_deaf(60000), 0);
	reading.is_talking = false;
	reading.open_ms = 0;
	cr_assert_eq(be_deaf(60000), 0);
}

/* Without any other listener. */
static void hear_beside(int64_t ms, bool is_both)
{
	for (int64_t end = now + ms; now < end;) {
		beside.messages += 20;
		beside.last_ms = now;
		if (is_both) {
			reading.messages += 20;
			reading.last_ms = now;
		}
		pass(BEAT_MS);
		TELL();
	}
}

Test(reading, a_line_that_is_silent_beside_another_one_of_this_listener_is_dialled_again)
{
	open_lines();
	reading = beside = (struct reading){.open_ms = 1};
	hear_beside(20000, true);
	cr_assert_eq(redials, 0);
	hear_beside(3000, false);
	cr_assert_null(readings_silence(readings, 0));
	hear_beside(7000, false);
	cr_assert_geq(redials, 1);
	cr_assert_not_null(readings_silence(readings, 0));
	cr_assert_null(readings_silence(readings, 1), "it hears");
	hear_beside(2000, true);
	cr_assert_null(readings_silence(readings, 0));
}

/* Such as a backlog for each that connects, of a feed that is quiet. */
Test(reading, what_another_line_is_sent_when_it_connects_makes_none_silent)
{
	open_lines();
	reading = (struct reading){.open_ms = 1, .messages = 5, .last_ms = now};
	for (int i = 0; i < 10; i++) {
		beside.open_ms = now;
		hear_beside(4000, false);
	}
	cr_assert_eq(redials, 0);
}

/* --- what is said --- */

/* What another listener reads of what we say. */
static const struct heard *said(void)
{
	static char text[100];
	char *at = text + sprintf(text, "2 - w - 1 ");

	at = readings_write(readings, at, now);
	*at++ = '\n';
	roster_note(&roster, "me@", 3, text, (size_t)(at - text), now);
	return roster_peer(&roster, 1)->source_count ? &roster_peer(&roster, 1)->sources[0] : NULL;
}

Test(reading, a_connection_is_said_with_its_age_its_messages_and_its_silence)
{
	open_readings(0);
	now = 100000;
	reading = (struct reading){.open_ms = 87500, .messages = (UINT64_C(1) << 30) + 1234567, .last_ms = 99700};
	const struct heard *s = said();
	cr_assert_eq(s->id, readings_source_id(URL, ""));
	cr_assert(s->is_dialled && s->is_open && !s->may_lead);
	cr_assert_eq(s->open_s, 12);
	cr_assert_eq(s->messages, 1234567);
	cr_assert_eq(s->quiet_ms, 300);
	cr_assert(readings_may_lead(readings, 0));
	cr_assert(said()->may_lead);
	cr_assert_not(said()->may_lead, "once");
}

Test(reading, a_connection_that_has_not_subscribed_to_all_is_said_as_new)
{
	open_lines();
	now = 100000;
	reading = (struct reading){.open_ms = 87500, .is_talking = true};
	beside = (struct reading){0};
	const struct heard *s = said();
	cr_assert(s->is_open && s->open_s == 0);
	beside.open_ms = 90000;
	cr_assert_eq(said()->open_s, 12, "the other line has");
}

Test(reading, lines_are_said_as_one_source)
{
	open_lines();
	now = 100000;
	reading = (struct reading){.open_ms = 87500, .messages = 40, .last_ms = 99700};
	beside = (struct reading){.open_ms = 99000, .messages = 50, .last_ms = 99900};
	const struct heard *s = said();
	cr_assert_eq(roster_peer(&roster, 1)->source_count, 1);
	cr_assert_eq(readings_find(readings, "two"), 0);
	cr_assert_eq(s->open_s, 12);
	cr_assert_eq(s->messages, 40, "the other one is new, and may be sent old ones");
	cr_assert_eq(s->quiet_ms, 100);
	now += 10000;
	reading.messages += 7;
	beside.messages += 9;
	cr_assert_eq(said()->messages, 49);
}

Test(reading, a_silent_connection_cannot_lead)
{
	start_deaf();
	be_deaf(4000);
	readings_may_lead(readings, 0);
	cr_assert_not(said()->may_lead);
}

Test(reading, great_numbers_are_cut_and_what_never_was_is_said)
{
	open_readings(0);
	now = INT64_C(1) << 40;
	reading = (struct reading){.open_ms = 1, .last_ms = 1};
	const struct heard *s = said();
	cr_assert_eq(s->open_s, ROSTER_OPEN_MOST_S);
	cr_assert_eq(s->quiet_ms, ROSTER_QUIET_MOST_MS);
	reading = (struct reading){0};
	s = said();
	cr_assert_not(s->is_open);
	cr_assert_eq(s->quiet_ms, ROSTER_QUIET_MOST_MS);
}

Test(reading, nothing_is_said_of_sources_before_there_is_an_owner)
{
	open_readings(0);
	readings_set_owner(readings, NULL);
	cr_assert_null(said());
	cr_assert_not(readings_may_lead(readings, 0));
}
