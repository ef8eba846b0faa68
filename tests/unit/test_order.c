/* Whose turn it is among events with the same key. */
#include "event/order.h"
#include "unit.h"

#define KEYS 20000

TestSuite(order, .timeout = 60);

/* Gives each of many events a key of its own. Returns the CPU seconds. */
static double set_all(void (*make)(uint32_t n, char *key))
{
	static struct event events[KEYS];
	clock_t began = clock();
	struct order order;
	char key[24];

	order_init(&order);
	for (uint32_t n = 0; n < KEYS; n++) {
		make(n, key);
		order_set_key(&order, &events[n], (struct slice){key, sizeof(key)});
		cr_assert(order_begin(&events[n]));
	}
	for (uint32_t n = 0; n < KEYS; n++)
		order_end(&order, &events[n]);
	cr_assert_null(order.keys);
	order_free(&order);
	return (double)(clock() - began) / CLOCKS_PER_SEC;
}

Test(order, keys_that_are_made_to_collide_cost_no_more)
{
	collisions_must_cost_no_more(set_all);
}
