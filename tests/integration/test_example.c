/* The example of a handler, sql/examples: every event is sent twice in random order to listeners that are killed, and
 * the orders match the events to the cent. */
#include "support.h"
#include "bench.h"

#define ORDERS     60
#define PER_ORDER  24 /* events at most */
#define TEXT       200
#define SETTLED_MS 60000
#define README     "A Ada shipped 4 37.50 37.50 12 High Street, B Grace cancelled 0 0 0"
#define REPAIRED   "A Ada shipped 4 37.50 37.50 12 High Street, B Grace cancelled 2 12.00 0"

/* The expected order, computed independently. */
struct order {
	int rank; /* in statuses */
	long items;
	long total; /* cents */
	long paid;
	int moved; /* the last address, 0: none */
};

static const char *const statuses[] = {"unknown", "created", "paid", "shipped", "cancelled"};

static struct fleet fleet;
static struct order orders[ORDERS];
static char events[ORDERS * PER_ORDER][TEXT];
static int event_count;

static void set_up(void)
{
	char *sql = suite_read("sql/examples/orders.sql");

	db = database_new();
	database_exec(db, "%s", sql);
}

TestSuite(example, .init = set_up, .timeout = 300);

/* --- events --- */

__attribute__((format(printf, 3, 4))) static void add_event(int order, const char *type, const char *members, ...)
{
	int n = event_count++;
	size_t len = (size_t)snprintf(
		events[n], TEXT, "{\"event_id\":\"x-%d\",\"event_type\":\"order.%s\",\"payload\":{\"order\":\"o-%d\"",
		n, type, order);
	va_list args;

	va_start(args, members);
	len += (size_t)vsnprintf(events[n] + len, TEXT - len, members, args);
	va_end(args);
	len += (size_t)snprintf(events[n] + len, TEXT - len, "}}");
	cr_assert_lt(len, TEXT);
}

static void add_item(int order, struct order *o)
{
	long quantity = 1 + rand() % 9, cents = 1 + rand() % 99999;

	add_event(order, "item_added", ",\"sku\":\"s-%d\",\"quantity\":%ld,\"price\":%ld.%02ld", rand() % 50, quantity,
		  cents / 100, cents % 100);
	o->items += quantity;
	o->total += quantity * cents;
}

static void add_payment(int order, struct order *o)
{
	long cents = 1 + rand() % 99999;

	add_event(order, "paid", ",\"amount\":%ld.%02ld", cents / 100, cents % 100);
	o->paid += cents;
	o->rank = 2;
}

static void add_order(int order)
{
	struct order *o = &orders[order];

	add_event(order, "created", ",\"customer\":\"c-%d\"", order);
	o->rank = 1;
	for (int n = rand() % 10; n > 0; n--)
		add_item(order, o);
	for (int n = rand() % 3; n > 0; n--)
		add_payment(order, o);
	o->moved = rand() % 5;
	for (int n = 1; n <= o->moved; n++)
		add_event(order, "address_changed", ",\"address\":\"a-%d\",\"at\":\"2026-11-20T10:00:%02dZ\"", n, n);
	if (rand() % 3) {
		add_event(order, "shipped", "%s", "");
		o->rank = 3;
	}
	if (rand() % 4 == 0) {
		add_event(order, "cancelled", "%s", "");
		o->rank = 4;
	}
}

/* Sends every event twice, in random order. */
static const char **shuffle_twice(void)
{
	int n = 2 * event_count;
	const char **order = calloc((size_t)n, sizeof(*order));

	for (int i = 0; i < n; i++)
		order[i] = events[i / 2];
	for (int i = n - 1; i > 0; i--) {
		int other = rand() % (i + 1);
		const char *text = order[i];

		order[i] = order[other];
		order[other] = text;
	}
	return order;
}

/* --- judging --- */

static void must_be(int order, const struct order *o)
{
	char *found = database_text(
		db,
		"SELECT concat_ws(' ', customer, status, items, (total * 100)::bigint, "
		"(paid * 100)::bigint, coalesce(address, 'none')) FROM shop.orders WHERE order_id = 'o-%d'",
		order);
	char *wanted = suite_text("c-%d %s %ld %ld %ld %s", order, statuses[o->rank], o->items, o->total, o->paid,
				  o->moved ? suite_text("a-%d", o->moved) : "none");
	cr_assert(found && strcmp(found, wanted) == 0, "order %d is %s, not %s", order, found, wanted);
}

