/* memory.h: what happens when memory is out and nobody can be told by a result. */
#ifndef WSONCE_MEMORY_H
#define WSONCE_MEMORY_H

/* Gives the libraries that have a hook for it (libuv, libwebsockets, jansson, OpenSSL, hiredis) an
 * allocator that ends the process when memory is out. Call it once, before anything else is called. */
void memory_setup(void);

#endif
