/* The way of an event through stages that the test simulates: which stage comes next, what is announced to the fleet
 * and when, and which sender gets which answer. After every turn of the loop each received message is in exactly one
 * place.
 */
#include "event/line_minutes.h"
#include "pipeline/pipeline.h"

#include "unit.h"
#include "clock.h"
#include "fake_stages.h"
#include "base/counters.h"
#include "base/log.h"
#include "view.h"

#define TTL_MS 30000

static uv_loop_t loop;
static struct pipeline *pipeline;
static struct config config;
static int pressure_calls;
static bool is_pressed;
static enum pressure pressed;
static long left = -1; /* on_drained's; -1: not called */
static char unusable[100];
static int forgotten;     /* calls */
static char cursors[100]; /* that were read, and a point at the end */

/* --- what the pipeline calls --- */

static void on_pressure(void *arg, enum pressure pressure)
{
	cr_assert_neq(pressure, pressed, "the same pressure twice");
	pressed = pressure;
	is_pressed = pressure == PRESSURE_ALL;
	pressure_calls++;
}

static void on_drained(void *arg, size_t n)
{
	cr_assert_eq(left, -1, "drained twice");
	left = (long)n;
}

static void on_posted(void *arg)
{
}

static void on_unusable(void *arg, const char *sentence, int status)
{
	snprintf(unusable, sizeof(unusable), "%s", sentence);
}

static void on_forgotten(void *arg)
{
	forgotten++;
}

static void on_cursor(void *arg, const struct cursor *cursor)
{
	snprintf(cursors + strlen(cursors), sizeof(cursors) - strlen(cursors), "%s", cursor ? cursor->value.at : ".");
}

/* A producer: its answers as letters, p(ersisted), d(uplicate), r(ejected), and the last reason. */
struct producer {
	struct sender sender;
	char answers[20];
	char reason[200];
};

static void on_answer(struct sender *s, const struct event *ev, enum outcome outcome)
{
	struct producer *p = (struct producer *)s;

	p->answers[strlen(p->answers)] = "pdr"[outcome];
	snprintf(p->reason, sizeof(p->reason), "%s", ev->reason ? ev->reason : "");
}

#define PRODUCER \
	{ \
		.sender = { on_answer } \
	}

/* --- the loop --- */

/* The sums are those of the lists. */
static void assert_sums(const struct events *events)
{
	size_t bytes = 0, messages = 0;

	for (int i = 0; i < EVENT_STATES; i++) {
		size_t count = 0, message_bytes = 0;

		for (const struct list *l = events->lists[i].next; l != &events->lists[i]; l = l->next) {
			const struct event *ev = list_entry(l, struct event, link);

			count++;
			message_bytes += ev->message_len;
			messages += ev->copies;
			bytes += ev->bytes;
		}
		cr_assert_eq(count, events->counts[i], "%zu events are %s", count,
			     event_state_name((enum event_state)i));
		cr_assert_eq(message_bytes, events->message_bytes[i]);
	}
	cr_assert_eq(messages, events->messages);
	cr_assert_eq(bytes, events->bytes);
}

static void assert_nothing_is_lost(void)
{
	const struct events *events = pipeline_events(pipeline);

	assert_sums(events);

	cr_assert_eq(counters.received,
		     counters.persisted + counters.duplicates + counters.dead_lettered + events->messages,
		     "%lu received = %lu persisted + %lu duplicates + %lu dead-lettered + %zu in flight",
		     (unsigned long)counters.received, (unsigned long)counters.persisted,
		     (unsigned long)counters.duplicates, (unsigned long)counters.dead_lettered, events->messages);
	cr_assert(events->messages || !events->bytes, "%zu bytes of nothing", events->bytes);
}

static void turn(void)
{
	for (int i = 0; i < 3; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		assert_nothing_is_lost();
	}
}

static void pass(int64_t ms)
{
	clock_pass(ms);
	turn();
}

static void on_closed(void *arg)
{
	*(bool *)arg = true;
}

static void reopen_pipeline(void)
{
	const struct pipeline_callbacks on = {on_pressure, on_drained, on_posted, on_unusable, NULL};

	uv_loop_init(&loop);
	pipeline = pipeline_open(&loop, &config, &on);
	storing_on_forgotten(pipeline_storing(pipeline), on_forgotten, NULL);
	turn();
}

static void open_pipeline(void)
{
	static char *ids[] = {"/event_id"}, *sources[] = {"ws://feed/"};

	config = (struct config){
		.consumer = "",
		.claim_prefix = "",
		.sources = {sources, 0},
		.claim_ttl_s = TTL_MS / 1000,
		.batch_max = 100,
		.inflight_bytes = 100000,
		.max_attempts = 3,
		.drain_timeout_ms = 5000,
		.id_pointers = {ids, 1},
		.type_pointer = "/event_type",
		.payload_pointer = "/payload",
		.order_pointer = "/key",
	};
	clock_stop();
	reopen_pipeline();
}

