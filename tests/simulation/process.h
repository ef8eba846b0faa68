/* process.h: interfaces between the simulator's own files: processes, histories, failures. */
#ifndef WSONCE_SIM_PROCESS_H
#define WSONCE_SIM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#include "sim.h"

/* --- sim.c --- */

void sim_begin(uint64_t seed, bool is_shown);
/* Restarts the random numbers from this seed. */
void sim_seed(uint64_t seed);
/* Runs the next event; false if there is none. */
bool sim_step(void);
void sim_run_as(int process);
void sim_break_link(int process, enum sim_server server, enum sim_link state, int64_t lasts_us);
void sim_slow_link(int process, enum sim_server server, int64_t by_us, int64_t lasts_us);
void sim_heal_links(void);
/* Returns until when bytes arrive that were retransmitted. */
int64_t sim_late_until(int process);
int sim_fd_flags(int fd);
void sim_close_fds_of(int process);
/* As if its machine had crashed. */
void sim_vanish_fds_of(int process);
bool sim_is_shown(void);
uint64_t sim_digest(void);
void sim_print_reached(FILE *out);
/* Compares texts, not pointers. */
uint64_t sim_count_reached(const char *what, const char *met);
uint64_t sim_hash(const char *text);
/* A copy of the text that is never freed. */
const char *sim_known(const char *text);

/* --- uv.c: processes and their loops --- */

/* Starts a process. main(loop) is called at once as this process, and its loop runs from now on. */
void process_start(int process, void (*main)(uv_loop_t *loop));
/* kill -9: its memory, timers and sockets are gone. */
void process_kill(int process);
/* Ends what the current process is doing. */
void process_stop(void) __attribute__((noreturn));
/* Ends the current process. */
void process_exit(void) __attribute__((noreturn));
bool process_is_alive(int process);
void process_freeze(int process, int64_t lasts_us);
/* Sets its wall clock off by this much. */
void process_step_clock(int process, int64_t by_us);
void process_wake(int process);
/* Calls fn(arg) as the process, from its loop, as soon as possible; not if the process has died meanwhile. */
void process_call(int process, void (*fn)(void *arg), void *arg);
bool process_has_calls(int process);
/* Frees all memory of processes. */
void process_end_all(void);
/* Turns of loops so far in this history. */
uint64_t process_turns(void);

/* malloc and free of the simulator itself, which do not count as a process's. */
void *process_real_malloc(size_t size);
void process_real_free(void *block);

/* --- fault_point.c --- */

/* Chooses the program's rare paths that this seed takes, except those whose bits are set. */
void fault_point_start(uint64_t seed, uint64_t left_out);
/* Does this history take any? */
bool fault_point_is_on(void);
void fault_point_cease(void);
void fault_point_tell(void);
size_t fault_point_count(void);
const struct fault_point *fault_point_at(size_t i);

/* --- coverage.c --- */

/* Prints what the histories reached and what they did not. Returns the number of pairs not reached without a reason. */
int coverage_print(FILE *out);

/* --- main.c --- */

/* Reports a wrong history and ends it (by longjmp); its seed is printed. */
void process_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
