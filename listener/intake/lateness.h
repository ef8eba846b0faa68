/* lateness.h: acks that go out later than a profile's ack_deadline_ms allows: counted, and a line a minute. */
#ifndef WSONCE_LATENESS_H
#define WSONCE_LATENESS_H

#include <stdint.h>

/* Of one source, or of the producers; zero at first. */
struct lateness {
	int64_t told_ms; /* loop clock, of the last line; 0: none */
	uint64_t late;   /* since then */
	int64_t longest_ms;
};

/* An ack of a frame that came at came_ms goes out now; both on the loop clock. deadline_ms: 0: there is none. */
void lateness_note(struct lateness *l, const char *source, int64_t came_ms, int64_t now_ms, int64_t deadline_ms);

#endif
