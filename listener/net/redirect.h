/* redirect.h: where a redirect of a feed's handshake leads. */
#ifndef WSONCE_REDIRECT_H
#define WSONCE_REDIRECT_H

#include "base/url.h"

/* The URL that location means as an answer to a request for url, with the same user and password, on the heap. NULL
 * and the reason in why if it leads elsewhere: what we say to a feed, nobody else is to hear. */
char *redirect_follow(const struct url *url, const char *location, const char **why);

#endif
