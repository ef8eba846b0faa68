/* indexes.h: the indexes that only commands need. */
#ifndef WSONCE_INDEXES_H
#define WSONCE_INDEXES_H

struct session;

/* Makes the missing ones, if this role may, while others write. Without them commands take longer and find the same.
 * Returns 0; or -1 after saying why. */
int indexes_make(struct session *s);

#endif
