/* feeds.h: feeds with numbered frames, and the rules for their listeners. */
#ifndef WSONCE_SIM_FEEDS_H
#define WSONCE_SIM_FEEDS_H

#include "config/profile.h"
#include "world.h"

const char *feeds_describe(const struct feed_settings *s);

/* Call at the beginning of each history. */
void feeds_start(const struct plan *plan);
/* NULL if the feed is plain: its messages go to listeners without this file. */
struct profile *feeds_profile(void);

/* SHA-256 of what the program stores of an event of type t. */
void feeds_digest(const char *id, const char *payload, unsigned char digest[32]);

/* Sends a frame with this message, and maybe others, to all listeners. Listeners whose bit in `to` is not set
 * reconnect. draw decides everything else. */
void feeds_publish(int message, unsigned int to, uint64_t draw);
/* Ends the listener's connection; it can reconnect after lasts_us, or at once if the feed's connections overlap. */
void feeds_cut(int process, int64_t lasts_us);
/* The listener has exited. */
void feeds_died(int process);
void feeds_calm(void);

/* Summed over all listeners. */
double feeds_items_read(void);
bool feeds_have_settled(void);
void feeds_finish(bool has_forgotten);

#endif
