/* The headers of Criterion and the C library that most unit tests include, and the log of a test. */
#ifndef SUPPORT_UNIT_H
#define SUPPORT_UNIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Makes one of many keys of 24 bytes, whose first word is n, that have the same value under uthash's own hash. */
void make_colliding_key(uint32_t n, char *key);

/* Checks that run takes about as much CPU time with such keys as with others. It makes its keys with make and returns
 * the CPU seconds that it used. */
void collisions_must_cost_no_more(double (*run)(void (*make)(uint32_t n, char *key)));

/* Writes a server's frame with a compressed message to at, which has room for 64 KiB. Returns its length. */
size_t compressed_frame(char *at, const char *message, size_t len);

/* From now on what is logged, from level info on, is kept and not shown. */
void capture_begin(void);

/* What was logged since then, and how often it has this text. Lives until the next of these calls. */
const char *captured(void);
int captured_times(const char *part);

/* Ends that. Returns what was logged. */
const char *capture_end(void);

#endif
