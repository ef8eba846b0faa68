/* mdoc.h: texts as manual pages have them, in mdoc(7). */
#ifndef WSONCE_MDOC_H
#define WSONCE_MDOC_H

#include <stddef.h>
#include <stdio.h>

/* Text: what mdoc would take for a request or an escape is made harmless, and each sentence begins a line. */
void mdoc_text(FILE *out, const char *text);

/* A page of the docs, behind its title: headings, paragraphs, lists, tables as lists of their first column, and code,
 * as docs/ has them. */
void mdoc_markdown(FILE *out, const char *page);

#endif
