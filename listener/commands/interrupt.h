/* interrupt.h: Ctrl-C in commands that work in steps. */
#ifndef WSONCE_INTERRUPT_H
#define WSONCE_INTERRUPT_H

#include <stdbool.h>

/* Makes the first SIGINT or SIGTERM set a flag. The second one ends the process. */
void interrupt_watch(void);

/* True after the first signal: finish the current step and print the counts. */
bool interrupt_has_come(void);

#endif