static void must_be_exact(void)
{
	for (int i = 0; i < ORDERS; i++)
		must_be(i, &orders[i]);
	cr_assert_eq(bench_count("shop.orders"), ORDERS);
	cr_assert_eq(bench_count("shop.orders WHERE total <> (SELECT coalesce("
				 "sum(quantity * price), 0) FROM shop.lines AS l WHERE l.order_id = orders.order_id)"),
		     0);
	cr_assert_eq(fleet_rows(&fleet), event_count);
	cr_assert_eq(bench_count("dead_letters"), 0);
}

/* --- tests --- */

static void kill_in_the_middle(int victim)
{
	listener_wait_ready(fleet.listeners[victim]);
	fleet_wait_rows(&fleet, event_count / 20, SETTLED_MS);
	listener_kill(fleet.listeners[victim]);
	fleet_launch_one(&fleet, victim);
}

/* Listener 2 is never killed, so a living listener has each event. */
static void feed_twice_under_kills(const struct listener_options *options)
{
	srand(4);
	for (int i = 0; i < ORDERS; i++)
		add_order(i);
	const char **order = shuffle_twice();
	fleet_start(&fleet, 3, db, options, "--handler shop.on_event --claim-ttl 1 --batch-max 50");
	for (int i = 0; i < 2 * event_count; i++) {
		feed_send_text(fleet.feed, order[i]);
		if (i % (event_count / 4) == event_count / 4 - 1)
			kill_in_the_middle(i / (event_count / 4) % 2);
	}
	fleet_wait_ready(&fleet);
	await(fleet_rows(&fleet) == event_count && fleet_metric(&fleet, "wsonce_in_flight") == 0, SETTLED_MS,
	      "%ld rows of %d", fleet_rows(&fleet), event_count);
	must_be_exact();
}

Test(example, orders_are_exact_after_all_events_came_twice_shuffled_under_kills)
{
	feed_twice_under_kills(NULL);
}

/* Without Redis, every copy reaches the unique key. */
Test(example, orders_are_exact_without_redis_too)
{
	feed_twice_under_kills(&(struct listener_options){.redis = "none"});
}

static void must_have_orders(const char *wanted)
{
	char *found =
		database_text(db, "SELECT string_agg(concat_ws(' ', order_id, customer, status, items, total, paid, "
				  "address), ', ' ORDER BY order_id) FROM shop.orders");

	cr_assert_str_eq(found, wanted);
}

static const char *repaired_file(void)
{
	static const char text[] = "{\"event_id\": \"b-2\", \"event_type\": \"order.item_added\", \"payload\": "
				   "{\"order\": \"B\", \"sku\": \"cup\", \"quantity\": 2, \"price\": 6.00}}";

	return suite_file("repaired", text);
}

Test(example, its_file_makes_the_orders_of_its_readme_however_often_it_is_replayed)
{
	run_expect(db, 1, "persisted 11, duplicates 2, rejected 1",
		   "replay sql/examples/orders.ndjson --handler shop.on_event --max-attempts 2");
	must_have_orders(README);
	run_expect(db, 1, "persisted 0, duplicates 13, rejected 1",
		   "replay sql/examples/orders.ndjson --handler shop.on_event --max-attempts 2 --redis none");
	must_have_orders(README);
	cr_assert_eq(bench_count("shop.lines"), 2);
	cr_assert_eq(bench_count("dead_letters WHERE event_id = 'b-2' AND reason LIKE "
				 "'%%invalid input syntax for type integer: \"two\"%%'"),
		     1);
}

Test(example, its_dead_letter_is_repaired_and_has_its_effect_once)
{
	const char *path = repaired_file();

	run_expect(db, 1, "rejected 1", "replay sql/examples/orders.ndjson --handler shop.on_event --max-attempts 2");
	for (int i = 0; i < 2; i++)
		run_expect(db, 0, i ? "persisted 0, duplicates 1" : "persisted 1",
			   "dead-letters retry --id 1 --raw-file %s --handler shop.on_event", path);
	must_have_orders(REPAIRED);
}
