/* The headers of Criterion and the C library that most unit tests include. */
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

#endif
