/* shown.h: a conninfo without its secrets. */
#ifndef WSONCE_POSTGRES_SHOWN_H
#define WSONCE_POSTGRES_SHOWN_H

/* key=value pairs in libpq's form, on the heap: those that the conninfo gives, passwords as ***; "" gives libpq's own
 * defaults, which are not shown. */
char *postgres_show_conninfo(const char *conninfo);

#endif
