/* interrupt.h: Ctrl-C in a command that works in steps. */
#ifndef WSONCE_INTERRUPT_H
#define WSONCE_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT or SIGTERM sets a flag. The second one ends the process. */
void interrupt_watch(void);

/* Has one come? Then finish the current step and print the counts. */
bool interrupt_has_come(void);

#endif
