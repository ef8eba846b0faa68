/* steps.h: what histories did to single events. */
#ifndef WSONCE_SIM_STEPS_H
#define WSONCE_SIM_STEPS_H

#include <stdio.h>

#include "event/event.h"

void steps_start(void);
/* An event is about to be moved. */
void steps_move(const struct event *ev, enum event_state to);
/* pipeline_receive() is about to be called, and has returned: an event that is made elsewhere comes from the spool. */
void steps_receiving(void);
void steps_received(void);
/* "step CALLBACK ANSWER FROM TO HAS-ROW HAS-LETTER COUNT", each that was seen, a line. */
void steps_print(FILE *out);

#endif
