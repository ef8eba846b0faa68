/* resp.h: formats Redis commands for the wire (RESP). */
#ifndef WSONCE_RESP_H
#define WSONCE_RESP_H

#include <stdint.h>

#include "base/bytes.h"

/* Starts a command of count words. The calls below add them. */
void resp_start(struct bytes *c, size_t count);
void resp_word(struct bytes *c, const char *text);
/* Adds all these words. */
#define resp_words(c, ...) resp_add_words(c, (const char *const[]){__VA_ARGS__, NULL})
void resp_add_words(struct bytes *c, const char *const *words);
void resp_bytes(struct bytes *c, const char *at, size_t len);
/* Adds one word, a followed by b. */
void resp_joined(struct bytes *c, const char *a, size_t a_len, const char *b, size_t b_len);
void resp_number(struct bytes *c, int64_t n);

#endif