/* A forgotten handle fails the test. */
static void close_pipeline(void)
{
	bool is_closed = false;

	pipeline_close(pipeline, on_closed, &is_closed);
	for (int i = 0; i < 10; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	cr_assert(is_closed);
	cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(pipeline, .init = open_pipeline, .fini = close_pipeline, .timeout = 60);

/* --- steps --- */

/* One step of a story: a verb and what it is done to. */
struct step {
	const char *text; /* the whole step */
	const char *rest; /* behind the verb, "" if there is nothing */
	char a[80];       /* the first word of that, "" if there is none */
	char b[80];       /* the second */
};

#define require(step, condition, fmt, ...) cr_assert(condition, "\"%s\": " fmt, (step)->text, ##__VA_ARGS__)

static struct producer senders['z' - 'a' + 1];

static struct producer *find_producer(const char *letter)
{
	struct producer *p = *letter ? &senders[*letter - 'a'] : NULL;

	if (p)
		p->sender.answer = on_answer;
	return p;
}

static void receive_message(const char *id, const char *more, struct sender *sender)
{
	char message[700];

	snprintf(message, sizeof(message), "{\"event_id\":\"%s\"%s}", id, more);
	pipeline_receive(pipeline, message, strlen(message), NULL, sender);
}

static void receive(const char *id)
{
	receive_message(id, "", NULL);
}

/* The n-th of many ids. Lives until the next call. */
static const char *id_of(const char *head, long n)
{
	static char id[40];

	snprintf(id, sizeof(id), "%s%ld", head, n);
	return id;
}

static size_t in_state(enum event_state state)
{
	return pipeline_events(pipeline)->counts[state];
}

static int find_word(const struct step *s, const char *const words[], const char *word)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	require(s, false, "unknown word %s", word);
	return -1;
}

static enum event_state find_state(const struct step *s, const char *name)
{
	for (int i = 0; i < EVENT_STATES; i++)
		if (strcmp(event_state_name((enum event_state)i), name) == 0)
			return (enum event_state)i;
	require(s, false, "unknown state %s", name);
	return EVENT_STATES;
}

static enum claim_result claim_word(const struct step *s)
{
	return (enum claim_result)find_word(
		s, (const char *const[]){"mine", "other", "done", "dead", "absent", "unknown", NULL}, s->b);
}

static void tell(const char *story);
static void tellf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ID, ID/N for other bytes with the same id, ID@SECONDS for an event of that age, or N..M for the events aN to aM-1;
 * and the letter of the producer, if it is not a feed's. */
static void do_receive(const struct step *s)
{
	char id[80] = "", sign = '\0', more[100] = "";
	long from, number = 0;
	struct producer *p;

	if (sscanf(s->a, "%ld..%ld", &from, &number) == 2) {
		for (; from < number; from++)
			receive(id_of("a", from));
		assert_nothing_is_lost();
		return;
	}
	cr_assert_geq(sscanf(s->a, "%79[^/@]%c%ld", id, &sign, &number), 1, "%s", s->text);
	if (sign == '/')
		snprintf(more, sizeof(more), ",\"payload\":%ld", number);
	if (sign == '@')
		snprintf(more, sizeof(more), ",\"time\":%ld", (long)time(NULL) - number);
	p = find_producer(s->b);
	receive_message(id, more, p ? &p->sender : NULL);
	assert_nothing_is_lost();
}

/* PRODUCER (- for none) MESSAGE. */
static void do_raw(const struct step *s)
{
	const char *message = s->b[0] ? strchr(s->rest, ' ') + 1 : "";
	struct producer *p = s->a[0] == '-' ? NULL : find_producer(s->a);

	pipeline_receive(pipeline, message, strlen(message), NULL, p ? &p->sender : NULL);
}

/* ID:TYPE:PAYLOAD[@SECONDS] of an event that a profile has read, shared if it begins with +; and the sender to answer.
 */
static void do_event(const struct step *s)
{
	char id[40] = "", type[40] = "", payload[80] = "", time_text[24];
	long age = -1;
	bool is_shared = s->a[0] == '+';
	struct producer *p = find_producer(s->b);
	int n = sscanf(s->a + is_shared, "%39[^:]:%39[^:]:%79[^@]@%ld", id, type, payload, &age);
	struct feed_event event = {.id = {id, strlen(id)},
				   .type = {type, strlen(type)},
				   .payload = {payload, strlen(payload)},
				   .unit = TIMESTAMP_S,
				   .source = "kraken",
				   .is_shared = is_shared};

	require(s, n >= 3, "no event");
	snprintf(time_text, sizeof(time_text), "%ld", (long)time(NULL) - age);
	if (n == 4)
		event.time = (struct slice){time_text, strlen(time_text)};
	pipeline_receive_event(pipeline, &event, p ? &p->sender : NULL);
	assert_nothing_is_lost();
}

/* REASON [PRODUCER] */
static void do_refuse(const struct step *s)
{
	struct producer *p = find_producer(s->b);

	pipeline_refuse(pipeline, NULL, "x", 1, s->a, p ? &p->sender : NULL);
}

static void do_take(const struct step *s)
{
	int from, to;

	if (sscanf(s->a, "%d..%d", &from, &to) == 2)
		for (; from < to; from++)
			fake_answer_take(id_of("a", from), claim_word(s));
	else
		fake_answer_take(s->a, claim_word(s));
	turn();
}

/* ID OWNER: the claim that is under way finds that owner's claim. */
static void do_owner(const struct step *s)
{
	fake_set_owner(s->a, (uint16_t)atol(s->b));
}

static void do_gone(const struct step *s)
{
	fake_end_owner((uint16_t)atol(s->a));
	turn();
}

/* Another listener, which received it a second before this one's clock began, has committed it. */
static void do_told(const struct step *s)
{
	struct envelope_view view = view_of(pipeline_events(pipeline), s->a, "", "");

	fake_tell_done(&(const struct done){view.id_hash, 1});
	turn();
}

static void do_insert(const struct step *s)
{
	static const char *const results[] = {"inserted", "present", "later", "blocked", "refused", "hopeless", NULL};

	fake_answer_insert(s->a, (enum store_result)find_word(s, results, s->b));
	turn();
}

/* ID N: it is refused N times, each time after its backoff. */
static void do_refuse_times(const struct step *s)
{
	for (long n = atol(s->b); n > 0; n--) {
		while (!in_state(EV_STORING)) {
			pass(100);
			if (in_state(EV_CLAIMING))
				fake_answer_take(s->a, CLAIM_MINE);
		}
		fake_answer_insert(s->a, STORE_REFUSED);
		turn();
	}
}

/* N..M: the same of aN to aM-1, at once. */
static void do_tell(const struct step *s)
{
	int from, to;

	require(s, sscanf(s->a, "%d..%d", &from, &to) == 2, "no range");
	for (; from < to; from++) {
		struct envelope_view view = view_of(pipeline_events(pipeline), id_of("a", from), "", "");

		fake_tell_done(&(const struct done){view.id_hash, 1});
	}
	turn();
}

static void do_dead_letter(const struct step *s)
{
	static const char *const dead_letters[] = {"dead_lettered", "not_dead_lettered", "has_row", NULL};

	fake_answer_dead_letter(s->a, s->b[0] ? (enum store_dead_letter)find_word(s, dead_letters, s->b)
					      : STORE_DEAD_LETTERED);
	turn();
}

static void do_journal(const struct step *s)
{
	const char *journal = fake_journal();

	require(s, strcmp(journal, s->rest) == 0, "the journal is '%s'", journal);
}

static void do_without(const struct step *s)
{
	const char *journal = fake_journal();

	require(s, !strstr(journal, s->rest), "the journal is '%s'", journal);
}

static void do_forget(const struct step *s)
{
	fake_journal();
	fake_checkin();
}

static void do_tells(const struct step *s)
{
	const char *text = fake_checkin();

	require(s, s->rest[0] ? text && strstr(text, s->rest) : !text, "told is %s", text ? text : "nothing");
}

static void do_store(const struct step *s)
{
	tellf("receive %s; take %s mine; state %s storing; forget", s->rest, s->a, s->a);
}

/* ID [PRODUCER | OWNER] */
static void do_hold(const struct step *s)
{
	bool has_owner = s->b[0] >= '0' && s->b[0] <= '9';

	tellf("receive %s", has_owner ? s->a : s->rest);
	fake_set_owner(s->a, has_owner ? (uint16_t)atol(s->b) : 0);
	tellf("take %s other; state %s held; forget", s->a, s->a);
}

static void do_batch(const struct step *s)
{
	tellf("receive %s; take %s mine", s->a, s->a);
}

/* Another instance is preferred for it, so this one asks later. */
static void do_wait(const struct step *s)
{
	tellf("set other_leader; receive %s; clear other_leader; turn; journal; in held 1", s->a);
}

static void do_pass(const struct step *s)
{
	pass(atol(s->a));
}

/* Long work: time passes in the small steps of a busy loop. */
static void do_slowly(const struct step *s)
{
	for (long ms = atol(s->a); ms > 0; ms -= 500)
		pass(500);
}

static void do_wrong(const struct step *s)
{
	clock_set_wrong(atol(s->a));
}

static void do_turn(const struct step *s)
{
	turn();
}

static void do_drain(const struct step *s)
{
	pipeline_drain(pipeline);
}

static void do_charge(const struct step *s)
{
	pipeline_charge(pipeline, (ssize_t)atol(s->a));
}

static void put_flag(const struct step *s, bool value)
{
	bool *const flags[] = {&fake.has_old_marks,       &fake.is_redis_away,    &fake.is_postgres_away,
			       &fake.is_postgres_failing, &fake.has_other_leader, &fake.is_unsure,
			       &fake.is_epoch_silent,     &fake.is_checkin_slow,  &fake.hears_done,
			       &fake.has_question,        &fake.is_stalled};
	static const char *const names[] = {"old_marks",    "redis_away", "postgres_away", "postgres_failing",
					    "other_leader", "unsure",     "epoch_silent",  "checkin_slow",
					    "channel",      "question",   "stalled",       NULL};

	*flags[find_word(s, names, s->a)] = value;
}

static void do_set(const struct step *s)
{
	put_flag(s, true);
}

static void do_clear(const struct step *s)
{
	put_flag(s, false);
}

/* VALUE of a source; the answer to a statement that stores some. */
static void do_cursor(const struct step *s)
{
	storing_put_cursor(
		pipeline_storing(pipeline),
		&(struct cursor){.source = "kraken", .scope = "", .kind = "replace", .value = {s->a, strlen(s->a)}});
}

static void do_put(const struct step *s)
{
	fake_answer_put(strcmp(s->a, "stored") == 0);
	turn();
}

static void do_ask(const struct step *s)
{
	static const char *const sources[] = {"kraken"};

	storing_read_cursors(pipeline_storing(pipeline), sources, 1, on_cursor, NULL);
	turn();
}

static void do_read(const struct step *s)
{
	fake_answer_read(s->a, strcmp(s->b, "fails") != 0);
	turn();
}

static void do_cursors(const struct step *s)
{
	require(s, strcmp(cursors, s->rest) == 0, "they are '%s'", cursors);
}

static void do_epoch(const struct step *s)
{
	fake_set_epoch((uint32_t)atol(s->a));
}

static void do_unanswered(const struct step *s)
{
	fake.unanswered = (uint64_t)atol(s->a);
}

/* A pipeline with this setting and the earlier ones: max_attempts and inflight_bytes are numbers; max_age and feeds,
 * beside producers, are present or not; note is Postgres's answer to the first check-in. */
static void do_config(const struct step *s)
{
	static const char *const names[] = {"max_attempts", "inflight_bytes", "max_age", "feeds", "note", NULL};
	static char note[80];

	close_pipeline();
	switch (find_word(s, names, s->a)) {
	case 0:
		config.max_attempts = (unsigned int)atol(s->b);
		break;
	case 1:
		config.inflight_bytes = atol(s->b);
		break;
	case 2:
		config.time_pointer = "/time";
		config.time_unit = "s";
		config.max_age_s = atol(s->b);
		break;
	case 3:
		config.sources.count = 1;
		config.ingest = "127.0.0.1:0";
		break;
	default:
		snprintf(note, sizeof(note), "%s", s->b);
		fake.note = note;
	}
	reopen_pipeline();
}

static void do_ruin(const struct step *s)
{
	fake_answer_unusable(s->rest);
}

static void do_unusable(const struct step *s)
{
	require(s, strstr(unusable, s->rest), "it is '%s'", unusable);
}

static void do_reason(const struct step *s)
{
	const char *reason = find_producer(s->a)->reason;

	require(s, strcmp(reason, strchr(s->rest, ' ') + 1) == 0, "the reason is '%s'", reason);
}

static void do_in(const struct step *s)
{
	size_t n = in_state(find_state(s, s->a));

	require(s, n == (size_t)atol(s->b), "there are %zu", n);
}

static void do_state(const struct step *s)
{
	const struct event *ev = find_event(pipeline_events(pipeline), s->a);

	require(s, ev && ev->state == find_state(s, s->b), "it is %s", ev ? event_state_name(ev->state) : "nowhere");
}

static void do_claimed(const struct step *s)
{
	const struct event *ev = find_event(pipeline_events(pipeline), s->a);

	require(s, ev && ev->is_claimed, "it is not");
}

static void do_pressure(const struct step *s)
{
	static const char *const names[] = {
		[PRESSURE_NONE] = "none", [PRESSURE_PRODUCERS] = "producers", [PRESSURE_ALL] = "all", NULL};

	require(s, pressed == (enum pressure)find_word(s, names, s->a), "it is %s", names[pressed]);
}

struct number {
	const char *name;
	uint64_t value;
	bool is_found;
};

static void put_number(void *arg, const char *name, const char *meaning, uint64_t value)
{
	struct number *n = arg;

	if (strcmp(name, n->name) != 0)
		return;
	n->value = value;
	n->is_found = true;
}

/* NAME VALUE: what is counted, by counters.h or here. */
static void do_number(const struct step *s, const char *name)
{
	struct number n = {.name = name};

	counters_each(put_number, &n);
	put_number(&n, "flight", "", pipeline_events(pipeline)->messages);
	put_number(&n, "bytes", "", pipeline_bytes(pipeline));
	put_number(&n, "left", "", (uint64_t)left);
	put_number(&n, "leader_waits", "", (uint64_t)fake.leader_waits);
	put_number(&n, "latencies", "", commit_latency.count);
	put_number(&n, "pressure_calls", "", (uint64_t)pressure_calls);
	put_number(&n, "full", "", pipeline_is_full(pipeline));
	put_number(&n, "full_for_producers", "", pipeline_is_full_for_producers(pipeline));
	put_number(&n, "asked", "", fake.is_epoch_asked);
	put_number(&n, "forgotten", "", (uint64_t)forgotten);
	require(s, n.is_found, "no such step");
	require(s, n.value == (uint64_t)atol(s->a), "it is %lld", (long long)n.value);
}

/* --- stories --- */

/* clang-format off */
static const struct {
	const char *verb;
	void (*tell)(const struct step *s);
} verbs[] = {
	/* what comes to pass */
	{"receive", do_receive}, {"raw", do_raw}, {"event", do_event}, {"refuse", do_refuse}, {"pass", do_pass},
	{"slowly", do_slowly}, {"turn", do_turn}, {"drain", do_drain}, {"charge", do_charge},
	{"set", do_set}, {"clear", do_clear}, {"config", do_config}, {"unanswered", do_unanswered},
	{"ruin", do_ruin}, {"wrong", do_wrong},
	/* answers of the stages */
	{"take", do_take}, {"owner", do_owner}, {"gone", do_gone}, {"told", do_told}, {"insert", do_insert}, {"refuse_times", do_refuse_times}, {"tell", do_tell}, {"dead_letter", do_dead_letter},
	{"put", do_put}, {"read", do_read}, {"epoch", do_epoch}, {"cursor", do_cursor}, {"ask", do_ask},
	/* several steps in one: an event is received, and then stored, held or in a batch */
	{"store", do_store}, {"hold", do_hold}, {"batch", do_batch}, {"wait", do_wait},
	/* what must be true */
	{"journal", do_journal}, {"without", do_without}, {"forget", do_forget}, {"tells", do_tells},
	{"unusable", do_unusable}, {"reason", do_reason}, {"in", do_in}, {"state", do_state},
	{"claimed", do_claimed}, {"pressure", do_pressure}, {"cursors", do_cursors},
};
/* clang-format on */

static void tell_step(const char *text)
{
	struct step s = {.text = text, .rest = ""};
	char verb[40];
	int len = 0;

	if (text[1] == '=') {
		const char *answers = find_producer(text)->answers;

		require(&s, strcmp(answers, text + 2) == 0, "the answers are '%s'", answers);
		return;
	}
	cr_assert_geq(sscanf(text, "%39s %n%79s %79s", verb, &len, s.a, s.b), 1, "no step: \"%s\"", text);
	s.rest = s.a[0] ? text + len : "";
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (strcmp(verb, verbs[i].verb) == 0) {
			verbs[i].tell(&s);
			return;
		}
	do_number(&s, verb);
}

static void tell(const char *story)
{
	char *text = strdup(story), *step = text;

	while (step) {
		char *end = strstr(step, "; ");

		if (end)
			*end = '\0';
		tell_step(step);
		step = end ? end + 2 : NULL;
	}
	free(text);
}

static void tellf(const char *fmt, ...)
{
	char story[300];
	va_list args;

	va_start(args, fmt);
	vsnprintf(story, sizeof(story), fmt, args);
	va_end(args);
	tell(story);
}

/* A test whose steps are a text, separated by "; ". Events have short names; producers are p, q and so on, and "p=pd"
 * means that p was answered persisted and duplicate. A row that was refused once comes again after 200 ms, and a
 * released event is looked at 1600 ms later. */
#define STORY(name, ...) \
	Test(pipeline, name) \
	{ \
		tell(__VA_ARGS__); \
	}

/* --- read by a profile --- */

STORY(event_of_a_profile_goes_the_way_of_all_events,
      "event a:trade:{} p; turn; journal take(a); take a mine; journal insert(a); insert a inserted; journal done(a); "
      "p=p; flight 0; bytes 0")

STORY(copy_from_another_connection_joins_by_id_type_and_payload,
      "event a:trade:{} p; event a:trade:{} q; coalesced 1; take a mine; insert a inserted; p=p; q=d")

STORY(other_type_or_payload_of_a_profiles_event_waits_behind_it,
      "event a:trade:{} p; event a:quote:{} q; event a:trade:[] r; in behind 2; take a mine; insert a inserted; "
      "p=p; q=d; r=d")

STORY(dead_letter_of_a_payload_speaks_of_one_id,
      "event a:trade:{} p; event b:trade:{} q; take a mine; take b mine; insert a hopeless; dead_letter a; "
      "insert b inserted; p=r; q=p")

/* They may wait for an ack, but another listener gets the event, too; or does not. */
STORY(event_of_a_feed_is_left_to_another_unless_it_is_shared,
      "set other_leader; event a:trade:{} p; in held 1; event +b:trade:{} q; journal take(b)")

STORY(age_of_a_profiles_event_is_read_in_its_own_unit,
      "config max_age 60; event old:t:{}@100 p; event young:t:{}@10; event never:t:{} q; turn; "
      "journal take(young) dead_letter(old:stale: the event's time is more than 1m ago,"
      "never:no time: the event's time is missing or not a string or number); dead_letter old; p=r; dead_letter never; "
      "q=r; stale 2")

/* --- cursors --- */

STORY(cursor_is_stored_once_a_second, "epoch 7; cursor 5; turn; journal cursors(kraken=5@7); cursor 6; put stored; "
				      "journal; cursor 7; pass 999; journal; "
				      "pass 1; journal cursors(kraken=7@7); put stored; pass 5000; journal")
STORY(cursor_that_moves_while_one_is_being_stored_is_stored_next,
      "epoch 7; cursor 5; turn; journal cursors(kraken=5@7); cursor 6; put stored; pass 1000; journal "
      "cursors(kraken=6@7); put stored; pass 5000; journal")
STORY(cursor_that_is_stored_is_not_stored_again,
      "epoch 7; cursor 5; turn; put stored; cursor 5; forget; pass 2000; journal")
STORY(cursor_waits_for_the_batch_at_work,
      "epoch 7; store a; cursor 5; pass 2000; without cursors; insert a inserted; journal done(a) cursors(kraken=5@7)")
STORY(cursors_take_turns_with_events,
      "epoch 7; store a; batch b; cursor 5; forget; insert a inserted; journal done(a) cursors(kraken=5@7); "
      "put stored; journal insert(b)")
STORY(cursor_that_could_not_be_stored_is_sent_again,
      "epoch 7; cursor 5; turn; put lost; forget; pass 999; journal; pass 1; journal cursors(kraken=5@7); put stored")
STORY(last_cursor_is_stored_before_the_end,
      "epoch 7; cursor 5; turn; put stored; store a; cursor 6; forget; drain; turn; journal; insert a inserted; "
      "journal done(a) cursors(kraken=6@7); left -1; put stored; turn; left 0")
STORY(end_does_not_wait_for_a_cursor_that_cannot_be_stored,
      "epoch 7; cursor 5; turn; journal cursors(kraken=5@7); drain; put lost; turn; left 0; journal")
STORY(cursor_of_another_epoch_is_forgotten,
      "epoch 7; store a; cursor 5; epoch 0; epoch 7; forgotten 0; epoch 0; epoch 8; forgotten 1; forget; "
      "insert a inserted; pass 2000; journal done(a); cursor 6; turn; journal cursors(kraken=6@8)")
STORY(cursors_are_read_when_postgres_is_there,
      "set postgres_away; ask; pass 5000; journal; clear postgres_away; turn; journal read(kraken); cursors ; read 17; "
      "cursors 17.; turn; journal")
STORY(cursors_that_could_not_be_read_are_asked_for_again,
      "ask; journal read(kraken); read 17 fails; cursors ; journal read(kraken); read 17; cursors 17.")

/* --- claimed: mine --- */

STORY(event_is_claimed_stored_marked_and_answered,
      "receive a p; turn; journal take(a); take a mine; journal insert(a); p=; insert a inserted; "
      "journal done(a); p=p; flight 0; persisted 1; claims_won 1; latencies 1")

STORY(row_that_was_there_is_a_duplicate_and_is_marked,
      "store a p; insert a present; journal done(a); p=d; duplicates 1; persisted 0")

STORY(nothing_is_settled_or_marked_while_the_store_is_at_work,
      "store a p; pass 1000; receive a p; pass 60000; without done(; p=; flight 2")

STORY(next_batch_fills_while_one_is_at_work_and_keeps_the_order_of_arrival,
      "store m; receive c; receive a; receive b; take c mine; take a mine; take b mine; "
      "journal take(c) take(a) take(b); insert m inserted; journal done(m) insert(c,a,b)")

/* 20 rows are in a statement, and others come. */
static void store_many(const char *more, const char *sender)
{
	tell("receive 0..20; take 0..20 mine; in storing 20");
	tellf("receive %s %s; take %s mine; in batched 1", more, sender, more);
	for (int i = 0; i < 20; i++)
		fake_answer_insert(id_of("a", i), STORE_INSERTED);
	tell("turn");
}

Test(pipeline, after_a_statement_of_many_rows_the_next_has_a_pause_to_fill)
{
	store_many("b", "");
	tell("in batched 1; receive c; take c mine; in batched 2; pass 3; in storing 2");
}

Test(pipeline, what_a_producer_waits_for_has_no_pause)
{
	store_many("b", "p");
	tell("in storing 1");
}

Test(pipeline, batch_has_at_most_batch_max_rows)
{
	tell("receive 0..150; take 0..150 mine; in storing 100; in batched 50");
	for (int i = 0; i < 150; i++)
		if (find_event(pipeline_events(pipeline), id_of("a", i))->state == EV_STORING)
			fake_answer_insert(id_of("a", i), STORE_INSERTED);
	tell("pass 3; in storing 50; persisted 100");
}

/* A feed may send bursts that take a store seconds. */
Test(pipeline, slow_store_is_logged_once_a_minute_though_it_is_fast_between_bursts)
{
	const char *why;

	capture_begin();
	for (int i = 0; i < 4; i++) {
		tell("receive 0..200; take 0..200 mine; in batched 100");
		for (int n = 0; n < 200; n++) {
			fake_answer_insert(id_of("a", n), STORE_INSERTED);
			if (n < 100 && n % 10 == 0)
				tell("pass 300");
			if (n == 98)
				cr_assert_gt(storing_is_slow(pipeline_storing(pipeline), &why), 1000);
			if (n == 99)
				tell("turn");
		}
		tell("turn; flight 0; pass 1000");
		cr_assert_eq(storing_is_slow(pipeline_storing(pipeline), &why), 0);
	}
	cr_assert_eq(captured_times("the store is slow, events wait"), 1, "%s", captured());
	cr_assert_eq(captured_times("fast enough again"), 0);
	tell("pass 5000; pass 5000");
	cr_assert_eq(captured_times("fast enough again"), 1);
	capture_end();
}

/* --- the second store --- */

#define ROWS_BESIDE 96

/* Three batches of two rows are stored, and the fourth is sent: b6 and b7; others wait. b8 and b9 are 50 s old. */
static void be_behind(int connections)
{
	char time_text[40];

	close_pipeline();
	config.batch_max = 2;
	config.postgres_connections = connections;
	reopen_pipeline();
	fake_set_epoch(7);
	for (int i = 0; i < ROWS_BESIDE; i++) {
		snprintf(time_text, sizeof(time_text), ",\"time\":%ld", (long)time(NULL) - (i / 2 == 4 ? 50 : 0));
		receive_message(id_of("b", i), time_text, NULL);
	}
	for (int i = 0; i < ROWS_BESIDE; i++)
		fake_answer_take(id_of("b", i), CLAIM_MINE);
	turn();
	for (int i = 0; i < 6; i++) {
		cr_assert_eq(fake.stores, 1, "%d rows are stored", i);
		fake_answer_insert(id_of("b", i), STORE_INSERTED);
		turn();
	}
	tell("in storing 2; in batched 88; forget");
}

Test(pipeline, behind_four_batches_a_second_connection_is_opened)
{
	be_behind(2);
	cr_assert_eq(fake.stores, 2);
	fake_set_second_epoch(7);
	tell("turn; journal beside(b8,b9)");
	fake_answer_beside("b8", STORE_INSERTED);
	fake_answer_beside("b9", STORE_INSERTED);
	tell("journal done(b8) done(b9); turn; journal beside(b10,b11); persisted 8; "
	     "insert b6 inserted; insert b7 inserted; turn; journal done(b6) done(b7) insert(b12,b13)");
}

Test(pipeline, who_may_have_one_connection_opens_no_second)
{
	be_behind(1);
	cr_assert_eq(fake.stores, 1);
}

Test(pipeline, the_second_connection_is_not_used_in_another_epoch)
{
	be_behind(2);
	fake_set_second_epoch(8);
	tell("turn; journal");
	fake_set_second_epoch(7);
	tell("turn; journal beside(b8,b9)");
}

Test(pipeline, what_the_second_connection_stores_in_another_epoch_is_stored_again)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn; forget");
	fake_set_second_epoch(8);
	fake_answer_beside("b8", STORE_INSERTED);
	fake_answer_beside("b9", STORE_PRESENT);
	tell("journal; persisted 6; in batched 88; turn; journal");
}

