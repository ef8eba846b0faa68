/* libraries.h: sets up libraries before they are used. */
#ifndef WSONCE_LIBRARIES_H
#define WSONCE_LIBRARIES_H

/* Gives libuv, libwebsockets, jansson, OpenSSL and hiredis an allocator that ends the process when memory runs out.
 * Call it once, before any of them. */
void libraries_setup(void);

#endif
