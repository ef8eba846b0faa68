/* interrupt.h: Ctrl-C in a command that works step by step. */
#ifndef WSONCE_INTERRUPT_H
#define WSONCE_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT or SIGTERM is only remembered. The second one ends the process. */
void interrupt_watch(void);

/* Has one come? The step at hand is finished, and the counts are told. */
bool interrupt_has_come(void);

#endif