Test(pipeline, what_a_lost_second_connection_had_the_first_one_stores)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn; forget");
	fake_set_second_epoch(0);
	tell("journal; in storing 2; in batched 88");
}

/* The answer about b8 shows that it has no row; the connection is lost before that of b9. */
Test(pipeline, what_the_second_connection_surely_did_not_store_may_be_too_old)
{
	tell("config max_age 60");
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn; journal beside(b8,b9); wrong 20");
	fake_answer_beside("b8", STORE_LATER);
	fake_set_second_epoch(0);
	for (int i = 6; i < ROWS_BESIDE; i += i == 7 ? 3 : 1) {
		fake_answer_insert(id_of("b", i), STORE_INSERTED);
		turn();
	}
	tell("forget; dead_letter b8; journal dead(b8) insert(b9)");
}

Test(pipeline, the_second_connection_is_no_help_where_the_first_one_is_stalled)
{
	be_behind(2);
	fake_set_second_epoch(7);
	fake.is_stalled = true;
	tell("turn; journal");
	fake.is_stalled = false;
	tell("turn; journal beside(b8,b9)");
}

Test(pipeline, who_has_lost_the_first_connection_closes_the_second)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn; in storing 4");
	fake_set_epoch(0);
	tell("forget; turn; in storing 2; in batched 88");
	cr_assert_eq(fake.stores, 1);
}

Test(pipeline, a_second_connection_without_use_is_closed_after_ten_seconds)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn");
	for (int i = 8; i < ROWS_BESIDE; i++) {
		fake_answer_beside(id_of("b", i), STORE_INSERTED);
		turn();
	}
	tell("insert b6 inserted; insert b7 inserted; turn; in storing 0; pass 9999");
	cr_assert_eq(fake.stores, 2);
	pass(1);
	cr_assert_eq(fake.stores, 1);
}

Test(pipeline, the_second_connection_is_not_closed_while_it_is_at_work)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn; pass 20000");
	cr_assert_eq(fake.stores, 2);
}

Test(pipeline, a_second_connection_that_cannot_be_used_ends_nobody)
{
	be_behind(2);
	fake_set_second_epoch(7);
	fake_answer_second_unusable("the handler is not there");
	cr_assert_str_eq(unusable, "");
	tell("turn; in storing 2; pass 10000");
	cr_assert_eq(fake.stores, 1);
	for (int i = 6; i < ROWS_BESIDE; i++) {
		fake_answer_insert(id_of("b", i), STORE_INSERTED);
		turn();
	}
	cr_assert_eq(fake.stores, 1, "it is tried again at once");
}

Test(pipeline, what_the_second_connection_cannot_store_the_first_one_judges)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn; forget");
	fake_answer_beside("b8", STORE_LATER);
	fake_answer_beside("b9", STORE_REFUSED);
	tell("journal; in batched 88; turn; journal beside(b10,b11)");
	for (int i = 10; i < ROWS_BESIDE; i++) {
		fake_answer_beside(id_of("b", i), STORE_INSERTED);
		turn();
	}
	tell("in storing 2; in batched 2; insert b6 inserted; insert b7 inserted; forget; turn; in storing 2; in "
	     "batched 0; "
	     "insert b8 inserted; insert b9 inserted; flight 0");
}

