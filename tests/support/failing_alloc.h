/* Memory that runs out once. The unit tests are linked so (ld's --wrap, see the Makefile) that what our
 * own objects ask for goes through here; libraries are not concerned. */
#ifndef SUPPORT_FAILING_ALLOC_H
#define SUPPORT_FAILING_ALLOC_H

#include <stdbool.h>

/* From now on allocation number n fails (from 1 on; 0: none), and those after it work again. */
void failing_alloc_start(unsigned long n);

/* None fails any more. Returns how many there were since the start. */
unsigned long failing_alloc_stop(void);

/* Lets the first allocation of run fail, then only the second, and so on, until run needs no more; after
 * each, run must work undisturbed. run returns whether it could do its work, and checks by itself that
 * its errors are as documented. The test fails if run fails without cause. Returns how many allocations
 * run needs. */
unsigned long failing_alloc_sweep(bool (*run)(void));

#endif
