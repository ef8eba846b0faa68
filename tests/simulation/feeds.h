/* feeds.h: feeds that number what they send, and what their listeners may say of it. */
#ifndef WSONCE_SIM_FEEDS_H
#define WSONCE_SIM_FEEDS_H

#include "config/profile.h"
#include "world.h"

const char *feeds_describe(const struct feed_settings *s);

/* At the beginning of each history. */
void feeds_start(const struct plan *plan);
/* NULL: the feed is plain, and its messages go to listeners without any of this. */
struct profile *feeds_profile(void);

/* SHA-256 of what is kept of an event of type t. */
void feeds_digest(const char *id, const char *payload, unsigned char digest[32]);

/* A frame with this message, and maybe others, for all listeners; those whose bits are not set make their connection
 * anew. draw decides all else. */
void feeds_publish(int message, unsigned int to, uint64_t draw);
/* Its connection ends, and can be made again then; at once where connections overlap, beside the one before. */
void feeds_cut(int process, int64_t lasts_us);
/* The listener's life has ended. */
void feeds_died(int process);
void feeds_calm(void);

/* By all listeners. */
double feeds_items_read(void);
bool feeds_have_settled(void);
void feeds_finish(bool has_forgotten);

#endif