Test(pipeline, a_second_connection_that_hangs_is_no_stall)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn");
	for (int i = 6; i < ROWS_BESIDE; i++) {
		if (i == 8 || i == 9)
			continue;
		fake_answer_insert(id_of("b", i), STORE_INSERTED);
		turn();
	}
	tell("forget; in storing 2");
	for (int i = 0; i < 30; i++)
		pass(250);
	tell("journal");
}

Test(pipeline, a_few_rows_are_no_reason_for_the_second_connection)
{
	be_behind(2);
	fake_set_second_epoch(7);
	tell("turn");
	for (int i = 8; i < ROWS_BESIDE - 2; i++) {
		fake_answer_beside(id_of("b", i), STORE_INSERTED);
		turn();
	}
	tell("in storing 4; insert b6 inserted; insert b7 inserted; turn; in storing 2");
}

STORY(events_wait_while_postgres_is_away,
      "set postgres_away; receive a; take a mine; pass 5000; in batched 1; journal take(a); clear postgres_away; "
      "turn; journal insert(a)")

/* --- claimed: not mine --- */

STORY(event_with_a_done_mark_is_a_duplicate, "receive a p; take a done; journal take(a); p=d; flight 0")

STORY(event_with_a_dead_mark_is_rejected, "receive a p; take a dead; journal take(a); p=r; dead_lettered 1")

STORY(event_of_another_owner_is_held_and_not_answered,
      "hold a p; pass 399; journal; pass 1; journal take(a); p=; holds 1; claims_lost 1")

STORY(held_event_settles_when_its_done_mark_is_seen, "hold a p; pass 400; take a done; journal take(a); p=d; flight 0")

STORY(held_event_is_rejected_when_its_dead_mark_is_seen, "hold a p; pass 400; take a dead; p=r")

STORY(held_event_whose_claim_is_gone_is_claimed_again, "hold a p; pass 400; take a mine; journal take(a) insert(a); "
						       "insert a inserted; journal done(a); p=p; claims_taken_over 1")

STORY(without_redis_what_another_leads_is_asked_of_the_store_a_second_later,
      "set redis_away; set other_leader; receive a; pass 100; receive b p; turn; journal insert(b); insert b inserted; "
      "p=p; forget; pass 899; journal; pass 1; journal insert(a)")
STORY(copy_left_to_another_goes_to_the_store_a_second_later_when_redis_goes,
      "wait a; pass 300; set redis_away; turn; pass 699; journal; pass 1; journal insert(a)")
STORY(what_another_leads_is_claimed_when_redis_is_back,
      "set redis_away; set other_leader; receive a; pass 500; clear redis_away; turn; journal take(a)")
STORY(without_redis_what_another_leads_goes_to_the_store_at_the_end,
      "set redis_away; set other_leader; receive a; pass 200; journal; drain; turn; journal insert(a)")
STORY(without_redis_what_nobody_else_gets_is_stored_at_once,
      "set redis_away; set other_leader; receive a p; turn; journal insert(a)")
STORY(copy_left_to_another_settles_when_the_channel_tells_of_its_commit,
      "set channel; wait a; pass 20; told a; flight 0; journal; duplicates 1; done_told 1")
STORY(copy_that_lost_its_claim_settles_when_the_channel_tells_of_its_commit,
      "hold a p; told a; p=d; flight 0; pass 5000; journal")
STORY(copy_that_comes_after_the_channel_told_of_its_commit_is_dropped,
      "set channel; told a; receive a; flight 0; journal; received 1; duplicates 1; done_told 1; persisted 0")
STORY(copy_whose_answer_is_on_its_way_settles_when_the_channel_told_of_its_commit,
      "set channel; receive a; told a; flight 1; take a other; flight 0; duplicates 1; done_told 1")
STORY(copy_of_which_the_channel_does_not_tell_is_claimed_after_350_ms,
      "set channel; wait a; pass 300; pass 49; journal; pass 1; journal take(a); take a mine; journal insert(a); "
      "deferred_in_vain 1")
STORY(while_the_channel_is_silent_the_leader_is_watched_after_100_ms,
      "set channel; set other_leader; receive a; pass 99; leader_waits 0; pass 1; leader_waits 1; pass 49; "
      "leader_waits 1; pass 1; leader_waits 2; told a; pass 50; leader_waits 2")
STORY(while_the_channel_moves_the_leader_is_not_watched,
      "set channel; set other_leader; receive a; pass 90; receive b; told b; pass 10; pass 50; leader_waits 0; "
      "pass 50; leader_waits 1")
STORY(while_the_channel_moves_a_copy_is_overdue_by_its_position,
      "set channel; set other_leader; receive a; pass 100; receive b; told b; pass 100; receive c; told c; pass 100; "
      "receive d; told d; pass 100; journal; receive e; told e; pass 50; journal take(a)")
STORY(while_the_channel_is_silent_one_copy_is_claimed_now_and_then,
      "set channel; set other_leader; receive a; receive b; receive c; pass 190; told c; pass 349; journal; pass 51; "
      "journal take(a); take a other; pass 150; journal; pass 50; journal take(b); take b other; flight 2")
STORY(while_the_channel_is_silent_all_are_claimed_if_one_is_not_at_work_elsewhere,
      "set channel; set other_leader; receive a; receive b; receive c; pass 350; journal take(a); take a done; pass "
      "50; journal take(b) take(c)")
STORY(when_the_leader_does_not_claim_all_that_was_left_to_it_is_claimed,
      "set channel; set other_leader; receive a; pass 300; receive b; pass 50; journal take(a); take a mine; journal "
      "take(b) insert(a); deferred_in_vain 1")
STORY(when_the_leader_is_dead_all_that_was_left_to_it_is_claimed,
      "set channel; set other_leader; receive a; receive b; pass 350; owner a 1; take a other; clear other_leader; "
      "forget; gone 1; journal inherit 1 (a) take(b)")
STORY(without_the_channel_all_that_it_did_not_tell_of_is_claimed,
      "set channel; set other_leader; receive a; receive b; clear channel; pass 350; journal take(a) take(b)")

Test(pipeline, copy_of_a_source_that_this_one_leads_is_claimed_though_another_leads_the_first_ones)
{
	static const char text[] = "{\"event_id\":\"a\",\"event_type\":\"t\",\"payload\":{}}";

	tell("set channel; set other_leader");
	pipeline_receive(pipeline, text, strlen(text), "one", NULL);
	tell("journal; clear other_leader");
	pipeline_receive(pipeline, text, strlen(text), "two", NULL);
	tell("journal take(a); flight 2");
}

/* An event remembers two sources. A copy from a third one was received, too. */
Test(pipeline, copy_from_a_third_source_is_not_missing_on_its_line)
{
	static const char text[] = "{\"event_id\":\"a\",\"event_type\":\"t\",\"payload\":{}}";
	static const char *const names[] = {"one", "two", "three"};
	int behind;

	for (size_t i = 0; i < 3; i++)
		line_minutes_connect(&line_minutes, names[i], 0, true, (int64_t)time(NULL) * 1000, 0);
	pipeline_receive(pipeline, text, strlen(text), "one", NULL);
	pipeline_receive(pipeline, text, strlen(text), NULL, NULL);
	((struct event *)find_event(pipeline_events(pipeline), "a"))->came_us -= 3000000;
	pipeline_receive(pipeline, text, strlen(text), "two", NULL);
	pipeline_receive(pipeline, text, strlen(text), "three", NULL);
	tell("take a mine; insert a inserted");
	for (size_t i = 0; i < 3; i++) {
		const struct line *line = &line_minutes.lines[i];

		cr_assert_eq(line->count, 1, "%s", names[i]);
		cr_assert_eq(line->minutes[0].received, i < 2, "%s", names[i]);
		cr_assert_eq(line->minutes[0].unknown, i == 2, "%s", names[i]);
		cr_assert_eq(lags_percentile(&line->lags[line->minutes[0].minute & 1].lags, 50, &behind), i < 2);
		cr_assert(i == 2 || (i ? behind > 2500 : !behind), "%d ms behind the first copy", behind);
	}
	line_minutes_free(&line_minutes);
}

static void receive_on(unsigned int line, const char *id, const char *payload)
{
	pipeline_receive_event(pipeline,
			       &(struct feed_event){.id = {id, 1},
						    .type = {"t", 1},
						    .payload = {payload, 1},
						    .source = "feed",
						    .line = line,
						    .is_compared = true},
			       NULL);
}

/* The second copy of b comes after its row was stored, and finds its mark, which is a minute old. */
Test(pipeline, each_line_of_a_source_has_its_copies)
{
	for (unsigned int i = 0; i < 2; i++)
		line_minutes_connect(&line_minutes, "feed", i, true, (int64_t)time(NULL) * 1000, 0);
	receive_on(0, "a", "1");
	receive_on(1, "a", "1");
	receive_on(1, "b", "1");
	tell("take a mine; insert a inserted; take b mine; insert b inserted");
	receive_on(0, "b", "1");
	tell("take b done");
	for (unsigned int i = 0; i < 2; i++) {
		const struct line *line = line_minutes_find(&line_minutes, "feed", i);

		cr_assert_eq(line->count, i ? 1 : 2);
		cr_assert_eq(line->minutes[0].received, i ? 2 : 1, "line %u", i);
		cr_assert_eq(line->minutes[line->count - 1].stored, 1, "line %u", i);
	}
	line_minutes_free(&line_minutes);
}

/* The row of a may be lost. */
Test(pipeline, in_another_epoch_what_lines_have_received_is_in_doubt)
{
	const struct line_minute *minute;

	line_minutes_connect(&line_minutes, "feed", 0, true, (int64_t)time(NULL) * 1000, 0);
	receive_on(0, "a", "1");
	tell("take a mine; insert a inserted; epoch 1");
	minute = line_minutes.lines[0].minutes;
	cr_assert_eq(minute->unknown, 0);
	tell("epoch 2");
	cr_assert_eq(minute->received, 1);
	cr_assert_eq(minute->unknown, 1);
	cr_assert(minute->is_changed);
	line_minutes_free(&line_minutes);
}

/* Of c the second line has other bytes while the first copy is at work, of d when it is stored. */
Test(pipeline, other_bytes_on_another_line_disagree)
{
	const struct line *line;

	for (unsigned int i = 0; i < 2; i++)
		line_minutes_connect(&line_minutes, "feed", i, true, (int64_t)time(NULL) * 1000, 0);
	receive_on(0, "a", "1");
	receive_on(1, "a", "1");
	receive_on(0, "c", "1");
	receive_on(1, "c", "2");
	receive_on(0, "d", "1");
	tell("take a mine; insert a inserted; take c mine; insert c inserted; take d mine; insert d inserted");
	receive_on(1, "d", "2");
	tell("take d done");
	line = line_minutes_find(&line_minutes, "feed", 1);
	cr_assert_eq(line->disagree, 2);
	cr_assert_eq(line->records, 2);
	cr_assert_eq(line_minutes_find(&line_minutes, "feed", 0)->disagree, 0);
	line_minutes_free(&line_minutes);
}

STORY(what_the_channel_tells_is_asked_of_postgres_where_marks_are_in_doubt,
      "set channel; wait a; set unsure; set epoch_silent; told a; in held 1; pass 50; in held 1; journal; pass 50; "
      "journal insert(a)")
STORY(what_the_channel_tells_while_the_epoch_is_asked_for_settles_soon,
      "set channel; set other_leader; receive a; receive b; receive c; set unsure; set epoch_silent; told b; told c; "
      "in held 3; clear unsure; pass 50; in held 1; journal; duplicates 2")
STORY(copy_that_comes_after_the_channel_told_of_it_while_the_epoch_is_asked_for_settles_soon,
      "set channel; set other_leader; set unsure; set epoch_silent; told a; receive a; in held 1; clear unsure; pass "
      "50; flight 0; journal; duplicates 1")
