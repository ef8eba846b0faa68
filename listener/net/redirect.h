/* redirect.h: follows a redirect of a feed's handshake. */
#ifndef WSONCE_REDIRECT_H
#define WSONCE_REDIRECT_H

#include "base/url.h"

/* Resolves location against url and keeps its user and password. Returns the URL on the heap; or NULL with a reason in
 * why if it leads to another server, which must not get our credentials. */
char *redirect_follow(const struct url *url, const char *location, const char **why);

#endif
