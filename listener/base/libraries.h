/* libraries.h: what libraries are told before they are used. */
#ifndef WSONCE_LIBRARIES_H
#define WSONCE_LIBRARIES_H

/* Gives those that have a hook for it (libuv, libwebsockets, jansson, OpenSSL, hiredis) an allocator that ends the
 * process when memory is out. Call it once, before anything else is called. */
void libraries_setup(void);

#endif