STORY(row_that_is_ours_by_now_is_not_settled_by_the_channel,
      "receive a p; take a mine; told a; p=; insert a present; p=d")

STORY(events_held_for_a_dead_owner_are_taken_over_at_once,
      "hold a 1; hold b 1; hold c 2; gone 1; journal inherit 1 (a,b); take a mine; journal insert(a); take b other; in "
      "held 2; claims_inherited 2")
STORY(event_of_a_dead_owner_that_is_done_settles,
      "receive a p; owner a 1; take a other; gone 1; take a done; p=d; flight 0")
STORY(event_of_a_dead_owner_whose_claim_may_be_ours_goes_to_the_store,
      "hold a 1; gone 1; take a unknown; journal inherit 1 (a) insert(a)")
STORY(event_of_a_dead_owner_that_redis_cannot_be_asked_for_goes_to_the_store,
      "hold a 1; set redis_away; gone 1; journal insert(a)")
STORY(who_cannot_store_takes_nothing_over,
      "hold a 1; set postgres_away; batch x; slowly 6000; forget; gone 1; without inherit")

STORY(held_event_that_another_takes_over_is_held_on,
      "hold a; pass 400; take a other; in held 1; holds 1; forget; pass 799; journal; pass 1; journal take(a)")

STORY(event_that_the_leader_has_stored_is_claimed_once_and_settled,
      "wait a; pass 350; journal take(a); take a done; flight 0; deferred 1; deferred_in_vain 0; claims_taken_over 0")

STORY(event_that_the_leader_does_not_claim_in_350_ms_is_claimed,
      "wait a; pass 350; take a mine; insert a inserted; persisted 1; deferred_in_vain 1; claims_taken_over 0")

STORY(event_whose_leader_dies_after_its_claim_is_taken_over,
      "wait a; pass 350; take a other; pass 400; take a mine; journal take(a) take(a) insert(a); claims_taken_over 1; "
      "deferred_in_vain 0")

Test(pipeline, producers_wait_when_too_many_events_are_left_to_others_and_go_on_when_they_have_settled)
{
	tell("config inflight_bytes 100000000; set other_leader; receive 0..6143; pressure none; "
	     "receive 6143..6144; pressure producers; pass 350");
	for (int i = 0; i < 3100; i++)
		fake_answer_take(id_of("a", i), CLAIM_DONE);
	tell("turn; pressure none");
}

/* After an outage of Postgres, all that memory holds is overdue, and the commands are not in the budget. */
Test(pipeline, events_that_wait_for_claims_are_claimed_a_few_thousand_at_a_time)
{
	tell("config inflight_bytes 100000000; set other_leader; receive 0..9000; pass 350; in claiming 8192");
	for (int i = 0; i < 8192; i++)
		fake_answer_take(id_of("a", i), i < 100 ? CLAIM_OTHER : CLAIM_DONE);
	tell("pass 50; in claiming 808; receive 9000..16384; pass 350; in claiming 8192; pass 400; in claiming 8192; "
	     "in "
	     "held 100");
	fake_answer_take(id_of("a", 8192), CLAIM_DONE);
	tell("pass 50; in claiming 8192; in held 99");
}

/* With --spool-after 0 they wait for the disk, and Redis has not been asked. */
STORY(claims_that_are_not_sent_yet_stop_no_others,
      "config inflight_bytes 100000000; unanswered -8192; receive 0..8192; set other_leader; receive 8192..8193; "
      "pass 350; in claiming 8193; in held 0")
STORY(the_leader_tells_again_of_what_has_long_been_stored,
      "set old_marks; receive a; take a done; journal take(a) tell; flight 0")
STORY(what_was_stored_a_minute_ago_is_not_told_again, "receive a; take a done; journal take(a); flight 0")
STORY(a_copy_that_was_left_to_another_and_is_done_is_not_told,
      "set old_marks; wait a; pass 350; take a done; journal take(a)")

STORY(event_that_a_producer_waits_for_is_never_left_to_another, "set other_leader; receive a p; journal take(a)")

STORY(event_left_to_another_goes_to_the_store_when_draining, "wait a; drain; turn; journal insert(a)")

STORY(event_left_to_another_goes_to_the_store_when_redis_does_not_answer,
      "wait a; pass 350; take a unknown; journal take(a) insert(a)")

STORY(claims_back_off_while_another_owner_is_at_work,
      "hold a; pass 400; take a other; forget; pass 799; journal; pass 1; journal take(a); take a other; pass 1599; "
      "journal; pass 1; journal take(a); take a other; pass 1599; journal; pass 1; journal take(a)")

Test(pipeline, event_held_for_twice_the_ttl_goes_to_the_store)
{
	int asks = 0;

	tell("hold a");
	while (in_state(EV_HELD) || in_state(EV_CLAIMING)) {
		pass(50);
		if (in_state(EV_CLAIMING)) {
			fake_answer_take("a", CLAIM_OTHER);
			asks++;
		}
		cr_assert_lt(asks, 1000, "held for ever");
	}
	cr_assert_geq((int64_t)uv_now(&loop), 1000000 + 2 * TTL_MS);
	cr_assert_leq((int64_t)uv_now(&loop), 1000000 + 2 * TTL_MS + 1600);
	cr_assert_not_null(strstr(fake_journal(), " insert(a)"));
	tell("hold_timeouts 1");
}

/* --- marks of a database that was not asked of late --- */

STORY(mark_that_is_in_doubt_waits_for_the_epoch,
      "set unsure; set epoch_silent; receive a p; take a done; asked 1; journal take(a); in held 1; clear unsure; pass "
      "50; take a done; journal take(a); p=d")

STORY(mark_that_stays_in_doubt_leaves_it_to_the_store,
      "set unsure; set epoch_silent; receive a; take a dead; pass 50; take a dead; journal take(a) take(a) insert(a)")

STORY(mark_that_is_in_doubt_waits_for_what_the_store_is_at_work_at,
      "store b; set unsure; set epoch_silent; receive a p; take a done; forget; pass 50; take a done; in held 1; pass "
      "99; journal take(a); pass 1; journal take(a); clear unsure; take a done; p=d; in storing 1")
STORY(mark_that_stays_in_doubt_beside_a_busy_store_is_left_to_it_after_0_75_s,
      "store b; set unsure; set epoch_silent; receive a; take a done; forget; pass 50; take a done; pass 100; take a "
      "done; pass 200; take a done; in held 1; pass 400; take a done; in held 0; in batched 1; journal take(a) take(a) "
      "take(a) take(a)")
STORY(epoch_is_asked_for_as_soon_as_a_mark_may_be_read,
      "set unsure; turn; asked 0; receive a; turn; asked 1; take a done; journal take(a); flight 0")

/* --- Redis cannot be asked --- */

STORY(event_goes_to_the_store_when_redis_is_away,
      "set redis_away; receive a p; turn; journal insert(a); insert a inserted; p=p; claims_skipped 1")

STORY(event_whose_claim_has_no_answer_goes_to_the_store,
      "receive a; take a unknown; journal take(a) insert(a); claims_skipped 1")

STORY(held_event_whose_claim_has_no_answer_goes_to_the_store,
      "hold a; pass 400; take a unknown; journal take(a) insert(a)")

STORY(held_event_goes_to_the_store_when_redis_is_away, "hold a; set redis_away; pass 400; journal insert(a)")

/* --- copies --- */

STORY(second_copy_joins_the_first_without_asking_redis,
      "receive a p; receive a q; turn; journal take(a); take a mine; receive a q; insert a inserted; p=p; "
      "q=dd; coalesced 2; persisted 1; duplicates 2")

STORY(copies_join_a_held_event_too, "hold a p; receive a p; pass 400; journal take(a); take a done; p=dd; duplicates 2")

STORY(copies_of_a_dead_letter_are_all_rejected,
      "store a p; insert a hopeless; receive a p; dead_letter a; p=rr; dead_lettered 2")

STORY(event_that_is_put_off_keeps_its_claim_and_comes_again,
      "store a p; insert a later; receive b; forget; take b mine; insert b inserted; journal insert(b) done(b); "
      "pass 200; journal insert(a); insert a later; pass 399; journal; pass 1; journal insert(a); "
      "insert a inserted; journal done(a); p=p")

STORY(event_that_is_put_off_without_a_claim_learns_what_became_of_it,
      "set redis_away; receive a p; turn; clear redis_away; insert a later; forget; pass 200; journal take(a); take a "
      "done; p=d")

STORY(event_that_is_put_off_does_not_wait_at_the_end,
      "store a; insert a later; pass 400; insert a later; pass 400; insert a later; forget; drain; turn; "
      "journal insert(a); insert a inserted")

STORY(dead_letter_that_cannot_be_written_waits_beside_the_events,
      "store a p; insert a hopeless; dead_letter a not_dead_lettered; forget; store b; insert b inserted; journal "
      "done(b); "
      "pass 999; journal; pass 1; journal dead_letter(a:the server's words); dead_letter a; journal dead(a); p=r")

STORY(event_that_turns_out_to_be_stored_when_it_is_dead_lettered_is_a_duplicate,
      "store a p; insert a hopeless; forget; dead_letter a has_row; journal done(a); p=d; dead_lettered 0")

STORY(copy_that_comes_after_the_end_is_a_new_event, "store a; insert a inserted; forget; receive a; journal take(a)")

STORY(copies_without_a_sender_count_too, "store a; receive a; receive a; insert a present; duplicates 3")

/* --- messages that share an id --- */

STORY(other_message_with_the_id_of_a_row_is_a_duplicate,
      "store a p; receive a/1 q; receive a/1 q; receive a/2 q; in behind 2; coalesced 1; variants 2; "
      "insert a inserted; journal done(a); p=p; q=ddd; flight 0")

STORY(other_message_with_the_id_of_a_dead_letter_is_tried_itself,
      "store a p; receive a/1 q; insert a hopeless; dead_letter a; "
      "journal dead_letter(a:the server's words) dead(a) take(a); p=r; q=; take a mine; insert a inserted; "
      "journal insert(a) done(a); p=r; q=p")

STORY(other_message_is_tried_when_a_dead_mark_settles_the_first,
      "receive a p; receive a/1 q; take a dead; p=r; journal take(a) take(a); take a mine; "
      "insert a inserted; q=p")

STORY(corrected_message_does_not_wait_for_the_backoff_of_the_refused_one,
      "store a p; insert a refused; journal; receive a/1 q; turn; journal insert(a); insert a inserted; journal "
      "done(a); q=p; p=d")

STORY(message_that_comes_while_another_is_put_off_is_tried_at_once,
      "store a p; insert a later; forget; receive a/1 q; turn; journal insert(a); insert a inserted; "
      "journal done(a); q=p; p=d")

STORY(messages_with_one_id_that_are_put_off_take_turns,
      "store a p; receive a/1 q; insert a later; forget; pass 200; journal insert(a); insert a later; pass 200; "
      "journal insert(a); insert a inserted; journal done(a); p=d; q=p")

STORY(message_that_waits_is_tried_under_the_claim_of_the_refused_one,
      "store a; receive a/1; insert a refused; journal insert(a); claimed a; slowly 15000; journal rest renew(a)")

STORY(corrected_message_claims_when_the_refused_one_has_given_its_claim_back,
      "store a; insert a refused; pass 200; journal release(a); receive a/1 q; journal take(a); take a mine; insert a "
      "inserted; q=p; pass 60000; journal insert(a) done(a)")

/* Each in its turn, with one backoff for all of them. */
STORY(bad_messages_with_one_id_are_tried_in_turns_and_all_become_dead_letters,
      "config max_attempts 2; store a p; receive a/1 q; insert a refused; insert a refused; journal insert(a); in "
      "backing_off 1; pass 200; pass 1600; take a mine; journal release(a) take(a) insert(a); insert a refused; "
      "dead_letter a; q=r; take a mine; insert a refused; dead_letter a; p=r; flight 0")

