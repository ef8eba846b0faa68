/* resp.h: formats Redis commands for the wire (RESP). */
#ifndef WSONCE_RESP_H
#define WSONCE_RESP_H

#include <stddef.h>
#include <stdint.h>

struct resp {
	char *bytes; /* grows as needed and is reused for the next command */
	size_t len;
	size_t size;
};

/* Starts a command of count words. The calls below add them. */
void resp_start(struct resp *c, size_t count);
/* Starts a command from formatted parts, its count included; or adds such parts. */
void resp_start_ready(struct resp *c, const char *parts, size_t len);
void resp_ready(struct resp *c, const char *parts, size_t len);
void resp_word(struct resp *c, const char *text);
void resp_bytes(struct resp *c, const char *at, size_t len);
/* Adds one word, a followed by b. */
void resp_joined(struct resp *c, const char *a, size_t a_len, const char *b, size_t b_len);
void resp_number(struct resp *c, int64_t n);
void resp_free(struct resp *c);

#endif
