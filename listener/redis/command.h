/* command.h: a Redis command as the bytes that go over the wire (RESP). */
#ifndef WSONCE_COMMAND_H
#define WSONCE_COMMAND_H

#include <stddef.h>
#include <stdint.h>

struct command {
	char *bytes; /* grows as needed, kept for the next command */
	size_t len;
	size_t size;
};

/* Starts a command of count words; the words follow by the calls below. If memory runs out, len
 * becomes 0 and stays so until the next command_start. */
void command_start(struct command *c, size_t count);
/* Starts a command with parts that are formatted already, its count included; or adds such parts. */
void command_start_ready(struct command *c, const char *parts, size_t len);
void command_ready(struct command *c, const char *parts, size_t len);
void command_word(struct command *c, const char *text);
void command_bytes(struct command *c, const char *at, size_t len);
/* One word that is a and b without anything between. */
void command_joined(struct command *c, const char *a, size_t a_len, const char *b, size_t b_len);
void command_number(struct command *c, int64_t n);
void command_free(struct command *c);

#endif