STORY(oldest_of_too_many_messages_with_one_id_becomes_a_dead_letter,
      "store x p; receive x/0 a; receive x/1 b; receive x/2 c; receive x/3 d; receive x/4 e; receive x/5 f; "
      "receive x/6 g; receive x/7 h; receive x/8 i; receive x/9 j; in behind 8; in refused 2; insert x inserted; "
      "p=p; c=d; j=d; dead_letter x; dead_letter x; a=r; b=r; "
      "journal done(x) dead_letter(x:newer messages with this event_id came before this one could be stored,"
      "x:newer messages with this event_id came before this one could be stored)")

STORY(newest_of_the_messages_that_wait_is_tried_first,
      "store a; receive a/1 q; receive a/2 r; insert a hopeless; dead_letter a; take a mine; insert a inserted; "
      "r=p; q=d")

STORY(messages_with_one_id_do_not_wait_for_redis,
      "set redis_away; receive a p; receive a/1 q; turn; insert a refused; journal insert(a) insert(a); "
      "insert a inserted; p=d; q=p")

/* --- events with a key --- */

#define KEYED(id, key) "raw - {\"event_id\":\"" id "\",\"key\":" key "}; "

STORY(events_with_one_key_are_stored_one_after_another,
      KEYED("a", "1") KEYED("b", "1") KEYED("c", "\"1\"") KEYED("d", "2")
	      KEYED("e", "null") "turn; journal take(a) take(d) take(e); in held 2; take a mine; journal insert(a); "
				 "insert a inserted; turn; "
				 "journal done(a) take(b); take b mine; insert b inserted; turn; journal insert(b) "
				 "done(b) take(c); take c mine; "
				 "insert c inserted; take d mine; take e mine; insert d inserted; turn; insert e "
				 "inserted; flight 0; bytes 0")

STORY(key_waits_while_its_event_is_tried_again_and_others_go_on,
      KEYED("a", "1") KEYED("b", "1") KEYED("c", "2") "turn; take a mine; insert a refused; take c mine; insert c "
						      "inserted; in backing_off 1; in held 1; pass 200; pass "
						      "1600; take a mine; turn; without take(b); insert a inserted; "
						      "turn; take b mine; insert b inserted; flight 0")

STORY(key_goes_on_behind_a_dead_letter,
      "config max_attempts 1; " KEYED("a", "1") KEYED("b", "1") "turn; take a mine; insert a refused; turn; in held 1; "
								"dead_letter a; turn; take b mine; insert b inserted; "
								"flight 0; dead_lettered 1")

STORY(key_waits_for_another_message_with_the_id_of_its_dead_letter,
      "config max_attempts 1; " KEYED("a", "1") KEYED("a", "1,\"n\":2")
	      KEYED("b", "1") "turn; take a mine; insert a refused; turn; dead_letter a; turn; without take(b); take a "
			      "mine; insert a "
			      "inserted; turn; take b mine; insert b inserted; flight 0; dead_lettered 1")

STORY(event_that_waits_for_its_turn_settles_when_the_channel_tells_of_it,
      "set channel; " KEYED("a", "1") KEYED("b", "1")
	      KEYED("c", "1") "turn; told b; flight 2; take a mine; insert a inserted; turn; take c mine; insert c "
			      "inserted; flight 0; "
			      "duplicates 1")

STORY(listener_that_leaves_stores_what_waits_for_its_turn,
      KEYED("a", "1") KEYED(
	      "b",
	      "1") "turn; take a mine; drain; insert a inserted; turn; take b mine; insert b inserted; turn; left 0")

/* --- a refused row --- */

STORY(refused_row_waits_is_released_and_tried_again,
      "store a p; insert a refused; in backing_off 1; pass 199; journal; pass 1; journal release(a); in held 1; pass "
      "1599; journal; pass 1; journal take(a); take a mine; insert a inserted; journal insert(a) done(a); p=p; reason "
      "p the server's words")

STORY(backoff_of_a_refused_row_doubles,
      "config max_attempts 9; store a; refuse_times a 2; forget; pass 399; journal; pass 1; journal release(a)")

STORY(other_instance_may_store_what_was_refused_here,
      "store a p; insert a refused; pass 200; pass 1600; take a other; pass 1600; take a done; p=d")

STORY(good_rows_of_a_batch_settle_and_the_refused_one_does_not,
      "set postgres_away; receive a p; receive b q; take a mine; take b mine; clear postgres_away; turn; journal "
      "take(a) take(b) insert(a,b); insert a refused; insert b inserted; journal done(b); p=; q=p")

STORY(row_that_was_refused_does_not_share_a_batch_with_others,
      "store a; insert a refused; pass 200; pass 1600; store x; take a mine; receive b; take b mine; forget; insert x "
      "inserted; journal done(x) insert(a); insert a inserted; journal done(a) insert(b)")

STORY(refused_row_becomes_a_dead_letter_after_max_attempts,
      "store a p; refuse_times a 3; forget; p=; dead_letter a; journal dead(a); p=r; reason p the server's words; "
      "dead_lettered 1; flight 0")

STORY(attempts_are_counted_here_when_redis_is_away,
      "set redis_away; receive a; turn; insert a refused; pass 200; in storing 1; insert a refused; pass 400; "
      "in storing 1; forget; insert a refused; journal dead_letter(a:the server's words)")

STORY(hopeless_row_becomes_a_dead_letter_at_once,
      "store a p; insert a hopeless; journal dead_letter(a:the server's words); dead_letter a; journal dead(a); "
      "p=r")

STORY(nothing_is_rejected_before_its_dead_letter_is_recorded,
      "store a p; insert a hopeless; pass 60000; without dead(; p=; flight 1")

/* --- messages that are not events --- */

STORY(message_that_is_no_event_is_recorded_and_never_claimed,
      "raw p {}; turn; journal dead_letter(-:/event_id is missing: the event has no id); dead_letter -; journal; "
      "p=r; received 1; dead_lettered 1")

Test(pipeline, head_of_a_long_message_keeps_the_digest_and_length_of_the_whole)
{
	const uint8_t digest[32] = {7};
	const struct list *refused = &pipeline_events(pipeline)->lists[EV_REFUSED];

	pipeline_refuse_long(pipeline, NULL, "head", 4, digest, 70000, &find_producer("p")->sender);
	const struct event *ev = list_entry(refused->next, struct event, link);
	cr_assert_eq(memcmp(ev->digest, digest, 32), 0);
	cr_assert_eq(memcmp(ev->message, "head", 4), 0);
	tell("turn; journal dead_letter(-:the message has 70000 bytes, more than --max-message allows, so only its "
	     "first 4 are kept); dead_letter -; p=r; "
	     "reason p the message has 70000 bytes, more than --max-message allows, so only its first 4 are kept");
}

/* --- events that are too old --- */

STORY(stale_event_is_a_dead_letter_and_neither_claimed_nor_marked,
      "config max_age 60; receive old@100 p; receive young@10; turn; "
      "journal take(young) dead_letter(old:stale: /time is more than 1m ago); dead_letter old; journal; p=r; "
      "reason p stale: /time is more than 1m ago; stale 1; dead_lettered 1")

STORY(event_without_a_time_is_a_dead_letter_when_ages_count,
      "config max_age 60; receive timeless; turn; journal dead_letter(timeless:no time: /time is missing or not a "
      "string or number); stale 1")

STORY(stale_message_is_rejected_with_the_one_at_work,
      "config max_age 60; receive a@10 p; receive a@100 q; take a mine; insert a hopeless; dead_letter a; p=r; "
      "dead_letter a; q=r; reason q stale: /time is more than 1m ago; stale 1")

/* The message in flight was taken in time; its row is for both. */
STORY(stale_copy_of_an_event_at_work_joins_it,
      "config max_age 60; receive a@10; receive a@100 p; take a mine; insert a inserted; p=d; stale 0")

STORY(copy_with_a_good_time_is_not_lost_with_a_stale_one,
      "config max_age 60; receive a@100; receive a@10 p; turn; take a mine; dead_letter a; insert a inserted; p=p")

STORY(event_that_is_too_old_at_its_turn_is_a_dead_letter_and_marked,
      "config max_age 60; receive x@10; take x mine; receive a@10 p; receive b@-100 q; take a mine; take b mine; "
      "receive a@10; "
      "forget; wrong 55; insert x inserted; journal done(x) insert(b); insert b inserted; "
      "journal done(b) dead_letter(a:stale: /time is more than 1m ago); dead_letter a; journal dead(a); p=r; q=p; "
      "stale 2; dead_lettered 2; flight 0")

STORY(row_of_an_event_that_is_too_old_at_its_turn_makes_it_a_duplicate,
      "config max_age 60; receive x@10; take x mine; receive a@10 p; take a unknown; wrong 55; insert x inserted; "
      "dead_letter a has_row; p=d; dead_lettered 0")

STORY(event_that_was_put_off_is_too_old_at_its_next_turn,
      "config max_age 60; receive a@10 p; take a mine; insert a later; wrong 55; pass 200; in dead_lettering 1; "
      "dead_letter a; p=r")

STORY(younger_message_with_the_id_of_one_that_is_too_old_is_tried,
      "config max_age 60; receive x@10; take x mine; receive a@10 p; take a mine; receive a@-100 q; wrong 55; insert x "
      "inserted; "
      "dead_letter a; take a mine; insert a inserted; p=r; q=p; stale 1")

STORY(next_event_with_the_key_of_one_that_is_too_old_is_claimed,
      "config max_age 60; receive x@10; take x mine; event a:t:{\"key\":1}@10 p; take a mine; event "
      "b:t:{\"key\":1}@-100 q; "
      "in held 1; wrong 55; insert x inserted; reason p ; dead_letter a; reason p stale: the event's time is more "
      "than 1m ago; take b mine; insert b inserted; q=p")

Test(pipeline, more_events_than_a_batch_can_be_too_old)
{
	tell("config max_age 60; receive x@10; take x mine");
	for (int i = 0; i < 250; i++)
		tellf("receive a%d@10; take a%d mine", i, i);
	tell("wrong 55; insert x inserted; in batched 50; in refused 100; in dead_lettering 100");
}

STORY(dead_letters_and_events_take_turns,
      "store x; refuse r1; receive a; take a mine; forget; insert x inserted; journal done(x) dead_letter(-:r1); "
      "refuse r2; dead_letter -; journal insert(a); receive b; take b mine; insert a inserted; "
      "journal take(b) done(a) dead_letter(-:r2)")

Test(pipeline, few_dead_letters_do_not_take_every_second_statement)
{
	static const char *const batches[][2] = {{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}, {"i", "j"}};
	unsigned int inserts = 0;

	tell("store x; refuse r1; insert x inserted; journal done(x) dead_letter(-:r1); refuse r2; batch a; batch b; "
	     "dead_letter -");
	while (strstr(fake_journal(), "insert(") && ++inserts < 5)
		tellf("batch %s; batch %s; forget; insert %s inserted; insert %s inserted", batches[inserts][0],
		      batches[inserts][1], batches[inserts - 1][0], batches[inserts - 1][1]);
	cr_assert_eq(inserts, 4);
	tell("in dead_lettering 1");
}

STORY(empty_message_is_recorded, "raw -; turn; in dead_lettering 1; dead_letter -; dead_lettered 1")

/* --- leases --- */

/* Milliseconds, in steps of 100, until the journal says "renew(a)" and nothing else. */
static int64_t wait_for_renewal(void)
{
	for (int64_t ms = 100; ms <= TTL_MS; ms += 100) {
		pass(100);
		const char *journal = fake_journal();
		if (strcmp(journal, "renew(a)") == 0)
			return ms;
		if (strcmp(journal, "rest") == 0)
			continue;
		cr_assert_str_eq(journal, "");
	}
	return -1;
}

