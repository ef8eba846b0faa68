/* What all fuzzers share: the C library, what is called for an input, and how a finding is told. */
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

/* libFuzzer's entry points. The first is driver.c's; fuzzers may define the others. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);

/* Puts a port of 127.0.0.1 that is free now, for a server to take, into address and returns it. */
int find_port(struct sockaddr_in *address);

/* What must be true for every input. Otherwise the sentence is printed, and libFuzzer keeps the input. */
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
