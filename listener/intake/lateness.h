/* lateness.h: counts acks sent later than a profile's ack_deadline_ms, and logs them once a minute. */
#ifndef WSONCE_LATENESS_H
#define WSONCE_LATENESS_H

#include <stdint.h>

/* For one source, or for all producers. Starts as all zeros. */
struct lateness {
	int64_t told_ms; /* loop clock, when it was last logged; 0: never */
	uint64_t late;   /* late acks since told_ms */
	int64_t longest_ms;
};

/* Call when an ack goes out for a frame that came at came_ms (loop clock). deadline_ms 0 means none. */
void lateness_note(struct lateness *l, const char *source, int64_t came_ms, int64_t now_ms, int64_t deadline_ms);

#endif