Test(pipeline, claim_of_long_work_is_renewed_at_a_third_of_the_ttl)
{
	tell("store a");
	for (int i = 0; i < 5; i++) {
		int64_t ms = wait_for_renewal();

		cr_assert(ms >= TTL_MS / 3 && ms < TTL_MS / 2, "renewed after %lld ms", (long long)ms);
	}
}

STORY(claims_are_renewed_wherever_an_event_waits,
      "store a; slowly 14000; journal rest renew(a); insert a hopeless; slowly 14000; "
      "journal wake dead_letter(a:the server's words) renew(a)")

STORY(lease_lasts_through_a_long_backoff,
      "config max_attempts 1000; store a; refuse_times a 8; forget; slowly 14000; journal renew(a)")

STORY(claim_that_is_not_ours_is_not_renewed,
      "set redis_away; receive a; turn; clear redis_away; slowly 30000; journal insert(a) rest")

STORY(nothing_is_renewed_while_redis_is_away, "store a; set redis_away; slowly 30000; journal rest")

/* --- a listener that cannot store --- */

STORY(what_waits_behind_a_batch_without_an_answer_is_given_back,
      "store x; receive a; take a mine; journal take(a); slowly 500; journal; slowly 500; journal rest release(a); in "
      "held 1; told a; duplicates 1; in storing 1")

STORY(who_cannot_store_makes_no_claim_and_goes_on_when_it_can,
      "store x; slowly 1000; journal rest; receive a p; pass 400; journal; insert x inserted; journal done(x) wake; "
      "pass 800; journal take(a); take a mine; insert a inserted; p=p")

STORY(claim_that_is_got_too_late_is_given_back,
      "store x; receive a; slowly 1000; take a mine; journal take(a) rest release(a); in held 1")

STORY(batch_that_postgres_cannot_store_is_left_to_others,
      "store x p; set postgres_failing; slowly 1000; journal rest release(x); insert x present; "
      "journal done(x) wake; p=d")

STORY(who_can_only_put_events_off_leaves_them_to_others,
      "store x; insert x later; pass 200; insert x later; pass 400; insert x later; forget; slowly 700; "
      "journal rest release(x)")

STORY(an_event_that_is_blocked_says_nothing_of_others, "store a; insert a blocked; pass 200; insert a blocked; pass "
						       "400; insert a blocked; forget; slowly 700; journal insert(a)")

STORY(what_was_left_to_others_may_be_held_for_long_again,
      "store x; receive a; take a other; slowly 1000; slowly 58500; insert x inserted; slowly 1600; in claiming 1; "
      "hold_timeouts 0")

STORY(batch_that_may_be_committed_is_not_left_to_others, "store x; set postgres_away; slowly 1000; journal rest")

STORY(one_event_finds_out_whether_rows_can_be_stored_again,
      "set postgres_away; receive a; receive b; take a mine; take b mine; slowly 1000; journal take(a) take(b) rest "
      "release(a,b); clear postgres_away; pass 900; journal; pass 150; journal insert(a); insert a inserted; journal "
      "done(a) wake")

STORY(who_could_not_store_and_has_nothing_to_try_claims_again_after_a_while,
      "set postgres_away; receive a; take a mine; slowly 1000; journal take(a) rest release(a); told a; clear "
      "postgres_away; slowly 8000; journal; slowly 2500; journal wake")

STORY(who_leaves_stores_what_it_can,
      "set postgres_away; receive a; take a mine; slowly 1000; drain; turn; forget; clear postgres_away; turn; "
      "journal insert(a)")

STORY(without_redis_rows_wait_for_postgres,
      "set redis_away; set postgres_away; receive a; slowly 2000; receive b; in batched 2; forget; "
      "clear postgres_away; turn; journal insert(a,b)")

/* --- pressure --- */

/* Events big0, big1, ... of some 10,000 bytes each, until reading is to stop. */
static int fill_memory(void)
{
	char message[10000];
	int n = 0;

	for (; !is_pressed; n++) {
		cr_assert_lt(n, 100, "no pressure");
		snprintf(message, sizeof(message), "{\"event_id\":\"%s\",\"payload\":\"%09900d\"}", id_of("big", n), 0);
		pipeline_receive(pipeline, message, strlen(message), NULL, NULL);
	}
	return n;
}

Test(pipeline, reading_stops_at_the_budget_and_goes_on_below_seven_eighths)
{
	int n = fill_memory();

	cr_assert_geq(pipeline_bytes(pipeline), 100000);
	cr_assert_lt(pipeline_bytes(pipeline), 111000);
	cr_assert(pipeline_is_full(pipeline));
	cr_assert_eq(counters.pauses, 1);
	for (int i = 0; i < n && is_pressed; i++) {
		cr_assert_geq(pipeline_bytes(pipeline), 87500);
		tellf("take big%d done", i);
	}
	cr_assert_not(is_pressed);
	cr_assert_lt(pipeline_bytes(pipeline), 87500);
	cr_assert_not(pipeline_is_full(pipeline));
	cr_assert_eq(pressure_calls, 2);
}

Test(pipeline, without_producers_nothing_is_said_of_them)
{
	close_pipeline();
	config.sources.count = 1;
	reopen_pipeline();
	capture_begin();
	tell("charge 80000; turn; pressure none; charge -80000; turn");
	cr_assert_str_eq(captured(), "");
	capture_end();
}

/* A fast source and a small budget make many pauses a second. */
Test(pipeline, pauses_are_logged_once_a_minute)
{
	capture_begin();
	for (int i = 0; i < 10; i++)
		tell("charge 100000; full 1; charge -100000; turn; full 0");
	cr_assert_eq(captured_times("memory limit reached, reading paused"), 1, "%s", captured());
	cr_assert_eq(captured_times("reading resumed"), 1);
	tell("pass 60000; charge 100000; charge -100000; turn; full 0");
	cr_assert_eq(captured_times("reading paused"), 2);
	cr_assert_eq(captured_times("reading resumed"), 2);
	tell("charge 100000; full 1; turn");
	cr_assert_eq(captured_times("reading paused"), 2);
	tell("pass 60000; turn");
	cr_assert_eq(captured_times("reading paused"), 3, "it lasts");
	tell("charge -100000; turn; full 0");
	cr_assert_eq(captured_times("reading resumed"), 3);
	capture_end();
}

STORY(where_there_are_feeds_producers_stop_at_three_quarters,
      "config feeds; charge 74999; pressure none; charge 1; pressure producers; full_for_producers 1; full 0; pauses "
      "0; "
      "charge 25000; pressure all; pauses 1; charge -20000; turn; pressure producers; charge -20000; turn; "
      "pressure none; charge -60000")

Test(pipeline, message_is_taken_over_the_budget_too)
{
	fill_memory();
	size_t before = pipeline_events(pipeline)->messages;
	tell("receive a; pressure_calls 1");
	cr_assert_eq(pipeline_events(pipeline)->messages, before + 1);
}

Test(pipeline, held_events_count_for_the_budget)
{
	int n = fill_memory();

	for (int i = 0; i < n; i++)
		tellf("take big%d other", i);
	tell("pressure all");
}

STORY(messages_not_yet_complete_count_for_the_budget,
      "charge 99999; pressure none; charge 1; pressure all; charge -100000; turn; pressure none; bytes 0")
STORY(commands_that_redis_has_not_answered_count_too, "charge 90000; unanswered 78; turn; pressure none; unanswered "
						      "79; turn; pressure all; unanswered 0; turn; pressure "
						      "all; charge -2501; turn; pressure none; charge -87499")

Test(pipeline, copies_with_a_sender_count_for_the_budget)
{
	tell("receive a p");
	size_t before = pipeline_bytes(pipeline);
	tell("receive a p");
	cr_assert_gt(pipeline_bytes(pipeline), before);
}

STORY(producers_wait_while_too_many_claims_have_no_answer,
      "config inflight_bytes 1073741824; receive 0..8191; pressure none; receive 8191..8192; pressure producers; full "
      "0; take 0..4096 done; pressure producers; take 4096..4097 done; pressure none; pauses 0")

STORY(where_there_are_feeds_producers_stop_before_the_claims_pile_up,
      "config feeds; config inflight_bytes 1073741824; receive 0..6143; pressure none; receive 6143..6144; pressure "
      "producers; receive 6144..20000; pressure producers")

#define FAR_AHEAD "config feeds; config inflight_bytes 1073741824; set channel; set other_leader; "

STORY(who_is_far_ahead_of_a_channel_that_moves_stops_reading_until_half_is_told,
      FAR_AHEAD "receive 0..16383; told a0; receive 16383..16384; pressure producers; receive 16384..16385; pressure "
		"all; full 0; pauses 0; tell 1..8193; pressure all; tell 8193..8194; pressure producers")
STORY(who_is_far_ahead_of_a_silent_channel_reads_on,
      FAR_AHEAD "receive 0..20000; pressure producers; told a0; receive 20000..20001; pressure all; pass 1999; "
		"pressure all; pass 1; pressure producers")
STORY(who_leads_a_source_itself_reads_on_however_far_ahead_of_others,
      FAR_AHEAD "told x; clear other_leader; receive y; set other_leader; receive 0..20000; told a0; receive "
		"20000..20001; pressure producers")

/* Each copy waits for a second then, as many as a feed sends in it. */
STORY(producers_are_read_however_many_copies_wait_without_redis,
      FAR_AHEAD "receive 0..5000; pressure producers; set redis_away; receive 5000..5001; pressure none")

STORY(who_has_more_than_is_soon_stored_stops_reading_until_half_is,
      "config feeds; config inflight_bytes 1073741824; receive 0..32767; pressure producers; receive 32767..32768; "
      "pressure all; full 0; pauses 0; take 0..16384 done; pressure all; take 16384..16385 done; pressure producers")
STORY(who_has_more_than_a_slow_postgres_stores_reads_on,
      "config feeds; config inflight_bytes 1073741824; receive 0..32768; pass 1999; pressure all; pass 1; pressure "
      "producers")

STORY(producers_wait_while_rows_pile_up_before_a_postgres_that_works,
      "config inflight_bytes 1073741824; store x; receive 0..400; take 0..399 mine; pressure none; take 399..400 mine; "
      "pressure producers; pressure_calls 1")

/* A message of 1 MiB. */
static void receive_mebibyte(const char *id)
{
	static char message[1 << 20];
	int head = snprintf(message, sizeof(message), "{\"event_id\":\"%s\",\"payload\":\"", id);

	memset(message + head, 'x', sizeof(message) - (size_t)head);
	memcpy(message + sizeof(message) - 2, "\"}", 2);
	pipeline_receive(pipeline, message, sizeof(message), NULL, NULL);
}

Test(pipeline, producers_wait_while_bytes_pile_up_before_a_postgres_that_works)
{
	tell("config inflight_bytes 1073741824; store x");
	for (int i = 0; i < 32; i++) {
		cr_assert_eq(pressed, PRESSURE_NONE, "after %d MiB", i);
		receive_mebibyte(id_of("a", i));
		tellf("take a%d mine", i);
	}
	tell("pressure producers; full 0");
}

STORY(feeds_are_read_while_rows_pile_up_until_the_budget_is_used,
      "config feeds; config inflight_bytes 1073741824; store x; receive 0..9000; take 0..9000 mine; "
      "pressure producers; full 0; charge 1073741824; pressure all; full 1; charge -1073741824")

/* One that stores a batch of 100 in 900 ms. */
static void store_slowly(int batches)
{
	static int n;

	for (; batches--; n += 100) {
		pass(450);
		pass(450);
		for (int i = n; i < n + 100; i++)
			fake_answer_insert(id_of("a", i), STORE_INSERTED);
		turn();
	}
}

