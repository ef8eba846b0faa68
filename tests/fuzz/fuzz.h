/* For all fuzzers: the C library, the function to call for an input, and the report of a finding. */
#ifndef FUZZ_H
#define FUZZ_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* Tries one input: each fuzzer defines it, and driver.c calls it. */
void try_input(const uint8_t *data, size_t size);

/* libFuzzer's entry points. driver.c defines the first; fuzzers may define the others. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);

/* Sets address to a free port of 127.0.0.1, for a server to use, and returns the port. */
int find_port(struct sockaddr_in *address);

/* Requires what must be true for every input. Otherwise prints the sentence, and libFuzzer keeps the input. */
#define must(is_true, ...) \
	do { \
		if (!(is_true)) { \
			fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
			fprintf(stderr, __VA_ARGS__); \
			fputc('\n', stderr); \
			abort(); \
		} \
	} while (0)

#endif