Test(pipeline, store_is_slow_when_rows_wait_for_long_behind_a_full_batch)
{
	const char *why;

	tell("receive 0..400; take 0..400 mine");
	store_slowly(1);
	cr_assert_eq(storing_is_slow(pipeline_storing(pipeline), &why), 0, "a burst");
	store_slowly(2);
	cr_assert_eq(storing_is_slow(pipeline_storing(pipeline), &why), 2700);
	cr_assert_str_eq(why, "postgres is slow: 100 events wait, the oldest for 2 s");
	store_slowly(1);
	pass(250);
	cr_assert_eq(storing_is_slow(pipeline_storing(pipeline), &why), 0);
	cr_assert_str_eq(why, "");
}

STORY(rows_may_pile_up_before_a_postgres_that_stalls,
      "config inflight_bytes 1073741824; set postgres_away; receive 0..1000; take 0..1000 mine; pressure none")

/* A drain is not the return of Postgres. */
Test(pipeline, who_cannot_store_says_so_each_minute_and_not_that_it_can_when_it_drains)
{
	char said[4096] = "";
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_neq(dup2(ends[1], STDERR_FILENO), -1);
	log_setup(LOG_INFO, LOG_TEXT, "a");
	tell("set postgres_away; receive a; take a mine; slowly 62000; drain; slowly 1000");
	cr_assert_gt(read(ends[0], said, sizeof(said) - 1), 0);
	cr_assert(strstr(said, "event=\"cannot store, leaving claims to other listeners\" times="), "%s", said);
	cr_assert(strstr(said, " for_s=60 "), "%s", said);
	cr_assert_null(strstr(said, "storing again"), "%s", said);
}

/* --- draining --- */

STORY(row_that_waits_for_its_backoff_goes_to_the_store_while_draining,
      "store a; insert a refused; forget; drain; pass 200; journal release(a) insert(a)")

STORY(idle_pipeline_is_drained_at_once, "drain; turn; left 0")

STORY(drain_sends_held_events_to_the_store,
      "hold a p; drain; turn; journal insert(a); left -1; insert a present; p=d; left 0; pass 60000; left 0")

STORY(event_that_would_be_held_while_draining_goes_to_the_store,
      "receive a; drain; take a other; journal take(a) insert(a)")

STORY(held_event_that_is_being_claimed_goes_to_the_store_too,
      "hold a; pass 400; drain; take a other; journal take(a) insert(a)")

STORY(drain_waits_for_the_answers_of_redis, "unanswered 1; drain; turn; left -1; unanswered 0; turn; left 0")

/* --- notes --- */

STORY(nothing_is_stored_before_the_first_note_is_answered,
      "set checkin_slow; config max_attempts 3; receive a; take a mine; journal take(a); tells \"is_leaving\":false; "
      "clear checkin_slow; turn; journal insert(a)")

STORY(database_whose_rows_were_deleted_is_unusable_without_the_guard,
      "config note 2592000; unusable were deleted from this database")

STORY(note_is_told_each_minute, "forget; pass 59000; tells; pass 1000; tells \"events\":0")

STORY(copy_that_only_the_unique_key_finds_is_noted_by_its_id,
      "store late; insert late present; store new; insert new inserted; pass 60000; "
      "tells \"late\":[[\"late\",60000]]")

STORY(last_note_is_told_before_the_end,
      "store a; set checkin_slow; drain; insert a inserted; turn; tells \"is_leaving\":true; left -1; "
      "clear checkin_slow; turn; left 0")

STORY(last_note_that_has_no_answer_is_waited_for_a_second,
      "set checkin_slow; drain; turn; pass 900; left -1; pass 200; left 0")

STORY(last_note_waits_for_the_answer_to_a_question_that_is_not_late,
      "forget; set question; drain; turn; left -1; clear question; turn; tells \"is_leaving\":true; turn; left 0")

STORY(last_note_does_not_wait_for_a_late_answer, "forget; set question; set stalled; drain; turn; left 0; tells")

STORY(without_postgres_there_is_no_last_note, "forget; set postgres_away; drain; turn; left 0; tells")

STORY(drain_releases_and_reports_what_is_left_after_its_timeout,
      "store a; receive a; receive b; take b mine; receive c; forget; drain; pass 4999; journal; pass 1; "
      "journal release(b) release(a); left -1; pass 200; left 4")

STORY(event_that_settles_during_the_last_moment_is_not_left,
      "store a; receive b; drain; pass 5000; insert a inserted; take b done; left 0; pass 200; left 0")

STORY(nothing_is_claimed_after_the_drain_timeout,
      KEYED("a", "1") KEYED("b", "1") "turn; take a mine; turn; drain; forget; pass 5000; journal release(a); "
				      "insert a inserted; turn; journal done(a) insert(b)")

STORY(claim_that_is_answered_after_the_drain_timeout_is_given_back,
      "receive a; drain; pass 5000; forget; take a mine; journal release(a) insert(a)")

/* --- life --- */

Test(pipeline, closing_answers_nobody)
{
	tell("receive claiming p; hold held p; store storing p; refuse refused p");
	close_pipeline();
	tell("p=");
	counters = (struct counters){0};
	open_pipeline();
}

STORY(unusable_database_is_reported, "ruin too old; unusable too old")

/* --- everything at once --- */

static uint32_t seed = 1;

static int pick(int n)
{
	seed = seed * 1664525 + 1013904223;
	return (int)((seed >> 8) % (uint32_t)n);
}

static void move_one(struct event *ev, const char *id)
{
	static const enum claim_result takes[] = {CLAIM_MINE, CLAIM_MINE, CLAIM_OTHER,
						  CLAIM_DONE, CLAIM_DEAD, CLAIM_UNKNOWN};
	static const enum store_result rows[] = {STORE_INSERTED, STORE_INSERTED, STORE_PRESENT, STORE_REFUSED,
						 STORE_HOPELESS};

	switch (ev->state) {
	case EV_CLAIMING:
		fake_answer_take(id, takes[pick(6)]);
		return;
	case EV_STORING:
		fake_answer_insert(id, rows[pick(5)]);
		return;
	case EV_DEAD_LETTERING:
		fake_answer_dead_letter(id, STORE_DEAD_LETTERED);
		return;
	case EV_HELD:
	case EV_BEHIND:
	case EV_BATCHED:
	case EV_BACKING_OFF:
	case EV_REFUSED:
	case EV_DONE:
	case EVENT_STATES:
		return;
	}
}

/* Answers one call about one of these ids, if there is any. */
static void move_any(void)
{
	char id[20];
	const struct list *dead_letters = &pipeline_events(pipeline)->lists[EV_DEAD_LETTERING];

	snprintf(id, sizeof(id), "r%d", pick(30));
	struct event *ev = find_event(pipeline_events(pipeline), id);
	if (!list_is_empty(dead_letters)) { /* of one that is in no table, too */
		ev = list_entry(dead_letters->next, struct event, link);
		snprintf(id, sizeof(id), "%.*s", (int)ev->id_len, ev->id);
	}
	if (ev)
		move_one(ev, id);
}

/* When the next event is said to have come, in microseconds since 1970. */
static int64_t next_time(const char *id)
{
	receive(id);
	return list_entry(pipeline_events(pipeline)->lists[EV_CLAIMING].prev, struct event, link)->came_us;
}

Test(pipeline, time_of_an_event_follows_a_clock_that_is_set_back_by_more_than_a_second)
{
	int64_t first = next_time("a"), ahead, back;

	clock_set_wrong(3600);
	ahead = next_time("b");
	cr_assert_geq(ahead, first + 3600 * INT64_C(1000000));
	clock_set_wrong(3599);
	cr_assert_gt(next_time("c"), ahead, "no more than a second");
	clock_set_wrong(0);
	back = next_time("d");
	cr_assert(back > first && back < ahead - 3500 * INT64_C(1000000), "%lld after %lld", (long long)back,
		  (long long)first);
	cr_assert_gt(next_time("e"), back);
}

Test(pipeline, whatever_the_stages_answer_nothing_is_lost_or_answered_twice)
{
	static struct producer producers[3000];
	int asked = 0;
	char id[20], payload[40];

	for (int i = 0; i < 30000; i++) {
		if (i % 10 == 0 && asked < 3000) {
			snprintf(id, sizeof(id), "r%d", pick(30));
			snprintf(payload, sizeof(payload), ",\"payload\":%d", pick(12));
			producers[asked].sender.answer = on_answer;
			receive_message(id, payload, &producers[asked++].sender);
		}
		move_any();
		fake.is_redis_away = pick(100) == 0;
		clock_pass(pick(100));
		uv_run(&loop, UV_RUN_NOWAIT);
		assert_nothing_is_lost();
		fake_journal();
	}
	fake.is_redis_away = false;
	pipeline_drain(pipeline);
	for (int i = 0; i < 100000 && left < 0; i++) {
		move_any();
		uv_run(&loop, UV_RUN_NOWAIT);
		clock_pass(pick(100) == 0);
		fake_journal();
	}
	cr_assert_eq(left, 0);
	cr_assert_eq(counters.received, 3000);
	for (int i = 0; i < asked; i++)
		cr_assert_eq(strlen(producers[i].answers), 1, "message %d: '%s'", i, producers[i].answers);
}

/* --- producers that leave --- */

static int answers_to_gone;

/* A producer that has left is freed with its answer. The sanitizers notice any later use. */
static void on_answer_to_gone(struct sender *s, const struct event *ev, enum outcome outcome)
{
	answers_to_gone++;
	free(s);
}

static void receive_from_gone(const char *id)
{
	struct sender *s = calloc(1, sizeof(*s));

	cr_assert(s);
	s->answer = on_answer_to_gone;
	receive_message(id, "", s);
	assert_nothing_is_lost();
}

/* Two copies of a arrive after `before`, from producers that leave before it settles. */
static const struct {
	enum event_state state;
	const char *before, *there, *then;
} stays[] = {
	{EV_CLAIMING, "turn", "turn", "take a mine; insert a inserted"},
	{EV_HELD, "turn", "take a other", "pass 400; take a done"},
	{EV_HELD, "turn", "take a other", "pass 400; take a mine; insert a present"},
	{EV_HELD, "set channel", "take a other", "told a; clear channel"},
	{EV_BEHIND, "receive a/1", "turn", "take a mine; insert a inserted"},
	{EV_BEHIND, "receive a/1; take a mine", "turn",
	 "insert a hopeless; dead_letter a; take a mine; insert a inserted"},
	{EV_BATCHED, "store x", "take a mine", "insert x inserted; insert a inserted"},
	{EV_STORING, "turn", "take a mine", "insert a inserted"},
	{EV_BACKING_OFF, "turn", "take a mine; insert a later", "pass 200; insert a inserted"},
	{EV_BACKING_OFF, "turn", "take a mine; insert a refused", "pass 200; pass 1600; take a dead"},
	{EV_REFUSED, "store y; batch x", "take a mine; insert y inserted; insert a hopeless",
	 "insert x inserted; dead_letter a"},
	{EV_DEAD_LETTERING, "turn", "take a mine; insert a hopeless", "dead_letter a"},
	{EV_REFUSED, "turn", "take a mine; insert a hopeless; dead_letter a not_dead_lettered",
	 "pass 2000; dead_letter a"},
};

Test(pipeline, producers_that_have_left_are_answered_once_whatever_their_event_waited_for)
{
	bool has[EVENT_STATES] = {[EV_DONE] = true};

	for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++) {
		answers_to_gone = 0;
		tell(stays[i].before);
		receive_from_gone("a");
		receive_from_gone("a");
		tell(stays[i].there);
		cr_expect_gt(in_state(stays[i].state), 0, "stay %zu", i);
		cr_assert_eq(answers_to_gone, 0, "stay %zu", i);
		tell(stays[i].then);
		cr_expect_eq(answers_to_gone, 2, "stay %zu: %d answers", i, answers_to_gone);
		has[stays[i].state] = true;
		close_pipeline();
		open_pipeline();
		memset(&counters, 0, sizeof(counters));
		fake_journal();
	}
	for (int state = 0; state < EVENT_STATES; state++)
		cr_expect(has[state], "no stay in %s", event_state_name((enum event_state)state));
}
